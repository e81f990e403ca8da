"""observe_many: ensembles of which only observables are kept, run in chunks that fit in memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError, door
from metastable.observables.table import find, own_array
from metastable.solve.driver import drive
from metastable.solve.memory import check_plan
from metastable.solve.methods import Method
from metastable.solve.plan import Plan, make_plan, refuse_traced
from metastable.solve.simulate import Gathered, trust_warning
from metastable.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray

_MOST_SAVED = 2**23  # numbers in the saved tokens of the runs that are observed together: 64 MB
_FEW, _MOST_OF_FEW = 8, 2**26  # so many runs are run together even if they take more, up to 512 MB


@door
def observe_many(
    dynamics: Dynamics | Sequence[Dynamics],
    x0: Any,
    observe: str | Callable[[Trajectory], Any] | Sequence[str] | Mapping[str, Callable[[Trajectory], Any]],
    t: float = 15.0,
    dt: float | None = None,
    method: str | Method = "rk4",
    save: Any = 151,
    rtol: float = 1e-10,
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
    ``valid_until``, nan where nothing was certified. Where a run ended early, its later times are nan; others go on.

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
    size = _at_once(plan)
    check_plan(plan.members(slice(0, size)))
    parts: list[xarray.Dataset] = []
    numbers: list[int] = []  # which runs they hold
    ends: list[_End] = []
    for start in range(0, plan.runs, size):
        these = slice(start, min(start + size, plan.runs))
        ends += _observed(plan.members(these), x[these], functions, parts, numbers, start)
        if progress is not None:
            progress(these.stop)
    known = np.array([np.nan if end.known is None else end.known for end in ends])
    last = np.array([plan.times[end.saves - 1] if end.saves else 0.0 for end in ends])
    trust_warning(plan, np.where(np.isnan(known), np.inf, known), last, stacklevel=3)
    runs, nothing = np.arange(plan.runs), (("time", "run"), np.full((len(plan.times), plan.runs), np.nan))
    if parts:
        data = xarray.concat(parts, "run", join="outer").assign_coords(run=numbers)
        data = data.reindex(run=runs, time=plan.times).transpose("time", "run", ...)
    else:  # no run has any save
        data = xarray.Dataset(dict.fromkeys(functions, nothing), {"time": plan.times, "run": runs})
    return data.drop_vars("run").assign(status=("run", [end.status for end in ends]), valid_until=("run", known))


class _End(NamedTuple):
    """How a run ended: its number of saves, its status, and until when it is certified."""

    saves: int
    status: str
    known: float | None


def _at_once(plan: Plan) -> int:
    """How many runs are run and observed together: a few at least, unless they are very large."""
    saved = plan.n * plan.d * len(plan.times)
    return min(plan.runs, max(1, _MOST_SAVED // saved, min(_FEW, _MOST_OF_FEW // saved)))


def _observed(
    plan: Plan,
    x: np.ndarray,
    functions: dict[str, Callable[[Trajectory], Any]],
    parts: "list[xarray.Dataset]",
    numbers: list[int],
    first: int,
) -> list[_End]:
    """Append the observables of the runs from ``first`` on, each until it ends, and their numbers; how they ended.

    Runs that share their dynamics and end at the same save are observed together.
    """
    import xarray

    alone = replace(plan, together=False)  # every run goes on until it ends itself
    found = Gathered.of(plan, [replace(s, state={}) for s in drive(alone, x, reported=False)])
    ends = [_End(saves, status, known) for saves, status, _, known in (found.ending([k]) for k in range(plan.runs))]
    groups: dict[tuple[int, int], list[int]] = {}
    for run, end in enumerate(ends):
        if end.saves:
            groups.setdefault((end.saves, 0 if plan.together else run), []).append(run)
    for group in groups.values():
        whole = len(group) == plan.runs and plan.together
        made = found.trajectory() if whole else found.trajectory(group, (len(group),) if plan.together else ())
        part = xarray.Dataset({name: function(made) for name, function in functions.items()})
        parts.append(part.rename(run0="run") if plan.together else part)
        numbers += [first + k for k in group]
    return ends


def _functions(observe: Any) -> dict[str, Callable[[Trajectory], Any]]:
    if isinstance(observe, Mapping):
        return {str(name): partial(_one, entry) for name, entry in observe.items()}
    if callable(observe):
        return {getattr(observe, "__name__", "observable"): partial(_one, observe)}
    names = [observe] if isinstance(observe, str) else list(observe)
    return {name: find(name).function for name in names}


def _one(entry: Any, run: Trajectory) -> Any:
    return find(entry).function(run) if isinstance(entry, str) else own_array(run, entry)
