"""attend: one call that picks the exact or the linear-time sum, and says which and why."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from metastable.engines.calibrate import coefficient
from metastable.engines.exact.sums import exact
from metastable.engines.spectral import ranks
from metastable.engines.spectral.expansion import first_rank, refusal, spectral
from metastable.equation import masks
from metastable.equation import normalise as normalisations
from metastable.equation.masks import Mask
from metastable.equation.normalise import Normalisation
from metastable.errors import InputError, unknown

SUMMATIONS = ("auto", "exact", "spectral")

_NEAR = 100.0  # pairs per token that a causal expansion leaves to the exact sum: a count
_RUNNING = 1.8  # the work of a mode whose moments run along with the tokens, over that of one summed once: 1.4 to 1.8


class Attended(NamedTuple):
    """What attention gathers, how it was summed and how well.

    ``value`` (..., n, v); ``log_z`` (..., n); ``method`` "exact" or "spectral"; ``reason`` one sentence; ``error`` a
    bound on the error of the summation, relative to the length of what is summed.
    """

    value: np.ndarray
    log_z: np.ndarray
    method: str
    reason: str
    error: float


@dataclass
class Journal:
    """How the sums of a run were made: calls by method, reasons given, and the worst error."""

    calls: Counter[str] = field(default_factory=Counter)
    reasons: set[str] = field(default_factory=set)
    error: float = 0.0

    def summary(self) -> dict[str, Any]:
        """The same as plain data, for a run's provenance; reasons hold numbers, so only a few are kept."""
        return {"calls": dict(self.calls), "error": self.error, "reasons": sorted(self.reasons)[:5]}


_open: list[Journal] = []
_lock = threading.Lock()


@contextmanager
def journal() -> Iterator[Journal]:
    """Collect how every sum inside the ``with`` block was made, whichever thread makes it."""
    notes = Journal()
    with _lock:
        _open.append(notes)
    try:
        yield notes
    finally:
        with _lock:
            _open.remove(notes)


def attend(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray | None = None,
    beta: float | np.ndarray = 1.0,
    *,
    normalise: str | Normalisation = "softmax",
    mask: str | Mask = "full",
    weights: np.ndarray | None = None,
    summation: str = "auto",
    tol: float = 1e-12,
    radial: bool = True,
    symmetric: bool | None = None,
) -> Attended:
    """sum_j A_ij v_j without the n x n matrix A.

    Parameters
    ----------
    q, k : arrays (..., n, d)
        Queries and keys; scores are beta <q_i, k_j>. Leading axes (runs, heads) are summed one by one.
    v : array (..., n, v), optional
        Values; the keys when left out, which the linear-time sum needs.
    beta : float or array over the leading axes
    normalise : {"softmax", "unnormalised", "hardmax"} or Normalisation with a stream
    mask : {"full", "causal", "window(w)", "window(w, causal)"} or Mask with an interval
    weights : array (n,), optional
        Token j counts as weights[j] tokens; one of weight 0 is a query only.
    summation : {"auto", "exact", "spectral"}
        "spectral" still falls back to the exact sum where no expansion reaches ``tol``.
    tol : float
        Error allowed in a row of the value, relative to the length of the keys.
    radial : bool
        False leaves out the part of the value along q_i: what is left is the velocity of tokens q = k on the sphere.
    symmetric : bool, optional
        Whether <q_i, k_j> = <q_j, k_i>; found out when left out.

    Examples
    --------
    >>> x = np.eye(3)
    >>> got = attend(x, x, beta=2.0)
    >>> got.value[0].round(4).tolist(), got.method
    ([0.787, 0.1065, 0.1065], 'exact')
    """
    if summation not in SUMMATIONS:
        raise unknown("summation", summation, SUMMATIONS)
    if not tol > 0:
        raise InputError(f"tol must be > 0, not {tol!r}.")
    kind = normalisations.resolve(normalise).stream
    if kind is None:
        raise InputError(f"The normalisation {normalise!r} has no streaming sum; use softmax, unnormalised or hardmax.")
    ask = _Ask(kind, masks.resolve(mask), weights, summation, tol, radial, symmetric)
    same = q is k
    q = np.asarray(q)
    k = q if same else np.asarray(k)
    v = None if v is None or v is k else np.asarray(v)
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], () if v is None else v.shape[:-2], np.shape(beta))
    if not lead:
        return _one(q, k, v, float(beta), ask)
    q = np.broadcast_to(q, (*lead, *q.shape[-2:]))
    k = q if same else np.broadcast_to(k, (*lead, *k.shape[-2:]))
    v = None if v is None else np.broadcast_to(v, (*lead, *v.shape[-2:]))
    return _each(q, k, v, np.broadcast_to(beta, lead), ask)


@lru_cache(maxsize=64)
def view_of(mask: Mask, n: int) -> str:
    """What the rows of a mask see: "all" tokens, all "earlier" ones and themselves, or "some" interval."""
    if mask.visible is None:
        return "all"
    low, high = mask.bounds(n)
    return "earlier" if not low.any() and np.array_equal(high, np.arange(1, n + 1)) else "some"


class _Ask(NamedTuple):
    """What is asked of a sum, besides its arrays."""

    kind: str
    mask: Mask
    weights: np.ndarray | None
    summation: str
    tol: float
    radial: bool
    symmetric: bool | None


def _each(q: np.ndarray, k: np.ndarray, v: np.ndarray | None, beta: np.ndarray, ask: _Ask) -> Attended:
    """One sum after the other over the leading axes."""
    parts = []
    for at in np.ndindex(*beta.shape):
        queries = q[at]
        parts.append(_one(queries, queries if q is k else k[at], None if v is None else v[at], float(beta[at]), ask))
    value = np.stack([p.value for p in parts]).reshape(*beta.shape, *parts[0].value.shape)
    log_z = np.stack([p.log_z for p in parts]).reshape(*beta.shape, -1)
    worst = max(parts, key=lambda p: p.error)
    method = worst.method if len({p.method for p in parts}) == 1 else "mixed"
    return Attended(value, log_z, method, worst.reason, worst.error)


def _one(q: np.ndarray, k: np.ndarray, v: np.ndarray | None, beta: float, ask: _Ask) -> Attended:
    """One sum, entered in the open journals."""
    got = _linear_or_exact(q, k, v, beta, ask)
    with _lock:
        for notes in _open:
            notes.calls[got.method] += 1
            notes.reasons.add(got.reason)
            notes.error = max(notes.error, got.error)
    return got


def _linear_or_exact(q: np.ndarray, k: np.ndarray, v: np.ndarray | None, beta: float, ask: _Ask) -> Attended:
    if q.dtype == k.dtype == np.float32 and q.size and k.size:  # tokens that are themselves no better than that
        ask = ask._replace(tol=max(ask.tol, 4.0 * (8.0 + _strength(q, k, beta)) * float(np.finfo(np.float32).eps)))
    why = "asked for" if ask.summation == "exact" else _against(q, k, v, beta, ask)
    if why is None:
        got = spectral(
            q,
            k,
            beta,
            kind=ask.kind,
            view=view_of(ask.mask, len(k)),
            weights=ask.weights,
            tol=ask.tol,
            radial=ask.radial,
        )
        if not isinstance(got, str):
            reason = f"modes up to {got.rank}, {got.rescued} rows exact"
            return Attended(*got.sums, "spectral", reason, max(got.error, got.measured))
        why = got
    bounds: tuple[np.ndarray | None, np.ndarray | None] = (None, None)
    if view_of(ask.mask, len(k)) != "all":
        bounds = ask.mask.bounds(len(q))
    value, log_z = exact(
        q, k, v, beta, kind=ask.kind, low=bounds[0], high=bounds[1], weights=ask.weights, symmetric=ask.symmetric
    )
    if not ask.radial:
        value = value - (np.einsum("id,id->i", q, value) / np.einsum("id,id->i", q, q))[:, None] * q
    rounding = (8.0 + np.sqrt(len(k))) * float(
        np.finfo(value.dtype).eps
    )  # roundings of a sum add up like a random walk
    return Attended(value, log_z, "exact", why, float(rounding))


def _against(q: np.ndarray, k: np.ndarray, v: np.ndarray | None, beta: float, ask: _Ask) -> str | None:
    """What speaks against the linear-time sum before anything is computed, or None."""
    if v is not None:
        return "values are not the keys"
    if q.shape != k.shape or q.ndim != 2 or q.size == 0:
        return "queries and keys differ in number"
    n, d = k.shape
    kappa = _strength(q, k, beta)
    why = refusal(d, kappa, ask.kind, view_of(ask.mask, n), ask.tol)
    if why is not None or ask.summation == "spectral":
        return why
    linear, pairwise = _costs(n, d, kappa, ask, q is k or bool(ask.symmetric))
    return None if linear < pairwise else f"n = {n} is too small for an expansion to win"


def _strength(q: np.ndarray, k: np.ndarray, beta: float) -> float:
    """|beta| |q| |k|, from the first tokens: the expansion checks that all are alike."""
    return abs(beta) * float(np.linalg.norm(q[0])) * float(np.linalg.norm(k[0]))


def linear_seconds(n: int, d: int, kappa: float, tol: float, earlier: bool) -> float | None:
    """Seconds of an expansion of n tokens, or None where it needs too many modes."""
    rank = first_rank(d, kappa, tol) if kappa <= ranks.HIGHEST else None
    if rank is None:
        return None
    modes = rank + 1 if d == 2 else (rank + 1) * (rank + 2) // 2
    near = _NEAR * coefficient("pair") if earlier else 0.0
    return n * (coefficient("token") + near + (_RUNNING if earlier else 1.0) * coefficient(f"mode_{d}") * modes)


def _costs(n: int, d: int, kappa: float, ask: _Ask, symmetric: bool) -> tuple[float, float]:
    """Seconds of the linear-time and of the exact sum."""
    earlier = view_of(ask.mask, n) == "earlier"
    linear = linear_seconds(n, d, kappa, ask.tol, earlier) or np.inf
    if earlier:
        return linear, 0.5 * coefficient("pair") * n * n
    seen = n if ask.weights is None else np.count_nonzero(ask.weights)
    if not symmetric:
        return linear, coefficient("pair") * n * n
    rest = coefficient("call") + coefficient("pair") * (n - seen) * seen if seen < n else 0.0
    return linear, coefficient("symmetric_pair") * seen * seen + rest
