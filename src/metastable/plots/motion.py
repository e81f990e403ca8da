"""What the pictures of moving tokens are drawn from: one run's finite states, and how to move between them."""

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metastable.errors import InputError, unknown
from metastable.observables.clusters import TOLERANCE
from metastable.observables.from_trajectory import default_tolerance

Floats = NDArray[np.float64]


@runtime_checkable
class Moving(Protocol):
    """Times and tokens: a `Trajectory`, or anything else that has both."""

    @property
    def t(self) -> np.ndarray:
        """The saved times (T,)."""

    @property
    def x(self) -> np.ndarray:
        """Tokens (T, ..., n, d)."""


@dataclass(frozen=True)
class Motion:
    """One run, ready to draw.

    Parameters
    ----------
    t
        The saved times at which every token is finite, (T,).
    x
        The tokens there, (T, n, d).
    indices
        Where those times are among all saved ones, (T,).
    sphere
        Whether tokens live on the unit sphere.
    letter
        "z" for rescaled tokens, else "x".
    clock
        "t", or "layer" when time counts the layers of a network.
    note
        What the reader must know (which run of an ensemble, how far it got); often empty.
    valid_until
        The time after which rounding may have changed the run.
    end
        The last time the run was meant to save; later than t[-1] when it is unfinished.
    tolerance, unit
        How close tokens of one cluster are, as for the observables of the run, and "rad" for an angle.
    """

    t: Floats
    x: Floats
    indices: NDArray[np.intp]
    sphere: bool
    letter: str = "x"
    clock: str = "t"
    note: str = ""
    valid_until: float = np.inf
    end: float = -np.inf
    tolerance: float = TOLERANCE
    unit: str = ""

    @property
    def n(self) -> int:
        """Number of tokens."""
        return int(self.x.shape[1])

    @property
    def d(self) -> int:
        """Dimension."""
        return int(self.x.shape[2])

    def nearest(self, times: ArrayLike) -> NDArray[np.intp]:
        """Index of the saved time nearest to each given time, without repeats, in order."""
        wanted = np.atleast_1d(np.asarray(times, dtype=float))
        return np.unique(np.abs(self.t[None, :] - wanted[:, None]).argmin(axis=1))

    def at(self, times: ArrayLike) -> Floats:
        """Tokens at any times inside the run, (m, n, d): cubic Hermite between saved states.

        Slopes are second-order differences of the saved states, so no velocity has to be computed again; on the
        sphere the curve is put back on it.
        """
        when = np.clip(np.asarray(times, dtype=float), self.t[0], self.t[-1])
        if len(self.t) == 1:
            return np.repeat(self.x, len(when), axis=0)
        x = self._curve(when)  # (m, n, d)
        return on_sphere(x) if self.sphere else x

    @cached_property
    def _slopes(self) -> Floats:
        return np.gradient(self.x, self.t, axis=0, edge_order=2 if len(self.t) > 2 else 1)  # (T, n, d)

    def _curve(self, when: Floats) -> Floats:
        """The cubic through both neighbours in time with their slopes; SciPy has it too, but takes long to import."""
        k = np.clip(np.searchsorted(self.t, when, side="right") - 1, 0, len(self.t) - 2)
        h = np.diff(self.t)[k][:, None, None]
        u = (when - self.t[k])[:, None, None] / h
        x0, x1, v0, v1 = self.x[k], self.x[k + 1], h * self._slopes[k], h * self._slopes[k + 1]  # (m, n, d)
        return np.asarray(x0 + u * (v0 + u * (3 * (x1 - x0) - 2 * v0 - v1 + u * (v0 + v1 - 2 * (x1 - x0)))))

    def latest(self, times: ArrayLike) -> NDArray[np.intp]:
        """Index of the last saved time not after each given time."""
        return np.clip(np.searchsorted(self.t, np.asarray(times), side="right") - 1, 0, len(self.t) - 1)

    @property
    def clock_label(self) -> str:
        """The text before a time: "layer" or "t ="; an italic t would load matplotlib's typesetting for it alone."""
        return "layer" if self.clock == "layer" else "t ="

    def reading(self, time: float, resolution: float | None = None) -> str:
        """A time as text; says so where rounding may have changed the run."""
        text = f"{time:.0f}" if self.clock == "layer" else short(time, resolution)
        return text + (" (beyond precision)" if time > self.valid_until else "")

    def label(self, time: float) -> str:
        """What a panel at that time is called."""
        return f"{self.clock_label} {self.reading(time)}"


Movable: TypeAlias = Motion | Moving | ArrayLike


def short(value: float, resolution: float | None = None) -> str:
    """A time in few digits: as many decimals as tell steps of `resolution` apart, at least one.

    >>> short(3.0), short(0.25), short(0.333), short(1 / 3), short(12.0, 0.01), short(10000.0)
    ('3.0', '0.25', '0.333', '0.33', '12.00', '10,000')
    """
    if resolution is not None:
        decimals = int(np.clip(np.ceil(-np.log10(max(resolution, 1e-9))), 1, 6))
    else:
        decimals = next((k for k in (1, 2, 3) if abs(value - round(value, k)) < 1e-7), 2)
    if abs(value) >= 1000:
        decimals = 0
    text = f"{value:,.{decimals}f}"
    return text if float(text.replace(",", "")) or not value else f"{value:.2g}"


def on_sphere(x: Floats) -> Floats:
    """x / |x|; a token at 0 stays there."""
    norm = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.where(norm > 0, norm, 1.0)


def read_motion(tokens: Movable, t: ArrayLike | None = None, run: int = 0, geometry: str | None = None) -> Motion:
    """One run out of a trajectory or of plain arrays.

    Parameters
    ----------
    tokens
        A `Trajectory` (anything with `t`, `x` and `dynamics`), or an array (T, ..., n, d); one state (n, d) is
        a run with a single time.
    t
        Times for an array, (T,); 0, 1, 2, ... when None.
    run
        Which run of an ensemble, counted through the flattened leading axes.
    geometry
        "sphere", "euclidean" or "rescaled" for an array; unit tokens mean the sphere when None.
    """
    if isinstance(tokens, Motion):
        return tokens
    whole = isinstance(tokens, Moving)
    x = np.asarray(tokens.x if isinstance(tokens, Moving) else tokens, dtype=float)
    x = x[None] if x.ndim == 2 else x
    if x.ndim < 3 or 0 in x.shape:
        raise InputError(f"Tokens to draw have shape (times, tokens, dimension) but {x.shape} was given.")
    times = _times(tokens.t if isinstance(tokens, Moving) else t, len(x))
    first = x[:1]
    x, note = one_run(x, run)
    finite = np.isfinite(x).all(axis=(1, 2)) & np.isfinite(times)  # an unfinished run is filled with nan
    if not finite.any():
        raise InputError("There is nothing to draw: the run has no saved time at which every token is finite.")
    indices = np.flatnonzero(finite)
    if len(indices) < len(times):
        note = ", ".join(filter(None, [note, f"run unfinished, stops at t = {short(times[indices[-1]])}"]))
    end, x, times = float(np.nanmax(times)), x[indices], times[indices]
    name = geometry if geometry is not None else _geometry(getattr(tokens, "dynamics", None), x)
    by_angle = name == "sphere" or (geometry is None and whole and getattr(tokens, "dynamics", None) is None)
    if name not in ("sphere", "euclidean", "rescaled"):
        raise unknown("geometry", name, ("sphere", "euclidean", "rescaled"))
    return Motion(
        t=times,
        x=x,
        indices=indices,
        sphere=name == "sphere",
        letter="z" if name == "rescaled" else "x",
        clock=_clock(tokens, times) if whole else "t",
        note=note,
        valid_until=_certified(tokens),
        end=end,
        tolerance=default_tolerance(SimpleNamespace(x=first), "sphere" if by_angle else "euclidean"),
        unit="rad" if by_angle else "",
    )


def _certified(tokens: object) -> float:
    """Until when digits are certified; a run that was not certified is drawn without remarks."""
    until = getattr(tokens, "valid_until", None)
    return np.inf if until is None else float(until)


def _times(t: ArrayLike | None, count: int) -> Floats:
    times = np.arange(count, dtype=float) if t is None else np.atleast_1d(np.asarray(t, dtype=float))
    if times.shape != (count,):
        raise InputError(f"There are {count} saved states but times of shape {times.shape}; give one time per state.")
    if (np.diff(times) <= 0).any():
        raise InputError("Times must increase from one saved state to the next; sort the states by time.")
    return times


def one_run(x: Floats, run: int) -> tuple[Floats, str]:
    """(T, ..., n, d) -> (T, n, d) of that run, and the remark that says which."""
    if x.ndim == 3:
        if run not in (0, -1):
            raise InputError(f"Run {run} was requested, but this is a single run; leave `run` out.")
        return x, ""
    flat = x.reshape(x.shape[0], -1, *x.shape[-2:])  # (T, runs, n, d)
    runs = flat.shape[1]
    if not -runs <= run < runs:
        raise InputError(f"Run {run} was requested, but the ensemble has runs 0 to {runs - 1}.")
    return flat[:, run], f"run {run % runs} of an ensemble of {runs}"


def _geometry(dynamics: object, x: Floats) -> str:
    space = getattr(dynamics, "geometry", None)
    if space is not None:
        return "sphere" if space.fixed_norm else "rescaled" if space.rescales else "euclidean"
    on_unit = x.shape[-1] > 1 and np.abs(np.linalg.norm(x, axis=-1) - 1).max() < 1e-6
    return "sphere" if on_unit else "euclidean"


def _clock(trajectory: object, times: Floats) -> str:
    """Time counts layers in discrete runs with steps of 1, and in trajectories measured in a model (no dynamics)."""
    made = getattr(trajectory, "provenance", None) or {}
    layers = made.get("discrete", False) or getattr(trajectory, "dynamics", None) is None
    return "layer" if layers and np.array_equal(times, np.round(times)) else "t"
