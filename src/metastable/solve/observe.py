"""observe_many: ensembles of which only observables are kept, run in chunks that fit in memory."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError, door
from metastable.observables.table import find, own_array
from metastable.solve import trust as trusting
from metastable.solve.driver import drive
from metastable.solve.methods import Method
from metastable.solve.plan import Plan, make_plan, refuse_traced
from metastable.solve.simulate import collect
from metastable.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray

_MOST_SAVED = 2**23  # numbers in the saved tokens of the runs that are observed together: 64 MB


@door
def observe_many(
    dynamics: Dynamics | Sequence[Dynamics],
    x0: Any,
    observe: str | Callable[[Trajectory], Any] | Sequence[str] | Mapping[str, Callable[[Trajectory], Any]],
    t: float = 15.0,
    dt: float | None = None,
    method: str | Method = "rk4",
    save: Any = 151,
    rtol: float = 1e-8,
    atol: float | None = None,
    seed: int | np.ndarray = 0,
    dtype: str = "float64",
    engine: str = "auto",
    trust: bool = False,
    progress: Callable[[int], None] | None = None,
) -> "xarray.Dataset":
    """Run an ensemble and keep nothing but observables, so that its size is bounded by them and not by its tokens.

    Parameters
    ----------
    dynamics : Dynamics or sequence of Dynamics
        One for all runs, whose beta may be an array (B,); or one for each run.
    x0 : array (B, n, d)
        Tokens of each run.
    observe : str, function, sequence of str, or mapping
        Names of observables (``metastable list observables``), or functions of a run by the name of their result:
        ``{"met": lambda run: run.observe("similarity_share", above=0.99)}``.
    seed : int or array (B,)
        Seed of the noise; an array gives every run the noise it has when it is run alone with that seed.
    progress : function, optional
        Called with the number of runs done.

    Other parameters are those of `simulate`.

    Returns
    -------
    xarray.Dataset with one variable (time, run, ...) for each name, and two along "run": ``status``, and
    ``valid_until``, nan where nothing was certified. Where a run ended early, later times are nan.

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

    functions = _functions(observe)
    refuse_traced(x0)
    tokens = np.asarray(x0, dtype=np.float64)
    if tokens.ndim != 3 or not len(tokens):
        raise InputError(f"An ensemble needs tokens of shape (B, n, d), one (n, d) for each run, not {tokens.shape}.")
    plan, x = make_plan(dynamics, tokens, t, dt, method, save, rtol, atol, seed, dtype, engine, trust)
    size = max(8, _MOST_SAVED // (plan.n * plan.d * len(plan.times)))
    found, valid, ends = [], [], []
    for start in range(0, plan.runs, size):
        these = slice(start, min(start + size, plan.runs))
        data, known, last = _observed(plan.members(these), x[these], functions)
        found.append(data)
        valid.append(known)
        ends.append(last)
        if progress is not None:
            progress(these.stop)
    trusting.warn_untrusted(np.concatenate(valid), np.concatenate(ends), stacklevel=3)
    return xarray.concat(found, "run")


def _observed(
    plan: Plan, x: np.ndarray, functions: dict[str, Callable[[Trajectory], Any]]
) -> tuple["xarray.Dataset", np.ndarray, np.ndarray]:
    """Observables of some runs, until when each is certified (inf: not asked), and when each ended."""
    import xarray

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one warning for all chunks
        made: Any = collect(plan, [replace(s, state={}) for s in drive(plan, x, reported=False)])
    if not plan.together:
        parts = [_measured(run, functions).reindex(time=plan.times) for run in made]
        data = xarray.concat(parts, "run").transpose("time", "run", ...)
    else:
        made, data = [made] * plan.runs, _measured(made, functions).rename(run0="run").reindex(time=plan.times)
    known = np.array([np.nan if run.valid_until is None else run.valid_until for run in made])
    data = data.assign(status=("run", [run.status for run in made]), valid_until=("run", known))
    last = np.array([run.t[-1] if len(run) else 0.0 for run in made])
    return data, np.where(np.isnan(known), np.inf, known), last


def _functions(observe: Any) -> dict[str, Callable[[Trajectory], Any]]:
    if isinstance(observe, Mapping):
        return {str(name): partial(_one, entry) for name, entry in observe.items()}
    if callable(observe):
        return {getattr(observe, "__name__", "observable"): partial(_one, observe)}
    names = [observe] if isinstance(observe, str) else list(observe)
    return {name: find(name).function for name in names}


def _one(entry: Any, run: Trajectory) -> Any:
    return find(entry).function(run) if isinstance(entry, str) else own_array(run, entry)


def _measured(run: Trajectory, functions: dict[str, Callable[[Trajectory], Any]]) -> "xarray.Dataset":
    import xarray

    return xarray.Dataset({name: function(run) for name, function in functions.items()})
