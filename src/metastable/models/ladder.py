"""The ladder: a model rebuilt as particle dynamics, one part at a time, and how far each rung is from the real thing.

The top rung is the network itself, so its distance is rounding; what each step down loses is what the theory leaves
out. Every rung starts from the model's own embedded tokens of one text.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.errors import InputError
from metastable.models.agreement import adjusted_rand, wasserstein
from metastable.models.layer_similarity import cluster_labels
from metastable.models.load import load
from metastable.models.model import Model
from metastable.models.probe import trajectory
from metastable.models.rungs import RUNGS, final_norm, rung
from metastable.solve.simulate import simulate
from metastable.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, eq=False)
class Ladder:
    """Rungs beside the real model.

    ``data`` is an ``xarray.Dataset`` over (rung, layer):

    - ``wasserstein``: Wasserstein-1 distance of the distributions of pairwise cosines, i < j;
    - ``rand_index``: adjusted Rand index of the clusters (tokens linked by cosines above ``threshold``);
    - ``gram_distance``: ||G - G'||_F / ||G'||_F of the matrices of cosines, G' the model's;
    - ``relative_error``: ||x - x'||_F / ||x'||_F of the states themselves, for rungs that have the model's norms;
    - ``mean_cosine``: over pairs, with ``model_mean_cosine`` (layer) beside it;
    - ``step_error``: for a weight-shared model, the gram distance between a sphere rung's layers and the same rung in
      continuous time: small where one layer is a small step of the ODE.

    ``runs`` holds a ``Trajectory`` for every rung, with its ``Dynamics``; none when they were not to be kept.
    """

    model: Model
    real: Trajectory = field(repr=False)
    runs: tuple["Trajectory", ...] = field(repr=False)
    data: "xarray.Dataset" = field(repr=False)


def ladder(
    name: str | Path | Model,
    text: str | Sequence[int],
    layers: int | None = None,
    rungs: Sequence[int] = (0, 1, 2, 3, 4),
    head: int = 0,
    threshold: float = 0.9,
    keep: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Ladder:
    """Climb from the pure particle system to the exact network on one text.

    Parameters
    ----------
    name : str, Path or Model
        What ``metastable.models.load`` takes, or what it returned; both sides are run in float64 in any case.
    text : str or sequence of token ids
    layers : int, optional
        How many layers; the trained depth when left out, more for a weight-shared model.
    rungs : sequence of int
        Which rungs, of ``metastable.models.rungs.RUNGS``.
    head : int
        The head of rung 0.
    threshold : float
        Cosine above which tokens count as one cluster for ``rand_index``.
    keep : bool
        False leaves ``runs`` empty: the weights of one layer at a time in float64 are then all the memory it takes.
    progress : function, optional
        Called with (rungs done, rungs in all) before every rung.

    Examples
    --------
    >>> from metastable.models import ladder
    >>> climb = ladder("reactions-albert", "CCO.CC(=O)O>>CCOC(C)=O")  # doctest: +SKIP
    >>> float(climb.data["relative_error"].sel(rung=4).max()) < 1e-10  # doctest: +SKIP
    True
    """
    model = name if isinstance(name, Model) else load(name)
    with model.doubled():
        real = trajectory(model, text, layers, maps=keep)
    if real.x.shape[1] < 2:
        raise InputError("The ladder compares pairs of tokens; the text has a single token.")
    depth = len(real) - 1
    runs: list[Trajectory] = []
    rows: list[list[dict[str, float]]] = []
    steps: list[np.ndarray] = []
    for number in rungs:
        if progress is not None:
            progress(len(rows), len(rungs))
        run = _climb(model, real, number, depth, head)
        rows.append([_distances(x, y, number, threshold) for x, y in zip(run.x, real.x)])
        steps.append(_step_error(model, run, number))
        if keep:
            whole = run.dynamics or rung(model, number, real.x.shape[1], depth, head)
            runs.append(replace(run, dynamics=whole))
    return Ladder(model, real, tuple(runs), _dataset(rows, steps, list(rungs), real))


def _climb(model: Model, real: Trajectory, number: int, depth: int, head: int) -> Trajectory:
    n, start = real.x.shape[1], _start(real.x[0], number)
    if model.shared:
        run = simulate(rung(model, number, n, depth, head), start, t=depth, method="layers", save=depth + 1)
    else:
        run = _layer_by_layer(model, number, start, depth, head)
    norm = final_norm(model)
    if number >= 3 and norm is not None and depth == model.depth:
        last = np.asarray(norm(run.x[-1]))  # the library norms the last state, and so do we
        run = replace(run, x=np.concatenate([run.x[:-1], last[None]]))
    return run


def _layer_by_layer(model: Model, number: int, start: np.ndarray, depth: int, head: int) -> Trajectory:
    """A rung of a model whose layers differ, with one layer's weights in memory; every layer is the same program."""
    x = [start]
    for layer in range(depth):
        step = rung(model, number, len(start), 1, head, first=layer)
        x.append(simulate(step, x[-1], t=1.0, method="layers", save=2).x[-1])
    made = {"method": "layers", "discrete": True, "dt": 1.0}
    return Trajectory(t=np.arange(depth + 1.0), x=np.stack(x), dynamics=None, provenance=made)


def _start(x: np.ndarray, number: int) -> np.ndarray:
    return x if number >= 3 else x / np.linalg.norm(x, axis=-1, keepdims=True)


def _step_error(model: Model, run: Trajectory, number: int) -> np.ndarray:
    """How far the layers of a sphere rung are from its own ODE; nan where there is no such comparison."""
    if number >= 3 or not model.shared or run.dynamics is None:
        return np.full(len(run), np.nan)
    flow = simulate(run.dynamics, run.x[0], t=float(run.t[-1]), method="rk4", dt=0.1, save=run.t)
    return np.array([_gram_distance(_cosine(x), _cosine(y)) for x, y in zip(run.x, flow.x)])


def _cosine(x: np.ndarray) -> np.ndarray:
    unit = x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-300)
    return np.asarray(np.clip(unit @ unit.T, -1.0, 1.0))


def _gram_distance(G: np.ndarray, H: np.ndarray) -> float:
    return float(np.linalg.norm(G - H) / np.linalg.norm(H))


def _distances(x: np.ndarray, y: np.ndarray, number: int, threshold: float) -> dict[str, float]:
    """How far tokens x of a rung are from the model's tokens y."""
    G, H = _cosine(x), _cosine(y)
    pairs = np.triu_indices(len(G), 1)
    same_space = number >= 3
    return {
        "wasserstein": wasserstein(G[pairs], H[pairs]),
        "rand_index": adjusted_rand(cluster_labels(G, threshold), cluster_labels(H, threshold)),
        "gram_distance": _gram_distance(G, H),
        "relative_error": float(np.linalg.norm(x - y) / np.linalg.norm(y)) if same_space else float("nan"),
        "mean_cosine": float(G[pairs].mean()),
    }


def _dataset(
    rows: list[list[dict[str, float]]], steps: list[np.ndarray], rungs: list[int], real: Trajectory
) -> "xarray.Dataset":
    import xarray

    both = ("rung", "layer")
    variables: dict[str, Any] = {
        key: (both, np.array([[cell[key] for cell in row] for row in rows])) for key in rows[0][0]
    }
    means = [_cosine(x)[np.triu_indices(x.shape[0], 1)].mean() for x in real.x]
    variables["model_mean_cosine"] = ("layer", np.array(means))
    variables["step_error"] = (both, np.stack(steps))
    coords = {"rung": rungs, "layer": np.arange(len(real)), "part": ("rung", [RUNGS[r] for r in rungs])}
    return xarray.Dataset(variables, coords)
