"""Neural collapse in a real model: tokens of one kind as a class, their means and a simplex, layer by layer.

Classes are the most frequent tokens of the texts, all their occurrences one class. Two numbers of neural collapse are
followed through the layers: the spread within classes over the spread between them, and the distance of class means
from a regular simplex (`simplex`). Groups of texts are the instances.
"""

from dataclasses import dataclass

import numpy as np

from metastable.experiments import model_access
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.model_checks import short_text, states_and_maps
from metastable.experiments.simplex import random_distance, simplex_distance, variability
from metastable.models.model import Model
from metastable.plots import series
from metastable.plots.style import captioned, panels, paper
from metastable.theory.intervals import mean_interval
from metastable.theory.verdicts import Verdict, judge_number

SOURCE = "first paper, sec. 1, and second paper, related work: neural collapse"
CLAIM = "Tokens of one kind collapse to the vertices of a simplex"
TITLE = "Two numbers of neural collapse through the layers of a real model"


@dataclass(frozen=True)
class Params:
    """``instances`` groups of ``texts`` texts; the ``classes`` most frequent tokens of each group."""

    model: str = model_access.ZOO
    texts: int = 6
    classes: int = 8
    tokens: int = 96
    instances: int = 24
    seed: int = 0


def run(params: Params, work: Work) -> Data:
    model = model_access.model_of(params.model)
    given = model_access.texts_of(model, params.seed, params.instances * params.texts)

    def chunk(first: int, last: int) -> Data:
        groups = [given[k * params.texts : (k + 1) * params.texts] for k in range(first, last)]
        rows = [numbers(params, model, group) for group in groups if len(group)]
        return {key: np.array([row[i] for row in rows]) for i, key in enumerate(("spread", "simplex", "random"))}

    return {**work.parts("groups", params.instances, 4, chunk), "trained": np.array(model.depth)}


def numbers(params: Params, model: Model, texts: object) -> tuple[np.ndarray, np.ndarray, float]:
    """Variability and distance from a simplex (layers + 1,) of a group of texts, and the random directions' "
    "distance."""
    ids, states = [], []
    for text in texts:  # type: ignore[attr-defined]
        reading = model.read(text, min(params.tokens, model.longest))
        if reading is not None:
            found = states_and_maps(model, reading.given, model.depth)[0]
            names, special = model.tokens(reading.given, len(found[0]))
            ids.append(np.where(special, -1, names))
            states.append(np.stack(found))
    labels, x = np.concatenate(ids), np.concatenate(states, axis=1)  # (m,), (layers + 1, m, d)
    names, count = np.unique(labels[labels >= 0], return_counts=True)
    chosen = names[np.argsort(-count, kind="stable")[: params.classes]]
    kept = np.isin(labels, chosen)
    labels, x = labels[kept], x[:, kept]
    spread = np.array([variability(v, labels) for v in x])
    distance = np.array([simplex_distance(np.stack([v[labels == k].mean(axis=0) for k in chosen])) for v in x])
    return spread, distance, random_distance(len(chosen), x.shape[2], np.random.default_rng(0))


def check(params: Params) -> dict[str, Check]:
    """The two numbers of a short text at layer 1, written out with loops."""
    found = short_text(params.model)
    if found is None:
        return {}
    model, ids = found
    x = states_and_maps(model, ids, 1)[0][1]
    labels = np.array(ids)
    means = {k: sum(x[i] for i in range(len(x)) if labels[i] == k) / (labels == k).sum() for k in np.unique(labels)}
    centre = sum(means.values()) / len(means)
    inside = np.mean(
        [np.mean([(x[i] - m) @ (x[i] - m) for i in range(len(x)) if labels[i] == k]) for k, m in means.items()]
    )
    between = np.mean([(m - centre) @ (m - centre) for m in means.values()])
    return {"spread within over spread between": (variability(x, labels), inside / between, 1e-9)}


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """Collapse of classes: the spread within over the spread between falls from layer 0 to the last, group by group.

    Towards a simplex: so does the distance of class means from one. Near one: at the last layer that distance is at
    most 0.25; as many random directions of this dimension are nearer (in the notes), so that this alone is no sign of
    collapse.
    """
    if model_access.SKIPPED in data:
        return model_access.skipped(CLAIM, SOURCE, data)
    spread, distance = data["spread"], data["simplex"]
    close = f"{data['random'].mean():.2f} for as many random directions"
    return [
        judge_number(
            f"Tokens of one kind collapse: their spread within over between falls through the layers ({params.model}).",
            SOURCE, np.log(spread[:, -1] / spread[:, 0]), (-np.inf, 0.0), kind="reading",
            notes=f"the logarithm of the ratio; spread {spread[:, 0].mean():.3g} at layer 0, "
            f"{spread[:, -1].mean():.3g} at the last",
        ),
        judge_number(
            f"Their means move towards a simplex: the distance falls through the layers ({params.model}).",
            SOURCE, distance[:, -1] - distance[:, 0], (-np.inf, 0.0), kind="reading",
            notes=f"{distance[:, 0].mean():.2f} at layer 0, {distance[:, -1].mean():.2f} at the last, {close}",
        ),
        judge_number(
            f"Their means are near a simplex at the last layer, 0.25 or less ({params.model}).",
            SOURCE, distance[:, -1], (0.0, 0.25), kind="reading", notes=close,
        ),
    ]  # fmt: skip


def draw(params: Params, data: Data) -> Figures:
    if model_access.SKIPPED in data:
        return {}
    layers = np.arange(data["spread"].shape[1])
    labels = ("spread within over between", "distance from a simplex")
    with paper():
        figure, axes = panels(None, 2, 3.0, 0.8)
        for axis, key, label in zip(axes, ("spread", "simplex"), labels):
            low, high = np.array([mean_interval(v) for v in data[key].T]).T
            even = np.full(len(layers), data["random"].mean())
            series(
                layers, {"": data[key].mean(axis=0)}, band=(low, high), xlabel="layer", ylabel=label, marks=True,
                ax=axis, reference={"random directions": (layers, even)} if key == "simplex" else {},
            )  # fmt: skip
            axis.set_ylim(0.0, None)
    what = (
        f"{params.model}: classes are the {params.classes} most frequent tokens of {params.texts} texts; means of "
        f"{len(data['spread'])} groups of texts from number {params.seed} on, with 95% intervals."
    )
    return {TITLE: captioned(figure, what)}


def finding(params: Params, data: Data) -> Finding | None:
    if model_access.SKIPPED in data:
        return None
    spread, distance = data["spread"].mean(axis=0), data["simplex"].mean(axis=0)
    return Finding(
        "Clustering of tokens is compared with neural collapse: tight classes at the vertices of a simplex.",
        f"In {params.model} tokens of one kind spread {spread[0]:.2g} times as much within as between kinds at layer 0 "
        f"and {spread[-1]:.2g} at the last; their means are {distance[0]:.2f} and {distance[-1]:.2f} from a simplex.",
        TITLE,
    )


EXPERIMENT = Experiment(
    name="model-simplex",
    title="Neural collapse in a real model",
    source=SOURCE,
    figures="none in the papers",
    params=Params,
    run=model_access.or_skip(run),
    judge=judge,
    draw=draw,
    quick={"instances": 20, "texts": 4, "tokens": 64},
    full={"instances": 200},
    check=check,
    finding=finding,
    topic="model",
    leaves_out="Texts of more than 64 tokens.",
    text="All occurrences of one token are a class. Neural collapse would make classes tight and put their means at "
    "the vertices of a regular simplex; both are followed through the layers.",
)
