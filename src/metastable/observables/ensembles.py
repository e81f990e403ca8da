"""Ensembles of which only observables are kept, run in chunks that fit in memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError, unknown
from metastable.observables.table import OBSERVABLES
from metastable.solve.ensemble import simulate_many
from metastable.solve.simulate import prepare, simulate
from metastable.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray

_MOST_SAVED = 2**23  # numbers in the saved tokens of the runs that are observed together: 64 MB


def observe_many(
    dynamics: Dynamics | Sequence[Dynamics],
    x0: Any,
    observe: str | Sequence[str] | Mapping[str, Callable[[Trajectory], Any]],
    t: float = 15.0,
    dt: float | None = None,
    method: str = "rk4",
    save: Any = 151,
    rtol: float = 1e-8,
    atol: float | None = None,
    seed: int = 0,
    dtype: str = "float64",
    summation: str = "auto",
    progress: Callable[[int], None] | None = None,
) -> "xarray.Dataset":
    """Run an ensemble and keep nothing but observables, so that its size is bounded by them and not by its tokens.

    Parameters
    ----------
    dynamics : Dynamics or sequence of Dynamics
        One for all runs, whose beta may be an array (B,); or one for each run, as `simulate_many` takes them.
    x0 : array (B, n, d)
        Tokens of each run.
    observe : str, sequence of str, or mapping
        Names of observables (``metastable list observables``), or functions of a run by the name of their result:
        ``{"met": lambda run: run.observe("similarity_share", above=0.99)}``.
    progress : function, optional
        Called with the number of runs done.

    Other parameters are those of `simulate`.

    Returns
    -------
    xarray.Dataset with one variable (time, run, ...) for each name.

    Examples
    --------
    The phase diagram of the first paper in small: clusters left after a while, by beta.

    >>> import metastable as ms
    >>> betas = np.repeat([1.0, 9.0], 16)
    >>> data = observe_many(ms.Dynamics(beta=betas), ms.initial.sphere(16, 2, runs=32), "clusters", t=20.0, save=3)
    >>> bool(data.clusters[-1, :16].mean() < data.clusters[-1, 16:].mean())
    True
    """
    import xarray

    asked = _functions(observe)
    tokens = np.asarray(x0, dtype=np.float64)
    members = dynamics if isinstance(dynamics, Dynamics) else list(dynamics)
    if tokens.ndim != 3 or not len(tokens) or (not isinstance(members, Dynamics) and len(members) != len(tokens)):
        raise InputError(f"An ensemble needs tokens of shape (B, n, d), one (n, d) for each run, not {tokens.shape}.")
    first = _some(members, 0) if isinstance(members, Dynamics) else members[0]
    times = prepare(first, tokens[0], t, dt, method, save, rtol, atol, seed, dtype, "dense")[0].times
    size = max(8, _MOST_SAVED // (tokens[0].size * len(times)))
    found: list[Any] = []
    for start in range(0, len(tokens), size):
        these = slice(start, min(start + size, len(tokens)))
        settings = (t, dt, method, save, rtol, atol, seed + start)
        if isinstance(members, Dynamics):
            run = simulate(_some(members, these), tokens[these], *settings, dtype=dtype, summation=summation)
            found.append(_observed(run, asked).rename(run0="run"))
        else:
            runs = simulate_many(members[these], tokens[these], *settings, dtype, summation)
            found.append(xarray.concat([_observed(run, asked) for run in runs], "run").transpose("time", "run", ...))
        if progress is not None:
            progress(these.stop)
    return xarray.concat(found, "run")


def _some(dynamics: Dynamics, these: Any) -> Dynamics:
    """The dynamics of some runs, or of one."""
    return replace(dynamics, beta=dynamics.beta[these]) if np.ndim(dynamics.beta) else dynamics


def _functions(observe: Any) -> dict[str, Callable[[Trajectory], Any]]:
    if isinstance(observe, Mapping):
        return dict(observe)
    names = [observe] if isinstance(observe, str) else list(observe)
    for name in names:
        if name not in OBSERVABLES:
            raise unknown("observable", name, OBSERVABLES)
    return {name: OBSERVABLES[name].function for name in names}


def _observed(run: Trajectory, asked: dict[str, Callable[[Trajectory], Any]]) -> "xarray.Dataset":
    import xarray

    return xarray.Dataset({name: function(run) for name, function in asked.items()})
