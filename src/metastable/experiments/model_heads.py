"""Fig. 2 of the first paper: what a model's heads look at, how alike they are, and the first token as a sink."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from metastable.experiments import model_access
from metastable.experiments.base import Check, Data, Experiment, Finding, Work
from metastable.experiments.model_checks import sink_check
from metastable.experiments.model_heads_pictures import RIGHT, draw
from metastable.models.agreement import adjusted_rand
from metastable.models.heads import Heads, averaged, cut, grouped, null_silhouette
from metastable.models.model import Model
from metastable.models.probe import probe
from metastable.models.stream import stream
from metastable.theory.verdicts import Verdict, judge_number

SOURCE = "first paper, sec. 3.1.2, 4.1 and Fig. 2"
SINK = "first paper, sec. 2.2, 4.1 and 5"
CLAIM = "Attention heads fall into groups"
CLEAR = 0.5  # mean silhouette from which groups count as clear, by the usual reading of that number
TWICE = 2.0
DRAWS = 400


@dataclass(frozen=True)
class Params:
    """``instances`` texts of the model's own corpus, at its trained depth; sinks also in ``others``, on English."""

    model: str = model_access.ZOO
    layers: int | None = None
    others: tuple[str, ...] = model_access.OTHERS
    instances: int = 100
    seed: int = 0


def run(params: Params, work: Work) -> Data:
    model = model_access.model_of(params.model)
    given = model_access.texts_of(model, params.seed, params.instances)
    depth = params.layers or model.depth
    work.progress(0.1, f"heads of {params.model}")

    def heads() -> Data:
        reducer = Heads(depth, model.heads, [model.mask(layer) for layer in range(depth)], special=True)
        tally = stream(
            model, given, [reducer], depth, min(512, model.longest), progress=_report_texts(work, len(given))
        )
        found = {name: getattr(reducer, name) for name in ("total", "count", "null", "noise", "received")}
        words = model.words(tally.first, reducer.received.shape[-1])
        return found | {"words": np.array(words), "layer": np.arange(1, depth + 1)}

    data = work.part("heads", heads)
    for name in model_access.names_of(params):
        work.progress(0.6, f"sinks of {name}")
        data |= {
            f"{name}/{key}": value
            for key, value in work.part(f"sinks-{model_access.slug(name)}", _sinks(params, name)).items()
        }
    return data


def _report_texts(work: Work, count: int) -> Callable[[int, int | None], None]:
    return lambda done, total: work.progress(0.1 + 0.5 * done / count, f"heads: {done} of {count} texts")


def _sinks(params: Params, name: str) -> Callable[[], Data]:
    """First-token mass (texts, layers, heads) and its baseline (texts, layers); a sentence where there is no model."""

    def make(model: Model) -> Data:
        depth = params.layers if name == params.model else None
        given = model_access.texts_of(model, params.seed if name == params.model else 0, params.instances)
        found = []
        for text in given:
            sinks = probe(model, [text], layers=depth, measure=("sinks",), longest=512).sinks
            assert sinks is not None
            found.append(sinks.sel(kind="first"))
        return {
            "mass": np.stack([one["mass"].values for one in found]),
            "position": np.stack([one["position"].values for one in found]),
        }

    return lambda: model_access.measured(params, name, make)


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    if model_access.SKIPPED in data:
        return model_access.skipped(CLAIM, SOURCE, data)
    verdicts = [*_groups(params, data), _rise(params, data), _every_layer(params, data)]
    names = model_access.names_of(params)
    return verdicts + model_access.judged(names, data, "The first token is a sink", SINK, lambda n: _sink(n, data))


def _groups(params: Params, data: Data) -> list[Verdict]:
    """Heads of the last layer fall into groups, and other texts show the same groups.

    The number of groups is the one with the best mean silhouette of 1 - correlation. Groups are clear when that
    silhouette is at least CLEAR = 0.5: two heads of one group are then, on average, at half the distance of heads of
    different groups. The interval is a bootstrap over the folds into which the texts were dealt. Stability compares
    the groups found in random halves of the texts; ARI 0.8 leaves about one head of eight misplaced.
    """
    total, count = data["total"][-1], data["count"][-1]
    labels, score = grouped(averaged(total, count))
    filled = _filled(count)
    draws = np.random.default_rng(0).integers(0, len(filled), (DRAWS, len(filled)))
    spread = [grouped(averaged(total[rows], count[rows]))[1] for rows in filled[draws]]
    ends = _ends(spread)
    sizes = np.bincount(labels)
    listed = " and ".join(str(np.flatnonzero(labels == k).tolist()) for k in range(len(sizes)))
    strength = "clear" if score >= CLEAR else "weak" if score >= CLEAR / 2 else "hardly separate"
    texts = np.maximum(count.sum(axis=0), 1.0)
    none = null_silhouette(data["null"][-1] / texts, np.sqrt(data["noise"][-1]) / texts)
    notes = (
        f"{len(sizes)} groups, {listed}; they are {strength}: 0.5 and more is clear, below 0.25 hardly any; "
        f"heads with shuffled maps reach {none:.2f}"
    )
    last = int(data["layer"][-1])
    found = model_access.counted(
        params.instances,
        f"{CLAIM} at layer {last}: the silhouette of the best grouping is at least {CLEAR:g} ({params.model}).",
        SOURCE,
        score,
        (CLEAR, 1.0),
        ends,
        notes,
    )
    agreed = _stability(total, count, len(sizes))
    again = judge_number(
        f"Other texts show the same groups of heads at layer {last} ({params.model}).",
        SOURCE,
        agreed,
        (0.8, 1.0),
        kind="observation",
        notes="adjusted Rand index between the groups found in two random halves of the texts",
    )
    return [found, again]


def _filled(count: np.ndarray) -> np.ndarray:
    """The folds that hold a text."""
    return np.flatnonzero(count.any(axis=(1, 2)))


def _stability(total: np.ndarray, count: np.ndarray, k: int) -> list[float]:
    filled, rng, agreed = _filled(count), np.random.default_rng(0), []
    for _ in range(35 if len(filled) > 1 else 0):  # as many as there are ways to halve eight folds
        order = rng.permutation(filled)
        sides = (order[: len(order) // 2], order[len(order) // 2 :])
        agreed.append(adjusted_rand(*(cut(averaged(total[s], count[s]), k) for s in sides)))
    return agreed


def _rise(params: Params, data: Data) -> Verdict:
    """The mean correlation of two different heads grows from the first layer to the last; bootstrap over folds."""
    filled = _filled(data["count"][0])
    draws = np.random.default_rng(1).integers(0, len(filled), (DRAWS, len(filled)))
    gains = [_mean_correlation(data, -1, rows) - _mean_correlation(data, 0, rows) for rows in filled[draws]]
    whole = [_mean_correlation(data, k, filled) for k in (0, -1)]
    return model_access.counted(
        params.instances,
        f"Correlations of heads grow with depth, from layer 1 to {int(data['layer'][-1])} ({params.model}).",
        SOURCE,
        whole[1] - whole[0],
        (0.0, 2.0),
        _ends(gains),
        f"mean correlation of two heads {whole[0]:.3f} at the first layer, {whole[1]:.3f} at the last",
    )


def _every_layer(params: Params, data: Data) -> Verdict:
    """ "Generally increase with depth", through all layers: the rank correlation of the mean correlation of two heads
    with the layer is at least 0.5; bootstrap over the folds of the texts."""
    filled, layers = _filled(data["count"][0]), np.arange(len(data["layer"]), dtype=float)
    draws = np.random.default_rng(2).integers(0, len(filled), (DRAWS // 4, len(filled)))

    def trend(rows: np.ndarray) -> float:
        means = np.array([_mean_correlation(data, k, rows) for k in range(len(layers))])
        return float(np.corrcoef(means.argsort().argsort(), layers)[0, 1]) if len(layers) > 1 else float("nan")

    each = ", ".join(f"{_mean_correlation(data, k, filled):.2f}" for k in range(len(layers)))
    return model_access.counted(
        params.instances,
        f"Correlations of heads increase through all layers (rank correlation with depth, {params.model}).",
        SOURCE,
        trend(filled),
        (0.5, 1.0),
        _ends([trend(rows) for rows in filled[draws]]),
        f"mean correlation of two heads, layer by layer: {each}",
    )


def _mean_correlation(data: Data, layer: int, folds: np.ndarray) -> float:
    found = averaged(data["total"][layer, folds], data["count"][layer, folds])
    return float(np.nanmean(found[~np.eye(len(found), dtype=bool)]))


def _ends(values: list[float]) -> tuple[float, float]:
    low, high = np.nanquantile(values, [0.025, 0.975])
    return float(low), float(high)


def _sink(name: str, data: Data) -> list[Verdict]:
    """The first token gets at least twice what a head without preferences would give it.

    Per text: its attention mass averaged over all heads and layers, over the baseline of attention spread evenly over
    the tokens that the mask leaves visible (for a causal mask well above 1/n). No head is picked out, so none can be
    picked for its value in this sample. The factor two leaves out small excesses, which any uneven attention gives half
    of all tokens.
    """
    mass, position = data[f"{name}/mass"], data[f"{name}/position"]  # (texts, layers, heads), (texts, layers)
    each = mass.mean(axis=0)
    layer, head = np.unravel_index(np.argmax(each), each.shape)
    return [
        judge_number(
            f"The first token is a sink: all heads and layers together pay it at least twice what even attention "
            f"would ({name}).",
            SINK,
            mass.mean(axis=(1, 2)) / position.mean(axis=1),
            (TWICE, np.inf),
            kind="observation",
            notes=f"mean mass {each.mean():.3f} against a baseline of {position.mean():.3f}; strongest is layer "
            f"{layer + 1}, head {head} with {each.max():.2f}; measured is the ratio, text by text",
        )
    ]


def finding(params: Params, data: Data) -> Finding | None:
    if model_access.SKIPPED in data:
        return None
    filled = _filled(data["count"][0])
    first, last = (_mean_correlation(data, k, filled) for k in (0, -1))
    score = grouped(averaged(data["total"][-1], data["count"][-1]))[1]
    mass, position = data[f"{params.model}/mass"].mean(), data[f"{params.model}/position"].mean()
    return Finding(
        "Heads are said to grow alike with depth, to form two groups, and to look at the first token.",
        f"In {params.model} the mean correlation of two heads goes from {first:.2f} at the first layer to {last:.2f} "
        f"at the last, groups have a silhouette of {score:.2f} (0.5 is clear), and the first token gets "
        f"{mass / position:.1f} times its even share.",
        RIGHT,
    )


def check(params: Params) -> dict[str, Check]:
    """The attention that the first token of a short text gets."""
    return sink_check(params.model)


EXPERIMENT = Experiment(
    name="model-heads",
    title="A real model's heads, and its first token",
    source=SOURCE,
    figures="Fig. 2",
    params=Params,
    run=model_access.or_skip(run),
    judge=judge,
    draw=draw,
    quick={"instances": 20, "others": ()},
    full={"instances": 500},
    check=check,
    finding=finding,
    topic="model",
    leaves_out="Other models, and four fifths of the texts.",
    text="Correlations of attention maps over the entries of each text, in the mean over texts, and groups of heads by "
    "average linkage. How "
    "clear groups are is a number of its own, the silhouette: linkage always finds groups, also where there are none. "
    "The first token's attention is set against what a head without preferences would give it under the model's mask.",
)
