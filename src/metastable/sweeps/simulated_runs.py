"""Runs of the equation as a sweep's target: each is the run that `metastable simulate` makes of its parameters.

Runs whose shapes agree are run together, as an ensemble: those that share all but beta, noise and seed have one
Dynamics with arrays for numbers, others that are equal in structure a list of dynamics.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metastable.config import matrix_specs
from metastable.config.job import make_cloud, make_parts
from metastable.config.named import parse
from metastable.config.settings import Simulate, checked
from metastable.engines import ENGINES, choose
from metastable.equation.dynamics import Dynamics
from metastable.equation.geometry import GEOMETRIES
from metastable.solve.methods import METHODS
from metastable.solve.observe import observe_many
from metastable.solve.plan import Plan, make_plan, structure, with_numbers
from metastable.sweeps.measuring import flattened, measures
from metastable.sweeps.spec import Spec

_TOGETHER = ("beta", "noise", "seed")  # what runs of one Dynamics may differ in
_HOW = ("t", "dt", "method", "rtol", "atol", "dtype", "trust")
_PAIR, _COORDINATE, _MEASURE = 1e-9, 5e-10, 5e-9  # nominal seconds for a pair of tokens, its coordinates, a measurement


def settings_of(spec: Spec, point: Mapping[str, Any]) -> Simulate:
    """The settings of one run."""
    return checked(Simulate, {**spec.base, **{name: v for name, v in point.items() if name != "sample"}})


def nominal_seconds(values: Mapping[str, Any], times: int) -> float:
    """Seconds of one run on a nominal core, from settings alone: chunks are cut by it, the same everywhere."""
    n, d, heads = (int(values.get(name) or usual) for name, usual in (("n", 64), ("d", 3), ("heads", 1)))
    how = METHODS.get(str(values.get("method", "rk4")))
    stages = how.tableau.stages if how is not None and how.tableau is not None else 6
    dt = float(values.get("dt") or (how.default_dt if how is not None else 0.1))
    steps = max(1.0, float(values.get("t", 15.0)) / max(dt, 1e-12))
    space = GEOMETRIES.get(str(values.get("geometry")))
    copies = 1 + bool(values.get("trust", False) or (space is not None and space.rescales))
    pair = _PAIR + _COORDINATE * d
    return copies * steps * stages * heads * n * n * pair + times * n * n * _MEASURE + 2e-5


def prepare(spec: Spec, point: Mapping[str, Any]) -> tuple[dict[str, Any], float, float]:
    """The engine that a run of these parameters takes, and its seconds and bytes."""
    settings = settings_of(spec, point)
    dynamics, x0 = make_parts(settings)
    plan, _ = _plan(spec, settings, dynamics, x0[None] if x0.ndim == 2 else x0, settings.engine)
    chosen = choose(plan).engine
    for name, measure in measures(spec.observe).items():  # an option that does not fit is refused before the sweep
        assert callable(measure), name
    saved = 8.0 * len(plan.times) * plan.n * plan.d * plan.runs
    return {"engine": chosen.name}, float(chosen.cost(plan)), saved


def _plan(spec: Spec, settings: Simulate, dynamics: Any, tokens: np.ndarray, engine: str) -> tuple[Plan, np.ndarray]:
    how = {name: getattr(settings, name) for name in _HOW}
    return make_plan(dynamics, tokens, **how, save=_save(spec, settings), engine=engine)


def _save(spec: Spec, settings: Simulate) -> Any:
    return spec.times if isinstance(spec.times, int) else list(spec.times)


# --- the runs of a chunk ------------------------------------------------------------------------------------------


class _Ensemble:
    """Runs that are run together: places in the chunk, their dynamics, betas, noises, seeds and tokens."""

    def __init__(self, settings: Simulate) -> None:
        self.settings = settings
        self.places: list[int] = []
        self.dynamics: list[Dynamics] = []  # one per run; the same object where it is shared
        self.seeds: list[int] = []
        self.tokens: list[np.ndarray] = []

    def together(self) -> Dynamics | list[Dynamics]:
        """One Dynamics with arrays of numbers where all runs share their weights and parts, or a list."""
        weights = {id(dyn.weights) for dyn in self.dynamics}
        if len(weights) > 1:
            return self.dynamics
        numbers = {name: np.array([float(getattr(d, name)) for d in self.dynamics]) for name in ("beta", "noise")}
        alike = {name: float(v[0]) if (v == v[0]).all() else v for name, v in numbers.items()}
        return with_numbers(self.dynamics[0], **alike)


def rows(spec: Spec, how: Mapping[str, Any], columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Observables of every run at every time, runs in their order."""
    found: list[dict[str, np.ndarray]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # what rounding did stands in the column valid_until
        for ensemble in _ensembles(spec, columns):
            found.append(_observed(spec, ensemble, str(how["engine"])))
    names = {name: None for part in found for name in part}  # in order, once
    merged = {
        name: np.concatenate([part.get(name, np.full(len(part["run"]), np.nan)) for part in found]) for name in names
    }
    order = np.argsort(merged["run"], kind="stable")
    return {name: values[order] for name, values in merged.items()}


def _ensembles(spec: Spec, columns: Mapping[str, Sequence[Any]]) -> list[_Ensemble]:
    count = len(next(iter(columns.values())))
    shared = [name for name in columns if name not in (*_TOGETHER, "sample")]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for k, key in enumerate(zip(*(columns[name] for name in shared))) if shared else ((k, ()) for k in range(count)):
        groups.setdefault(key, []).append(k)
    found: dict[Any, _Ensemble] = {}
    for key, places in groups.items():
        _add_group(spec, dict(zip(shared, key)), places, columns, found)
    return list(found.values())


def _add_group(
    spec: Spec,
    common: Mapping[str, Any],
    places: list[int],
    columns: Mapping[str, Sequence[Any]],
    found: dict[Any, _Ensemble],
) -> None:
    """Runs that differ in beta, noise and seed: added to the ensemble of their structure."""
    first = {name: columns[name][places[0]] for name in _TOGETHER if name in columns}
    settings = settings_of(spec, {**common, **first})
    dynamics, x0 = make_parts(settings)
    seeds = columns.get("seed", [settings.seed] * len(next(iter(columns.values()))))
    cloud = None if settings.tokens is not None else make_cloud(settings, *x0.shape[-2:])
    random_weights = any(_drawn(getattr(settings, name)) for name in ("Q", "K", "V"))
    mark = (structure(dynamics), x0.shape, *(getattr(settings, name) for name in _HOW))
    ensemble = found.setdefault(mark, _Ensemble(settings))
    by_seed: dict[int, tuple[Dynamics, np.ndarray]] = {settings.seed: (dynamics, x0)}
    for k in places:
        seed = int(seeds[k])
        if seed not in by_seed:
            own = settings.model_copy(update={"seed": seed})
            by_seed[seed] = make_parts(own) if random_weights else (dynamics, x0 if cloud is None else cloud(seed))
        base, tokens = by_seed[seed]
        numbers = {name: float(columns[name][k]) for name in ("beta", "noise") if name in columns}
        ensemble.places.append(k)
        ensemble.dynamics.append(with_numbers(base, **numbers))
        ensemble.seeds.append(seed)
        ensemble.tokens.append(tokens)


def _drawn(given: Any) -> bool:
    """Whether a matrix depends on the seed: a family without a seed of its own, or eigenvalues in a random basis."""
    if not isinstance(given, str) or matrix_specs.is_file(given) or matrix_specs.is_model(given):
        return False
    parsed = parse(given)
    return "@" in given or (parsed is not None and "seed" not in parsed.options)


def _observed(spec: Spec, ensemble: _Ensemble, engine: str) -> dict[str, np.ndarray]:
    settings, dynamics = ensemble.settings, ensemble.together()
    tokens = np.stack(ensemble.tokens)
    plan, _ = _plan(spec, settings, dynamics, tokens, "auto")
    if ENGINES[engine].supports(plan) is not None:  # decided for the first run of the sweep; some weights need another
        engine = next(name for name, other in ENGINES.items() if other.supports(plan) is None)
    how = {name: getattr(settings, name) for name in _HOW}
    seed: Any = np.array(ensemble.seeds)
    measure = measures(spec.observe)
    data = observe_many(dynamics, tokens, measure, **how, save=_save(spec, settings), seed=seed, engine=engine)
    count = len(plan.times)
    out: dict[str, np.ndarray] = {
        "run": np.repeat(np.array(ensemble.places), count),
        "time": np.tile(np.asarray(plan.times, dtype=np.float64), len(ensemble.places)),
    }
    for name in measure:
        values = np.moveaxis(data[name].values, 1, 0)  # (runs, times, ...)
        out |= flattened(name, values.reshape(-1, *values.shape[2:]))
    out["status"] = np.repeat(data["status"].values.astype(str), count)
    if np.isfinite(data["valid_until"].values).any():
        out["valid_until"] = np.repeat(data["valid_until"].values, count)
    return out
