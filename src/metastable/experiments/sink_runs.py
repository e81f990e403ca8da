"""Runs behind `metastable.experiments.sinks`: weights, tokens under causal attention, and what token 1 receives."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from metastable.backend import jax, jnp
from metastable.equation.dynamics import Dynamics
from metastable.equation.normalise import Normalisation
from metastable.equation.weights import Weights
from metastable.experiments.base import Data
from metastable.experiments.second_token import angle_to_first
from metastable.solve.simulate import simulate

VALUES = ("V = I", "V random", "V = -I")
SCORES = ("random Q, K", "Q = K = I", "Q = K random", "Q = -K = I")  # the first is what verdicts are given on
BINS = np.linspace(-1.0, 1.0, 21)  # of alignments


def matrices(d: int, seed: int, value: str, score: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, K, V of one instance; random entries are normal, of variance 1 for V and 1/d for Q and K."""
    rng, eye = np.random.default_rng([seed, 1]), np.eye(d)
    drawn = rng.standard_normal((d, d))
    A, B = rng.standard_normal((2, d, d)) / np.sqrt(d)
    V = {"V = I": eye, "V random": drawn, "V = -I": -eye}[value]
    Q, K = {"random Q, K": (A, B), "Q = K = I": (eye, eye), "Q = K random": (A, A), "Q = -K = I": (eye, -eye)}[score]
    return Q, K, V


def _linear(scores: Any, visible: Any) -> Any:
    weights = jnp.where(True if visible is None else visible, 1.0 + scores, 0.0)
    return weights / weights.sum(axis=-1, keepdims=True)


LINEAR = Normalisation(_linear, name="linear", stochastic=True, by_rows=True)  # for unit vectors and Q = K = I


def tokens(
    weights: Sequence[Any],
    betas: Sequence[float],
    x0: np.ndarray,
    t: Sequence[float],
    dt: float,
    normalise: Any = "softmax",
) -> np.ndarray:
    """Tokens of every case at the times t, (cases, T, n, d); one (Q, K, V), beta and start per case."""
    dynamics = [
        Dynamics(Weights(Q, K, V), beta=b, mask="causal", normalise=normalise) for (Q, K, V), b in zip(weights, betas)
    ]
    return np.stack([one.x for one in simulate(dynamics, x0, float(t[-1]), dt, save=t)])


def measured(x: np.ndarray, Q: np.ndarray, K: np.ndarray, beta: np.ndarray, normalise: Any) -> Data:
    """For each case: the ratio and alignment over time (cases, T), and attention per token at the end (cases, n)."""
    P = np.asarray(attention(normalise)(Q, K, beta, x))  # (cases, T, n, n)
    away = np.tril(P, -1)[..., 1:, :]  # viewers 2..n, themselves left out
    total, even = away.sum(axis=-1), 1.0 / np.arange(1, x.shape[-2])
    # a viewer that gives nothing away (linear weights of opposite tokens) counts as even-handed
    part = np.where(total > 0.0, away[..., 0] / np.where(total > 0.0, total, 1.0), even)
    ratio = part.mean(axis=-1) / even.mean()
    scores = np.einsum("ctnd,cqd,cqe,ctme->ctnm", x, Q, K, x, optimize=True)
    seen = np.tri(x.shape[-2], k=-1)[2:, 1:]  # viewers 3..n, tokens 2..n
    others = (scores[..., 2:, 1:] * seen).sum(axis=-1) / seen.sum(axis=-1)
    alignment = (scores[..., 2:, 0] - others).mean(axis=-1)
    return {"ratio": ratio, "alignment": alignment, "mass": P[:, -1].mean(axis=-2), "second": angle_to_first(x)}


def attention(normalise: Any) -> Any:
    """The simulator's own causal attention of many cases at many times, compiled once per normalisation."""
    if normalise not in _COMPILED:

        def one(Q: Any, K: Any, beta: Any, x: Any) -> Any:
            return Dynamics(Weights(Q, K), beta=beta, mask="causal", normalise=normalise).attention(0.0, x)[
                ..., 0, :, :
            ]

        _COMPILED[normalise] = jax.jit(jax.vmap(one))
    return _COMPILED[normalise]


_COMPILED: dict[Any, Any] = {}
