"""The ladder: a model rebuilt as particle dynamics, one part at a time, and how far each rung is from the real thing.

The top rung is the network itself, so its distance is rounding; what each step down loses is what the theory leaves
out. Every rung starts from the model's own embedded tokens. Beside the rungs stand baselines that know nothing of
attention (``metastable.models.baselines``), and what each part does alone (``metastable.models.parts_alone``).

All systems of all texts are moved together, in the model's own precision, and every layer's weights are read once;
the top rung is also run in float64 on the first text, where it must agree with the model to rounding.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.models.baselines import baselines
from metastable.models.common_texts import Source, given
from metastable.models.load import load
from metastable.models.model import Given, Model, check_layers
from metastable.models.model_cards import ladder_card
from metastable.models.moving_systems import climb
from metastable.models.parts_alone import all_systems, compared_systems, parts_dataset
from metastable.models.rungs import RUNGS, check_climbable, check_rungs, rung
from metastable.models.sphere_rungs import Length, one_length, typical_lengths
from metastable.models.token_distances import distances, gram, gram_distance, pairs, rand_index
from metastable.solve.simulate import simulate
from metastable.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray

_EXACT = "rung 4 in float64"


@dataclass(frozen=True, eq=False, repr=False)
class Ladder:
    """Rungs beside the real model.

    ``data`` is an ``xarray.Dataset`` over (rung, text, layer):

    - ``gram_distance``: ||G - G'||_F / ||G'||_F of the matrices of cosines, G' the model's;
    - ``wasserstein``: Wasserstein-1 distance of the distributions of pairwise cosines, i < j;
    - ``rand_index``: adjusted Rand index of the clusters (tokens linked by cosines above ``threshold``);
    - ``mean_cosine``: over pairs, with ``model_mean_cosine`` (text, layer) beside it;
    - ``relative_error``: ||x - x'||_F / ||x'||_F of the states themselves, for rungs that have the model's norms, in
      the model's own precision;
    - ``exact_error`` (layer,): the same of the top rung in float64 on the first text;
    - ``step_error`` (rung, layer): for a weight-shared model, the gram distance between a sphere rung's layers and the
      same rung in continuous time on the first text: small where one layer is a small step of the ODE;
    - ``length`` (layer,): the median norm of the model's tokens.

    ``baselines`` is over (baseline, text, layer) and ``parts`` over (side, part, text, layer): see their modules.
    ``parts`` is None when it was not wanted. ``real`` holds the model's tokens (layer, text, token, coordinate), and
    ``runs`` a ``Trajectory`` for every rung, with its ``Dynamics``, where they were to be kept.
    """

    model: Model
    texts: list[Given]
    real: Trajectory
    runs: tuple["Trajectory", ...]
    data: "xarray.Dataset"
    baselines: "xarray.Dataset"
    parts: "xarray.Dataset | None"

    def __repr__(self) -> str:
        rungs = ", ".join(str(int(k)) for k in self.data.rung)
        return f"Ladder({self.model!r}: rungs {rungs} on {len(self.texts)} texts)"

    def _repr_html_(self) -> str:
        return ladder_card(repr(self.model), self.data)


def ladder(
    name: str | Path | Model,
    texts: Source | None = None,
    layers: int | None = None,
    rungs: Sequence[int] = (0, 1, 2, 3, 4),
    head: int = 0,
    threshold: float = 0.9,
    parts: bool = True,
    keep: bool = False,
    longest: int = 128,
    progress: Callable[[int, int], None] | None = None,
) -> Ladder:
    """Climb from the pure particle system to the exact network, on one text or several.

    Parameters
    ----------
    name : str, Path or Model
        What ``metastable.models.load`` takes, or what it returned.
    texts : str, sequence of token ids, or a sequence of either, optional
        One text or several, which are cut to the length of the shortest; when left out, some of the model's default
        corpus. A vision model takes pictures of one size, as files or arrays.
    layers : int, optional
        How many layers; the trained depth when left out, more for a weight-shared model.
    rungs : sequence of int
        Which rungs, of ``metastable.models.rungs.RUNGS``.
    head : int
        The head of rung 0, and the one that is left where all but one are removed.
    threshold : float
        Cosine above which tokens count as one cluster for ``rand_index``.
    parts : bool
        Whether to measure what each part does alone as well.
    keep : bool
        True keeps every rung's tokens and dynamics as ``runs``; otherwise the weights of one layer at a time are all
        the memory it takes.
    longest : int
        At most so many tokens of each text.
    progress : function, optional
        Called with (layers done, layers in all) before every layer.

    Examples
    --------
    >>> from metastable.models import ladder
    >>> climb = ladder("reactions-albert", "CCO.CC(=O)O>>CCOC(C)=O")  # doctest: +SKIP
    >>> float(climb.data["exact_error"].max()) < 1e-10  # doctest: +SKIP
    True
    """
    model = name if isinstance(name, Model) else load(name)
    check_climbable(model, head)
    check_rungs(rungs)
    depth = model.depth if layers is None else int(layers)
    check_layers(model, depth)
    ids = given(model, texts, longest)
    real = np.stack([_states(model, text, depth) for text in ids], axis=1)  # (depth + 1, texts, n, d)
    lengths = _lengths(model, real)
    systems = all_systems(model, ids, real[0], head, list(rungs), parts)
    seen = _Seen(real, _doubled_states(model, ids[0], depth) if 4 in rungs else None, threshold, keep)
    if seen.exact is not None:
        systems[_EXACT] = systems["rung 4"]._replace(start=seen.exact[0])
    for layer, x in enumerate(climb(model, systems, depth, lengths)):
        seen.layer(layer, x)
        if progress is not None and layer < depth:
            progress(layer, depth)
    made = {"model": model.name, "method": "layers", "discrete": True, "dt": 1.0, "dtype": model.dtype}
    times = np.arange(depth + 1.0)
    runs = [
        Trajectory(times, np.stack(seen.kept[f"rung {k}"]), _dynamics(model, k, real, head, lengths), provenance=made)
        for k in (rungs if keep else ())
    ]
    return Ladder(
        model,
        ids,
        Trajectory(times, real, None, provenance=made | ({"ids": ids} if model.vocabulary is not None else {})),
        tuple(runs),
        _dataset(model, seen, list(rungs), lengths, head),
        baselines(np.stack(seen.cosines), threshold),
        parts_dataset(seen.rows, seen.cosines, compared_systems(model)) if parts else None,
    )


def _states(model: Model, ids: Given, depth: int) -> np.ndarray:
    """The model's tokens (depth + 1, n, d) in its own precision."""
    found: list[np.ndarray] = []
    model.watch(ids, depth, lambda layer, x: found.append(x.copy()), lambda layer, A: None)
    return np.stack(found)


def _doubled_states(model: Model, ids: Given, depth: int) -> np.ndarray:
    """The same in float64, (depth + 1, 1, n, d)."""
    with model.doubled():
        return _states(model, ids, depth)[:, None]


def _lengths(model: Model, real: np.ndarray) -> list[Length]:
    """How long the tokens are that enter each layer; a shared block is one system, with one length."""
    found = typical_lengths(real)
    return [one_length(found[:-1])] * len(found) if model.shared else found


class _Seen:
    """Distances of every system from the model, layer by layer."""

    def __init__(self, real: np.ndarray, exact: np.ndarray | None, threshold: float, keep: bool) -> None:
        self.real, self.exact, self.threshold, self.keep = real, exact, threshold, keep
        self.rows: dict[str, list[dict[str, np.ndarray]]] = {}
        self.kept: dict[str, list[np.ndarray]] = {}
        self.cosines: list[np.ndarray] = []
        self.first: dict[str, list[np.ndarray]] = {}  # cosines (n, n) of every rung on the first text

    def layer(self, number: int, tokens: Mapping[str, np.ndarray]) -> None:
        """All systems after ``number`` layers."""
        H = gram(self.real[number])
        self.cosines.append(H)
        names = [name for name in tokens if name != _EXACT]
        G = gram(np.stack([tokens[name] for name in names]))  # (systems, texts, n, n)
        found = distances(G, H)
        rungs = [k for k, name in enumerate(names) if name.startswith("rung")]
        agreed = dict(zip(rungs, rand_index(G[rungs], H, self.threshold)))
        for k, name in enumerate(names):
            row = {key: values[k] for key, values in found.items()}
            if k in agreed:
                self.first.setdefault(name, []).append(G[k, 0])
                row |= {"rand_index": agreed[k], "mean_cosine": pairs(G[k]).mean(axis=-1)}
                row |= {"relative_error": _relative(tokens[name], self.real[number])}
                if self.keep:
                    self.kept.setdefault(name, []).append(tokens[name])
            self.rows.setdefault(name, []).append(row)
        if self.exact is not None:
            exact = {"relative_error": _relative(tokens[_EXACT], self.exact[number])}
            self.rows.setdefault(_EXACT, []).append(exact)


def _relative(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """||x - y||_F / ||y||_F of each text."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    return np.asarray(np.linalg.norm(x - y, axis=(-2, -1)) / np.linalg.norm(y, axis=(-2, -1)))


def _dynamics(model: Model, number: int, real: np.ndarray, head: int, lengths: Sequence[Length]) -> Dynamics:
    depth, n = len(real) - 1, real.shape[-2]
    return rung(model, number, n, depth, head, lengths=lengths[:1] if model.shared else lengths[:depth])


def _step_error(model: Model, seen: _Seen, number: int, lengths: Sequence[Length], head: int) -> np.ndarray:
    """How far the layers of a sphere rung are from its own ODE; nan where there is no such comparison."""
    depth = len(seen.real) - 1
    if number >= 3 or not model.shared:
        return np.full(depth + 1, np.nan)
    start = seen.real[0, 0].astype(np.float64)
    dynamics, times = _dynamics(model, number, seen.real, head, lengths), np.arange(depth + 1.0)
    start = start / np.linalg.norm(start, axis=-1, keepdims=True)
    flow = simulate(dynamics, start, t=float(depth), method="rk4", dt=0.1, save=times)
    return gram_distance(np.stack(seen.first[f"rung {number}"]), gram(flow.x))


def _dataset(model: Model, seen: _Seen, rungs: list[int], lengths: Sequence[Length], head: int) -> "xarray.Dataset":
    import xarray

    variables: dict[str, Any] = {}
    for key in ("gram_distance", "wasserstein", "rand_index", "mean_cosine", "relative_error"):
        table = np.array([[row[key] for row in seen.rows[f"rung {k}"]] for k in rungs])  # (rung, layer, text)
        variables[key] = (("rung", "text", "layer"), np.swapaxes(table, 1, 2))
    on_sphere = np.array(rungs) < 3
    variables["relative_error"][1][on_sphere] = np.nan  # directions are not tokens
    H = np.stack(seen.cosines)
    variables["model_mean_cosine"] = (("text", "layer"), pairs(H).mean(axis=-1).T)
    variables["step_error"] = (("rung", "layer"), np.stack([_step_error(model, seen, k, lengths, head) for k in rungs]))
    variables["length"] = ("layer", [length.token for length in typical_lengths(seen.real)])
    if _EXACT in seen.rows:
        variables["exact_error"] = ("layer", [float(row["relative_error"][0]) for row in seen.rows[_EXACT]])
    coords = {
        "rung": rungs,
        "text": np.arange(H.shape[1]),
        "layer": np.arange(len(H)),
        "part": ("rung", [RUNGS[k] for k in rungs]),
    }
    return xarray.Dataset(variables, coords)
