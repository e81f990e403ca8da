"""Plausible runs to draw, from a plain NumPy loop that shares no code with the package."""

from types import SimpleNamespace

import numpy as np

from metastable.equation.geometry import GEOMETRIES


def attention(x, beta=9.0):
    """Causal softmax attention (..., n, n)."""
    score = beta * x @ x.swapaxes(-1, -2)
    score = np.where(np.tri(x.shape[-2], dtype=bool), score, -np.inf)
    P = np.exp(score - score.max(axis=-1, keepdims=True))
    return P / P.sum(axis=-1, keepdims=True)


def walk(n=64, d=3, beta=9.0, t=15.0, dt=0.1, seed=0):
    """Euler steps of causal attention on the sphere: times (T,) and tokens (T, n, d)."""
    x = np.random.default_rng(seed).normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    states = [x]
    for _ in range(round(t / dt)):
        pull = attention(x, beta) @ x
        x = x + dt * (pull - (pull * x).sum(axis=1, keepdims=True) * x)
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        states.append(x)
    return np.linspace(0.0, t, len(states)), np.array(states)


def trajectory_like(t, x, geometry="sphere", **more):
    """What the pictures ask of a `Trajectory`."""
    dynamics = SimpleNamespace(geometry=GEOMETRIES.get(geometry))
    return SimpleNamespace(t=t, x=x, dynamics=dynamics, **{"valid_until": None, "provenance": {}} | more)
