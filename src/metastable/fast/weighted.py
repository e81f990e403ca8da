"""The velocity of weighted tokens on the sphere, on the host: what coalescence and the leap integrate."""

from collections.abc import Callable
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.fast.front import attend

_FEW_PAIRS = 20_000  # weighted tokens that have formed clusters: up to here NumPy takes less time than a kernel's call

Velocity = Callable[[np.ndarray, np.ndarray, np.ndarray | None], np.ndarray]


def check(dyn: Any, x: np.ndarray, purpose: str) -> None:
    """Refuse, in one sentence, dynamics whose tokens may not be merged into weighted ones."""
    w = dyn.weights
    why = None
    if dyn.geometry_name != "sphere":
        why = f"tokens on the sphere, not geometry {dyn.geometry_name!r}"
    elif dyn.mask_name != "full":
        why = f"full attention, not mask {dyn.mask_name!r}: a masked token is not exchangeable with its neighbours"
    elif dyn.normalise_name not in ("softmax", "unnormalised") or dyn.score_name != "dot":
        why = "softmax or unnormalised attention with the dot score"
    elif dyn.position is not None or dyn.block is not None or np.any(np.asarray(dyn.noise) != 0):
        why = "dynamics without positions, block or noise"
    elif w.time_dependent or any(b is not None for b in (w.q_bias, w.k_bias, w.v_bias, w.o_bias)):
        why = "weights without biases that do not depend on time"
    elif np.ndim(dyn.beta) or np.ndim(x) != 2:
        why = "one run at a time, tokens (n, d) and one beta"
    if why:
        raise InputError(f"{purpose} needs {why}.")


def unit(x: np.ndarray) -> np.ndarray:
    """x / |x| per token."""
    return x / np.sqrt(np.einsum("id,id->i", x, x))[:, None]  # type: ignore[no-any-return]


def tangent(x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The part of u across x, for unit x."""
    return u - np.einsum("id,id->i", x, u)[:, None] * x  # type: ignore[no-any-return]


def velocity(dyn: Any, d: int, summation: str = "auto", tol: float = 1e-12) -> Velocity:
    """f(x, w, more): velocities of the tokens x with weights w, and of weightless tokens ``more`` that only look on.

    The value at x of the extension |x| f(x / |x|) off the sphere, as in `metastable.steps.field`.
    """
    A, V = dyn.weights.score_map(0.0, d), dyn.weights.value_map(0.0, d)
    plain = np.array_equal(A, np.broadcast_to(np.eye(d), A.shape))
    straight = [_multiple_of_identity(matrix) for matrix in V]
    beta, normalise = float(dyn.beta), dyn.normalise_name

    def pull(y: np.ndarray, queries: np.ndarray, w: np.ndarray) -> np.ndarray:
        if len(y) * len(queries) <= _FEW_PAIRS:
            return sum(_plain(beta * (queries @ A[h]) @ y.T, y, w, normalise) @ V[h].T for h in range(len(V)))
        out = np.zeros_like(queries)
        for h, value_map in enumerate(V):
            q = queries if plain else queries @ A[h]
            got = attend(q, y, None, beta, normalise=normalise, weights=w, summation=summation, tol=tol,
                         radial=straight[h] is None).value  # fmt: skip
            out += got @ value_map.T if straight[h] is None else straight[h] * got
        return out

    def field(x: np.ndarray, w: np.ndarray, more: np.ndarray | None = None) -> np.ndarray:
        everyone = x if more is None else np.concatenate([x, more])
        size = np.sqrt(np.einsum("id,id->i", everyone, everyone))[:, None]
        y = everyone / size
        tokens, onlookers = y[: len(x)], y[len(x) :]
        if len(y) * len(x) <= _FEW_PAIRS:
            return size * tangent(y, pull(tokens, y, w))  # type: ignore[no-any-return]
        pulled = pull(tokens, tokens, w)  # apart from the onlookers: symmetric, and linear-time for many tokens
        if more is not None:
            pulled = np.concatenate([pulled, pull(tokens, onlookers, w)])
        return size * tangent(y, pulled)  # type: ignore[no-any-return]

    return field


def _plain(S: np.ndarray, y: np.ndarray, w: np.ndarray, normalise: str) -> np.ndarray:
    """Weighted attention with scores S (m, n) applied to y, by NumPy: few pairs are not worth a kernel's call."""
    if normalise == "unnormalised":
        return (np.exp(S) * w) @ y / w.sum()  # type: ignore[no-any-return]
    P = np.exp(S - S.max(axis=1, keepdims=True)) * w
    return P @ y / P.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]


def _multiple_of_identity(matrix: np.ndarray) -> float | None:
    scale = float(matrix[0, 0])
    return scale if np.array_equal(matrix, scale * np.eye(len(matrix))) else None
