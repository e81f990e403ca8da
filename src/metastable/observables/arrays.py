"""What every observable does first: check the arrays, and cut the work into blocks that fit in memory."""

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metastable.errors import InputError, unknown

if TYPE_CHECKING:
    from metastable.equation.dynamics import Dynamics

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Run(Protocol):
    """What observables and plots read of a run: a `Trajectory`, or anything else with these members."""

    @property
    def t(self) -> np.ndarray:
        """The saved times (T,)."""

    @property
    def x(self) -> np.ndarray:
        """Tokens (T, ..., n, d)."""

    @property
    def dynamics(self) -> "Dynamics | None":
        """What moved the tokens; None for tokens measured in a model."""

    @property
    def chart(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The coordinates of a rescaled run (see `Trajectory.coordinates`)."""

    def moved_by(self, what: str) -> "Dynamics":
        """The dynamics, or an InputError that says why there is no ``what`` without it."""

    def attention(self, index: int = -1) -> np.ndarray:
        """Attention (..., h, n, n) at a saved time."""

    def coordinates(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tokens in V's own coordinates: (zeta, eigenvalues, left vectors)."""


MOST_ENTRIES = 2**21  # pair entries held at once: 16 MB per float64 temporary

_FEW = 8  # coordinates up to which a maximum over them is taken one by one: NumPy reduces short axes slowly

# how far apart two tokens are: the angle between them, or their distance
MEASURES = {"sphere": "angle", "euclidean": "distance", "rescaled": "distance"}


def tokens(x: ArrayLike) -> Floats:
    """``x`` as finite float64 tokens (..., n, d) with n, d >= 1, or a sentence that says what is wrong."""
    try:
        array = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"Tokens must be a real array (..., n, d), not {type(x).__name__}.") from error
    if array.ndim < 2 or 0 in array.shape[-2:]:
        raise InputError(f"Tokens must have shape (..., n, d) with n, d >= 1, not {array.shape}.")
    if not np.isfinite(array).all():
        raise InputError("Tokens hold nan or inf; cut the run where it is still finite.")
    return array


def attention(P: ArrayLike) -> Floats:
    """``P`` as finite float64 attention matrices (..., n, n), or a sentence."""
    array = np.asarray(P, dtype=np.float64)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2] or array.shape[-1] == 0:
        raise InputError(f"Attention must have shape (..., n, n) with n >= 1, not {array.shape}.")
    if not np.isfinite(array).all():
        raise InputError("The attention holds nan or inf; cut the run where it is still finite.")
    return array


def unit(x: Floats) -> Floats:
    """Every token divided by its length; a token at 0 has no direction and is refused."""
    # scaling by the largest entry first keeps the square of a huge or tiny token within range
    axes = range(x.shape[-1])
    largest = reduce(np.maximum, (np.abs(x[..., c]) for c in axes)) if len(axes) <= _FEW else np.abs(x).max(axis=-1)
    if (largest == 0).any():
        raise InputError("A token is exactly 0, so it has no direction; use kind='inner', or geometry='euclidean'.")
    scaled = x / largest[..., None]
    return np.asarray(scaled / np.sqrt(np.einsum("...d,...d->...", scaled, scaled))[..., None])


def not_negative(name: str, value: float) -> float:
    """``value`` as a number >= 0 (inf is allowed), or a sentence."""
    number = float(value)
    if not number >= 0:
        raise InputError(f"{name} must be a number >= 0, not {value!r}.")
    return number


def metric(x: Floats, tolerance: float, geometry: str) -> tuple[Floats, float]:
    """Points and a Euclidean radius such that |p - q| <= radius says "within ``tolerance``" in the geometry.

    On the sphere the angle a becomes the chord 2 sin(a/2): arccos of an inner product loses every angle below
    1e-8.
    """
    if geometry not in MEASURES:
        raise unknown("geometry", geometry, MEASURES)
    radius = not_negative("tolerance", tolerance)
    if MEASURES[geometry] == "distance":
        scale = safe_scale(x)
        return x * scale, radius * scale if radius * scale < 1e150 else np.inf  # its square must not overflow
    return unit(x), 2.0 * np.sin(radius / 2.0) if radius < np.pi else np.inf


def safe_scale(x: Floats) -> float:
    """1, or the power of two (scaling stays exact) that brings x near 1 where its squares would overflow."""
    size = float(np.abs(x).max(initial=0.0))
    return 1.0 if size < 1e100 else 2.0 ** -int(np.frexp(size)[1])


def blocks(batch: int, rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    """Slices (of the batch, of the rows) whose batch x rows x columns blocks stay below MOST_ENTRIES.

    >>> list(blocks(2, 3, 4))
    [(slice(0, 2, None), slice(0, 3, None))]
    """
    some = max(1, min(batch, MOST_ENTRIES // (rows * columns)))
    block = max(1, min(rows, MOST_ENTRIES // (some * columns)))
    for b in range(0, batch, some):
        for r in range(0, rows, block):
            yield slice(b, min(b + some, batch)), slice(r, min(r + block, rows))
