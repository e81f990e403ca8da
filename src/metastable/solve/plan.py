"""A run that has been checked and can start: what moves, from where, how and until when."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from metastable.backend import is_traced, jax, ready
from metastable.compiled_programs import make_room
from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError, unknown
from metastable.solve import methods
from metastable.solve.checks import check_fit, check_method, check_steps, checked_seed, checked_tokens, real, save_times
from metastable.solve.methods import Method
from metastable.solve.stepping import default_step

DTYPES = ("float64", "float32")


@dataclass(frozen=True)
class Plan:
    """What is run: B runs of n tokens in d coordinates, held as one ensemble whatever shape the user gave.

    ``dynamics`` are the distinct ones, all of one structure, and ``which`` (B,) names the one of each run; ``shape``
    is the shape of the ensemble as the user sees it, () for one run. ``numbers`` (B,) are the places of runs that are
    part of a larger ensemble, by which their noise is drawn; None is 0 to B - 1. ``shakes`` (B,) is the relative noise
    that engines with a chart put on a run's state, 0 for the run itself and a few roundings for its copies (see
    `metastable.solve.trust`).
    ``seeds`` (B,) are the noise's seeds of runs that have one each, as if every run were run alone.
    """

    dynamics: tuple[Dynamics, ...]
    which: np.ndarray
    shape: tuple[int, ...]
    n: int
    d: int
    times: np.ndarray
    t: float
    dt: float
    method: Method
    rtol: float
    atol: float
    seed: int = 0
    dtype: str = "float64"
    engine: str = "auto"
    trust: bool = False
    together: bool = True  # whether the runs make one Trajectory, or one each
    numbers: np.ndarray | None = None
    shakes: np.ndarray | None = None
    seeds: np.ndarray | None = None

    @property
    def runs(self) -> int:
        """The number of runs, copies included."""
        return len(self.which)

    @property
    def model(self) -> Dynamics:
        """One of the dynamics, for what they all have in common: their parts and shapes."""
        return self.dynamics[0]

    @property
    def single(self) -> bool:
        """Whether all runs share one dynamics."""
        return len(self.dynamics) == 1

    @cached_property
    def noisy(self) -> bool:
        """Whether any run has noise."""
        return any(dyn.noisy for dyn in self.dynamics)

    @property
    def certified(self) -> bool:
        """Whether the runs carry copies: rescaled ones always, others on request; noise has no digits to certify."""
        return (self.model.geometry.rescales or self.trust) and not self.noisy

    @cached_property
    def originals(self) -> int:
        """The number of runs without their copies, which come after them, in the same order."""
        return self.runs if self.shakes is None else int(np.count_nonzero(self.shakes == 0))

    @property
    def given_seed(self) -> int | list[Any]:
        """The seed as it was given: one, or a list with one for each run, nested as the ensemble is."""
        return self.seed if self.seeds is None else np.reshape(self.seeds, self.shape).tolist()

    def number(self, value: Any) -> np.ndarray:
        """A number or array in the precision of the run, so that times do not widen its tokens."""
        return np.asarray(value, self.dtype)

    def of(self, run: int) -> Dynamics:
        """The dynamics of one run."""
        return self.dynamics[int(self.which[run])]

    def members(self, these: slice | Sequence[int]) -> "Plan":
        """The plan of some of the runs."""
        which = self.which[these]
        distinct, place = np.unique(which, return_inverse=True)
        shakes = None if self.shakes is None else self.shakes[these]
        seeds = None if self.seeds is None else self.seeds[these]
        numbers = (np.arange(self.runs) if self.numbers is None else self.numbers)[these]
        chosen = tuple(self.dynamics[k] for k in distinct)
        shape = (len(which),)
        return replace(self, dynamics=chosen, which=place, shape=shape, shakes=shakes, numbers=numbers, seeds=seeds)


@dataclass(frozen=True)
class Ending:
    """Where a run was left: its plan, its first tokens (B, n, d) and the driver's state, from which it can go on."""

    plan: Plan
    x: np.ndarray
    state: Mapping[str, np.ndarray]


# --- making one -----------------------------------------------------------------------------------------------------


def make_plan(
    dynamics: Dynamics | Sequence[Dynamics],
    x0: Any,
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
) -> tuple[Plan, np.ndarray]:
    """Check everything a run needs before it starts; returns its plan and its tokens (B, n, d).

    ``seed`` may be an array (B,): run k then has the noise it has when it is run alone with seed k of them.
    """
    ready()
    members = _members(dynamics)
    refuse_traced((x0, t, dt, save, rtol, atol, seed, trust, members))
    make_room()
    how = methods.resolve(method)
    engine = getattr(engine, "name", engine)  # an engine of the table, or its name
    if not isinstance(engine, str):
        raise InputError(f"engine must be a name (`metastable list engines`), not {type(engine).__name__}.")
    dtype = np.dtype(dtype).name if isinstance(dtype, (type, np.dtype)) else dtype
    if not isinstance(trust, (bool, np.bool_)):
        raise InputError(f"trust must be True or False, not {trust!r}.")
    if dtype not in DTYPES:
        raise unknown("dtype", dtype, DTYPES)
    t = real("t", t, least=0.0)
    dt = real("dt", min(default_step(one, how) for one in members) if dt is None else dt, above=0.0)
    rtol = real("rtol", rtol, above=0.0)
    atol = real("atol", rtol / 100 if atol is None else atol, least=0.0)
    seeds = None if np.ndim(seed) == 0 else np.array([checked_seed(s) for s in np.ravel(seed)])
    first = checked_seed(seed if seeds is None else int(seeds[0]))
    check_steps(t, dt, how)
    x = checked_tokens(members[0], x0)
    single = isinstance(dynamics, Dynamics)
    if not single and x.shape[:-2] != (len(members),):
        raise InputError(f"{len(members)} dynamics need tokens of shape ({len(members)}, n, d), not {x.shape}.")
    shape, (n, d) = x.shape[:-2], x.shape[-2:]
    distinct, which = _spread(members, single, shape)
    for dyn in members:
        check_method(dyn, how)  # of an array of noises all count
        check_fit(distinct[0] if single else dyn, (n, d), how)
    times = save_times(save, t, dt if how.discrete else None)
    if seeds is not None and len(seeds) != len(which):
        raise InputError(f"{len(which)} runs need one seed, or {len(which)} of them, not {len(seeds)}.")
    plan = Plan(distinct, which, shape, n, d, times, t, dt, how, rtol, atol, first, dtype, engine, bool(trust), single)
    plan = plan if seeds is None else replace(plan, seeds=seeds)
    return plan, x.reshape(-1, n, d)


def refuse_traced(given: Any) -> None:
    """One sentence where JAX is tracing: a run looks at numbers, which then have no value yet."""
    if any(is_traced(leaf) for leaf in jax.tree_util.tree_leaves(given)):
        raise InputError(
            "simulate cannot be traced by jax.grad, jit or vmap, because it looks at numbers; use metastable.flow."
        )


def _members(dynamics: Any) -> list[Dynamics]:
    given = [dynamics] if isinstance(dynamics, Dynamics) else dynamics
    if not isinstance(given, (list, tuple)) or not given or not all(isinstance(m, Dynamics) for m in given):
        what = type(dynamics).__name__
        if isinstance(dynamics, (list, tuple)):
            other = next((type(m).__name__ for m in dynamics if not isinstance(m, Dynamics)), "")
            what = f"a {what} with a {other} in it" if other else f"an empty {what}"
        raise InputError(f"dynamics must be a Dynamics object or a list of them, not {what}.")
    if any(m.noisy for m in given):
        given = [with_numbers(m, noise=np.asarray(m.noise, float)[()]) for m in given]
    if len(given) > 1 and len({structure(m) for m in given}) > 1:
        raise InputError(
            "All dynamics of an ensemble must have the same parts and shapes; run the others on their own."
        )
    return list(given)


def structure(dyn: Dynamics) -> tuple[Any, ...]:
    """What dynamics that run together have in common: their parts, and the shapes of their numbers."""
    leaves, tree = jax.tree_util.tree_flatten(dyn)
    return (tree, *(np.shape(leaf) for leaf in leaves))


def _spread(members: list[Dynamics], single: bool, shape: tuple[int, ...]) -> tuple[tuple[Dynamics, ...], np.ndarray]:
    """Distinct dynamics, each with one beta and one noise, and which of them each run has."""
    count = int(np.prod(shape, dtype=int))
    if not single:
        return tuple(members), np.arange(count)
    dyn = members[0]
    arrays = {name: np.asarray(getattr(dyn, name)) for name in ("beta", "noise")}
    for name, array in arrays.items():
        if array.ndim and _broadcast(array.shape, shape) != shape:
            raise InputError(f"{name} has shape {array.shape}, but the ensemble of tokens has shape {shape}.")
    if not any(array.ndim for array in arrays.values()):
        return (dyn,), np.zeros(count, int)
    columns = [np.broadcast_to(array, shape).ravel() for array in arrays.values()]
    pairs, which = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return tuple(with_numbers(dyn, beta=float(b), noise=float(s)) for b, s in pairs), which.ravel()


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def with_numbers(dyn: Dynamics, **values: Any) -> Dynamics:
    """The same dynamics with other numbers, which need no checks."""
    copy = object.__new__(Dynamics)
    for name, value in vars(dyn).items():
        object.__setattr__(copy, name, values.get(name, value))
    return copy
