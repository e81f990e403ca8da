"""Mistakes in the code that experiments have of their own, beside the engines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from metastable.continuum import law_pull
from metastable.experiments import boolean_attention, long_context, mean_field, time_scales
from metastable.solve.plan import with_numbers


def _line_velocity(kind: str) -> Callable[[np.ndarray], np.ndarray]:
    """Eq. (1) on the line with a mistake; without a mask and with V = 1 the other two are none.

    Half the beta is the whole one for tokens that are shorter by sqrt(2); A^T x goes pair by pair.
    """
    whole = mean_field.velocity

    def halved(x: np.ndarray) -> np.ndarray:
        return whole(x / np.sqrt(2.0)) * np.sqrt(2.0)

    def transposed(x: np.ndarray) -> np.ndarray:
        scores = x[..., :, None] * x[..., None, :]  # (..., n, n), symmetric
        top = scores.max(axis=-1)
        weights = np.exp(scores - top[..., None, :])  # row j of A is column j here
        return np.asarray((weights @ (x / weights.sum(axis=-2))[..., None])[..., 0])

    return halved if kind == "half beta" else transposed


@contextmanager
def _mean_field(kind: str) -> Iterator[None]:
    with patch.object(mean_field, "velocity", _line_velocity(kind)):
        yield


@contextmanager
def _boolean_attention(kind: str) -> Iterator[None]:
    """Attention read from finished runs: P^T, or P of half the scores; masks and V do not enter it."""
    whole = boolean_attention.attention

    def attention(run: Any) -> tuple[np.ndarray, np.ndarray]:
        P, gaps = whole(run)
        if kind == "transposed":
            return np.swapaxes(P, -1, -2), gaps
        weights = np.exp(gaps / 2.0)
        return weights / weights.sum(axis=-1, keepdims=True), gaps / 2.0

    with patch.object(boolean_attention, "attention", attention):
        yield


@contextmanager
def _time_scales(kind: str) -> Iterator[None]:
    """Clusters as heavy particles, moved at half their beta."""

    def halved(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda dyn, *given, **named: function(with_numbers(dyn, beta=float(dyn.beta) / 2.0), *given, **named)

    reduced = {name: halved(getattr(time_scales, name)) for name in ("coalesce", "leap")}
    with patch.multiple(time_scales, **reduced):
        yield


@contextmanager
def _law_pull(kind: str) -> Iterator[None]:
    """Integrals over a density in the place of sums over tokens, with half the beta or without V.

    The integrals of A^T would be another algorithm, so attention is not transposed here.
    """
    whole = law_pull.law_pull

    def mistaken(dyn: Any, on: Any) -> Any:
        if kind == "half beta":
            return whole(with_numbers(dyn, beta=float(dyn.beta) / 2.0), on)
        return whole(with_numbers(dyn, weights=replace(dyn.weights, V=None, O=None)), on)

    with patch.object(law_pull, "law_pull", mistaken):
        yield


@contextmanager
def _long_context(kind: str) -> Iterator[None]:
    """The exact engine's sums, called without the engine, with half the beta; one query has no A^T, and no V."""
    whole = long_context.exact

    def exact(q: np.ndarray, k: np.ndarray, *, beta: float, **named: Any) -> Any:
        return whole(q, k, beta=beta / 2.0, **named)

    with patch.object(long_context, "exact", exact):
        yield


OWN_CODE = {
    "law_pull.law_pull": _law_pull,
    "long_context.exact": _long_context,
    "mean_field.velocity": _mean_field,
    "boolean_attention.attention": _boolean_attention,
    "time_scales.coalesce": _time_scales,
}
# which experiments have it, and which mistakes can be made in it
USED_BY = {
    "law_pull.law_pull": (("density", "noise"), ("no V", "half beta")),
    "long_context.exact": (("long-context",), ("half beta",)),
    "time_scales.coalesce": (("scales",), ("half beta",)),
    "mean_field.velocity": (("mean-field",), ("transposed", "half beta")),
    "boolean_attention.attention": (
        ("low-rank-attention", "boolean-beyond", "special-starts", "flats"),
        ("transposed", "half beta"),
    ),
}
