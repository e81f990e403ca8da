"""What sums cost on this machine: seconds, measured once in a second or two and kept in the user's cache folder.

Engines and sums are chosen by these numbers, so that nothing in the source is tuned to one processor.

| name                                | seconds, with all cores at work unless it says otherwise                |
|-------------------------------------|--------------------------------------------------------------------------|
| `call`                              | of one small exact sum, from call to return                             |
| `share`                             | to wake the other cores                                                 |
| `pair`                              | per pair of the exact sum for d <= 3                                    |
| `symmetric_pair`                    | per pair (i, j) of n^2 when <q_i, k_j> = <q_j, k_i>                     |
| `tile_pair_float64`, `..._float32`  | per pair of tiles with our own products                                 |
| `tile_coordinate_float64`, ...      | and per pair and coordinate of keys and values, d + v                   |
| `blas_pair_...`, `blas_coordinate_` | the same with products by BLAS                                          |
| `token`                             | per token of an expansion, whatever its rank                            |
| `mode_2`, `mode_3`                  | per token and mode of the expansion on the circle, on S^2               |
| `lane_pair`, `lane_coordinate`      | per run, pair and evaluation (and coordinate, 2 d) of runs in lanes     |
| `lane_alone_pair`, `..._coordinate` | the same of one run, which has one core                                 |
| `chart_pair`, `chart_coordinate`    | per pair and evaluation (and coordinate, d) of a rescaled run, one core |
| `dense_call`                        | per evaluation of a small run compiled by JAX                           |
| `dense_pair`, `dense_coordinate`    | per pair and evaluation (and coordinate, 2 d) of a run compiled by JAX  |
| `callback`                          | of a call from compiled code to the host and back                       |

>>> coefficient("pair") > 0
True
"""

import contextlib
import hashlib
import json
import os
import platform
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from metastable.backend import cache_home, jax
from metastable.engines.chart import kernel_runs, kernels
from metastable.engines.exact import passes
from metastable.engines.exact.task import Task
from metastable.engines.lanes import batch
from metastable.engines.simd import threads
from metastable.engines.simd.vectors import SOURCES, features
from metastable.engines.spectral.expansion import spectral
from metastable.equation.dynamics import Dynamics
from metastable.solve import stepping
from metastable.solve.methods import RK4

Costs = dict[str, float]
Key = TypeVar("Key")
_DTYPES = ("float64", "float32")
_known: Costs = {}
_lock = threading.RLock()


def coefficient(name: str) -> float:
    """One of the numbers above; the group that it belongs to is read, or measured, when it is first needed."""
    if name not in _known:
        with _lock:
            if name not in _known:
                _known.update(_kept(next(group for group, (names, _) in GROUPS.items() if name in names)))
    return _known[name]


def coefficients() -> Costs:
    """All of them."""
    return {name: coefficient(name) for names, _ in GROUPS.values() for name in names}


def measure() -> Costs:
    """All of them, measured now."""
    found: Costs = {}
    for _, group in GROUPS.values():
        found |= group()
    return found


# --- the file ---------------------------------------------------------------------------------------------------


def machine() -> str:
    """A name for the processor, how many of its cores are used, and the sources and libraries that use it."""
    versions = [version(name) for name in ("numpy", "scipy", "numba")]
    facts = [_processor(), features(), str(threads.cores()), SOURCES, *versions]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line for line in lines if line.startswith("model name")), platform.processor() or platform.machine())


def _kept(group: str) -> Costs:
    """A group from its file, or measured and written; the first process to write it decides for all."""
    names, measured = GROUPS[group]
    path = cache_home() / "calibration" / f"{group}-{machine()}.json"
    found = _read(path, names)
    if found is None:
        found = measured()
        with contextlib.suppress(OSError):  # a folder that cannot be written: measured in every process
            _write(path, found)
            found = _read(path, names) or found
    return found


def _read(path: Path, names: tuple[str, ...]) -> Costs | None:
    try:
        found = json.loads(path.read_text())
        costs = {name: float(found[name]) for name in names}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return costs if all(np.isfinite(list(costs.values()))) else None


def _write(path: Path, costs: Costs) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, suffix=".draft")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(costs, file, indent=1)
        try:
            os.link(draft, path)  # fails where another process was first
        except FileExistsError:
            if _read(path, tuple(costs)) is None:
                os.replace(draft, path)  # what lies there is broken
        except OSError:  # no links on this file system
            os.replace(draft, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)


# --- measuring --------------------------------------------------------------------------------------------------


def _best(runs: Mapping[Key, Callable[[], object]], enough: float = 0.05) -> dict[Key, float]:
    """The shortest of several calls of each, after one that compiles; in turns, so that slow phases hit all alike."""
    for run in runs.values():
        run()
    best, started = dict.fromkeys(runs, np.inf), time.perf_counter()
    while np.inf in best.values() or time.perf_counter() - started < enough * len(runs):
        for key, run in runs.items():
            clock = time.perf_counter()
            run()
            best[key] = min(best[key], time.perf_counter() - clock)
    return best


def _line(small: float, large: float, few: float, many: float) -> tuple[float, float]:
    """(a, b) of a + b x through two measured times, neither below zero."""
    slope = max((large - small) / (many - few), 0.0)
    return max(small - slope * few, 0.01 * small), slope


def _task(n: int, d: int, dtype: str = "float64") -> Task:
    x = np.random.default_rng(0).normal(size=(n, d)).astype(dtype) / d**0.5
    return Task(x, x, x, None, np.zeros(n, np.int64), np.full(n, n), np.dtype(dtype))


def _rows() -> Costs:
    few, many = _task(8, 3), _task(2048, 3)
    low, high = (np.full(len(task.q), 20.0) for task in (few, many))  # above all scores
    parts = 8 * threads.cores()
    found = _best(
        {
            "call": lambda: passes.by_rows(few, low, 1),
            "share": lambda: threads.share(lambda p: None, threads.cores()),
            "pair": lambda: passes.by_rows(many, high, parts),
            "symmetric_pair": lambda: passes.by_symmetry(many, high, parts),
        }
    )
    return {name: cost / 2048**2 if "pair" in name else cost for name, cost in found.items()}


def _tiles() -> Costs:
    parts, n, sizes = 8 * threads.cores(), 512, (16, 64)
    ways = {"tile": passes.by_tiles, "blas": passes.by_blas}
    runs = {
        (how, dtype, d): partial(ways[how], _task(n, d, dtype), parts)
        for how in ways
        for dtype in _DTYPES
        for d in sizes
    }
    times, found = _best(runs, 0.1), {}
    for how in ways:
        for dtype in _DTYPES:
            line = _line(*(times[how, dtype, d] / n**2 for d in sizes), *(2.0 * d for d in sizes))
            found[f"{how}_pair_{dtype}"], found[f"{how}_coordinate_{dtype}"] = line
    return found


def _expansions() -> Costs:
    n, betas = 20_000, (0.5, 16.0)
    modes, runs, found = {}, {}, {}
    for d in (2, 3):
        x = np.random.default_rng(0).normal(size=(n, d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        for beta in betas:
            made = spectral(x, x, beta)
            if isinstance(made, str):
                raise RuntimeError(made)
            modes[d, beta] = made.rank + 1.0 if d == 2 else (made.rank + 1) * (made.rank + 2) / 2
            runs[d, beta] = partial(spectral, x, x, beta)
    times, tokens = _best(runs), []
    for d in (2, 3):
        line = _line(*(times[d, beta] / n for beta in betas), *(modes[d, beta] for beta in betas))
        tokens.append(line[0])
        found[f"mode_{d}"] = line[1]
    return {"token": max(tokens), **found}


def _lanes() -> Costs:
    n, steps, sizes = 64, 64, (3, 16)  # long enough for the cost of a call to be small beside it
    scheme = batch.Scheme(1e-3, np.array([[0.0], [1.0]]), np.zeros(n, np.int64), np.full(n, n), False, False)
    counts = {"lane": 8 * threads.cores(), "lane_alone": 1}
    runs: dict[tuple[str, int], Callable[[], object]] = {}
    found: Costs = {}
    for name, count in counts.items():
        for d in sizes:
            eye = np.eye(d)[None, None]
            x = np.random.default_rng(0).normal(size=(count, n, d)) / d**0.5
            given = (eye, eye, np.stack([x, x]), np.array([steps]), np.ones(1), scheme)
            runs[name, d] = partial(batch.advance, *given)
    # One run first: threads that have just worked spin on for a while. A small run of the dense engine in between tells
    # by how much the machine is slower now than when that engine was measured, so that the two stay comparable.
    dense = 64**2 * (coefficient("dense_pair") + 6 * coefficient("dense_coordinate")) + coefficient("dense_call")
    for name in ("lane_alone", "lane"):
        count = counts[name]
        times = _best({d: runs[name, d] for d in sizes} | {"dense": _dense_steps(64, 3)})
        slower = times["dense"] / (_DENSE_STEPS * 4 * dense)
        line = _line(*(times[d] / (slower * count * n * n * steps) for d in sizes), *(2.0 * d for d in sizes))
        found[f"{name}_pair"], found[f"{name}_coordinate"] = line
    return found


def _chart() -> Costs:
    n, steps, sizes = 96, 32, (8, 48)
    low, high = np.zeros(n, np.int64), np.full(n, n)
    runs = {}
    for d in sizes:
        zero, ones, own = np.zeros(d), np.ones(d), np.arange(d)
        basis = kernels.Basis(np.eye(d), True, ones, 0.1 * ones, zero, 0.1 * ones, zero, own, own[:0], 0.1)
        y = np.random.default_rng(0).normal(size=(1, n, d)) / d**0.5
        plan = (np.array([steps]), np.ones(1), 1e-3, np.array([[0.0], [1.0]]), 0.0, low, high, np.zeros(1))
        runs[d] = partial(_from_start, basis, y, plan)
    times = _best(runs)
    pair, coordinate = _line(*(times[d] / (n * n * steps) for d in sizes), *map(float, sizes))
    return {"chart_pair": pair, "chart_coordinate": coordinate}


def _from_start(basis: kernels.Basis, y: np.ndarray, plan: tuple[Any, ...]) -> None:
    kernel_runs.advance([basis], kernel_runs.start(y, np.arange(y.shape[1])[None]), *plan)


_DENSE_STEPS = 16


def _dense_steps(n: int, d: int) -> Callable[[], None]:
    """A few steps of one run compiled by JAX."""
    x = np.random.default_rng(0).normal(size=(n, d))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    state = stepping.Stepped(x, x, np.asarray(0), np.zeros(()))  # type: ignore[arg-type]
    step = partial(stepping.advance_fixed, Dynamics(), state, np.array([_DENSE_STEPS]), np.ones(1), 1e-3, None)
    return partial(_ready, partial(step, method=RK4, noisy=False, between=False))


def _dense() -> Costs:
    cases = ((16, 3), (192, 3), (192, 48))
    runs: dict[Any, Callable[[], object]] = {case: _dense_steps(*case) for case in cases}
    runs["callback"] = partial(_ready, partial(jax.jit(_and_back), np.zeros((192, 3))))
    times = _best(runs)
    each = {case: times[case] / (_DENSE_STEPS * 4) for case in cases}  # seconds per evaluation
    pair, coordinate = _line(*(each[case] / 192**2 for case in cases[1:]), *(2.0 * d for _, d in cases[1:]))
    call = max(0.0, each[16, 3] - 16**2 * (pair + 6 * coordinate))
    back = times["callback"] / 8
    return {"dense_call": call, "dense_pair": pair, "dense_coordinate": coordinate, "callback": back}


def _ready(function: Callable[[], Any]) -> None:
    jax.block_until_ready(function())


def _and_back(x: jax.Array) -> jax.Array:
    """Eight calls to the host."""

    def call(_: int, y: jax.Array) -> jax.Array:
        back: jax.Array = jax.pure_callback(np.asarray, jax.ShapeDtypeStruct(y.shape, y.dtype), y)
        return back

    return jax.numpy.asarray(jax.lax.fori_loop(0, 8, call, x))


_TILES = tuple(
    f"{how}_{what}_{dtype}" for how in ("tile", "blas") for what in ("pair", "coordinate") for dtype in _DTYPES
)
GROUPS: dict[str, tuple[tuple[str, ...], Callable[[], Costs]]] = {
    "rows": (("call", "share", "pair", "symmetric_pair"), _rows),
    "tiles": (_TILES, _tiles),
    "expansions": (("token", "mode_2", "mode_3"), _expansions),
    "lanes": (("lane_pair", "lane_coordinate", "lane_alone_pair", "lane_alone_coordinate"), _lanes),
    "chart": (("chart_pair", "chart_coordinate"), _chart),
    "dense": (("dense_call", "dense_pair", "dense_coordinate", "callback"), _dense),
}
