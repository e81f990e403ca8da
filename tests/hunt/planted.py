"""Instances whose end is known, all of one shape (8 tokens in dimension 3) so that they share compiled code."""

import numpy as np

from metastable.hunt.instances import Batch, joined

ANGLE = np.pi / 4
TURN = 1.8


def one(a, b, G, z, lead=1, leads=1):
    """A batch of one instance; a pair of directions turns where b is not 0."""
    a, b = np.array(a, dtype=float), np.array(b, dtype=float)
    partner = np.arange(3)
    for i in np.flatnonzero(b > 0):
        partner[i], partner[i + 1] = i + 1, i
    parts = {
        "a": a,
        "b": b,
        "partner": partner,
        "grows": a > 0,
        "lead": np.array(lead),
        "G": np.array(G, dtype=float)[None],
        "E": np.zeros((1, 3, 3)),
        "z": np.array(z, dtype=float),
        "scores": np.array(1),
        "leads": np.array(leads),
        "origin": np.array(0),
        "name": np.zeros(2, dtype=int),
    }
    return Batch(**{k: v[None] for k, v in parts.items()})


def polygon(size=1.0, first=0.0):
    angles = 2 * np.pi * np.arange(8) / 8
    return np.stack([np.full(8, first), size * np.cos(angles), size * np.sin(angles)], axis=1)


def ring(z=None):
    """Cyclic pursuit: every token looks ANGLE back, so the polygon grows like Re(lambda e^{-i ANGLE})."""
    c, s = np.cos(ANGLE), np.sin(ANGLE)
    G = [[1, 0, 0], [0, c, s], [0, -s, c]]
    noise = np.random.default_rng(0).normal(size=(8, 3)) * [0.2, 0.02, 0.02]
    return one([1, 0.6, 0.6], [0, TURN, -TURN], G, polygon(2.5) + noise if z is None else z)


def shared():
    """V = diag(1, 1, 1/2): a square of leaders, Theorem 5.1."""
    z = np.random.default_rng(1).normal(size=(8, 3)) * 0.3
    z[:4, :2] = [[2, 0], [0, 2], [-2, 0.1], [0.1, -2]]
    return one([1, 1, 0.5], [0, 0, 0], np.eye(3), z, lead=2)


def cross(first=0.0):
    """V = diag(1, 1/2, -1/2): tokens on the axes stay there; off them by ``first`` they leave after ln(1/first)."""
    z = [[2, 0, 0], [-2, 0, 0], [0, 2, 0], [0, -2, 0]] * 2
    return one([1, 0.5, -0.5], [0, 0, 0], np.eye(3), np.array(z, dtype=float) + np.array([first, 0, 0]))


def plain():
    """A good triple with random tokens."""
    return one([1, 0.5, -0.5], [0, 0, 0], np.eye(3), np.random.default_rng(2).normal(size=(8, 3)), leads=0)


def everything():
    return joined([ring(), shared(), cross(), cross(1e-7), plain()])
