"""Beyond the papers: weights shared by all layers against weights of their own, before and after fine-tuning.

The theory has one V for all times: weights that all layers share. Two real models differ in that. An ALBERT (one block,
used 12 times) and a BERT (12 blocks) were trained on the same kind of chemical reactions, read with the same
vocabulary, and are equally wide; the BERT also exists after it was taught to name the class of a reaction, in two
versions. So every text is the same tokens in all four, and differences are taken text by text.

What is judged was fixed before anything was measured, and is judged on the trained depth (layer 12):

| claim | measured, text by text | it holds when the mean is at least |
| --- | --- | --- |
| shared weights leave tokens more alike | raw mean cosine, ALBERT - BERT | SEEN = 0.05 |
| ... and not only by a common direction | share of centred cosines above 0.9, ALBERT - BERT | EVEN = 0.005 |
| ... and in fewer clusters | clusters per token (centred, 0.9), BERT - ALBERT | SEEN = 0.05 |
| fine-tuning leaves tokens more alike | raw mean cosine, fine-tuned - pretrained | SEEN = 0.05 |
| ... in fewer clusters | clusters per token (centred, 0.9), pretrained - fine-tuned | SEEN = 0.05 |
| ... by what it does to the last layers | mean change of that cosine, layers 9-12 less layers 1-4 | LITTLE = 0.02 |
| ... and attention goes to the first token | its share in layers 9-12, fine-tuned - pretrained | LITTLE = 0.02 |

A difference of 0.05 is seen in a figure of the whole range; 0.005 is the least share that shows as a spike (Fig. 1).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from metastable.errors import InputError
from metastable.experiments import model_access
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.model_checks import similarity_check
from metastable.models.model import Model
from metastable.models.probe import probe
from metastable.models.spectra import spectra
from metastable.plots import series, table
from metastable.theory.intervals import mean_interval
from metastable.theory.verdicts import Verdict, judge_number

SOURCE = "beyond the papers: what one V for all layers does"
CLAIM = "Shared weights leave tokens more alike than weights of their own"
SEEN, EVEN, LITTLE = 0.05, 0.005, 0.02
SHARED, OWN = "reactions-albert", "reactions-bert"
TUNED = ("reactions-bert-finetuned", "reactions-bert-finetuned-10k")
MODELS = (SHARED, OWN, *TUNED)
SHORT = dict(zip(MODELS, ("ALBERT, shared", "BERT, pretrained", "BERT, fine-tuned", "BERT, fine-tuned (10k)")))
TABLE = "The four models at their last layer, means over texts"
CLASSES = ("first", "separator", "punctuation")


@dataclass(frozen=True)
class Params:
    """``instances`` reactions, the same for all models, at the trained depth."""

    models: tuple[str, ...] = MODELS
    instances: int = 100
    seed: int = 0


def run(params: Params, work: Work) -> Data:
    if set(params.models) != set(MODELS):
        raise InputError(
            f"The comparison of shared and unshared weights needs {OWN}, a download of 75 MB; run it without --quick."
        )
    data: Data = {}
    for name in MODELS:
        model = model_access.model_of(name)
        found = _measured(params, model, work)
        data |= {f"{name}/{key}": value for key, value in found.items()}
    return data


def _measured(params: Params, model: Model, work: Work) -> Data:
    """Of every text and layer 0 to 12: mean cosines, shares, clusters; of layers 1 to 12: sinks; of heads: triples."""
    given = model_access.texts_of(model, params.seed, params.instances)

    def chunk(first: int, last: int) -> Data:
        rows: dict[str, list[np.ndarray]] = {"mean": [], "share": [], "clusters": [], "sinks": []}
        for text in given[first:last]:
            found = probe(model, [text], measure=("similarity", "sinks"), longest=512)
            assert found.similarity is not None
            assert found.sinks is not None
            rows["mean"].append(found.similarity["mean"].values)  # (layer, kind)
            rows["share"].append(found.similarity["share_above"].sel(threshold=0.9).values)
            rows["clusters"].append(found.similarity["cluster_share"].sel(threshold=0.9).values)
            rows["sinks"].append(found.sinks["mass"].mean("head").sel(kind=list(CLASSES)).values)  # (layer, class)
        return {name: np.stack(values) for name, values in rows.items()}

    data = work.parts(f"texts-{model_access.slug(model.name)}", len(given), 10, chunk)
    triples = spectra(model, top=0).data
    return data | {"good": triples["good"].values, "trained": np.array(model.depth)}  # good: (layer, head)


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    if model_access.SKIPPED in data:
        return model_access.skipped(CLAIM, SOURCE, data)
    albert, bert = _last(data, SHARED), _last(data, OWN)
    between = f"({SHARED} against {OWN}, layer {int(data[f'{OWN}/trained'])})"
    verdicts = [
        _difference(f"{CLAIM} {between}.", "raw mean cosine", albert["raw"], bert["raw"], SEEN),
        _difference(
            f"Shared weights leave more tokens alike beside their common direction {between}.",
            "share of centred cosines above 0.9",
            albert["share"],
            bert["share"],
            EVEN,
        ),
        _difference(
            f"Shared weights leave fewer clusters {between}.",
            "clusters per token",
            albert["clusters"],
            bert["clusters"],
            SEEN,
            fewer=True,
        ),
    ]
    return verdicts + [verdict for name in TUNED for verdict in _tuned(data, name)]


def _tuned(data: Data, name: str) -> list[Verdict]:
    before, after = _last(data, OWN), _last(data, name)
    where = f"({name} against {OWN})"
    change = np.abs(data[f"{name}/mean"][:, :, 0] - data[f"{OWN}/mean"][:, :, 0])  # (texts, 13)
    third = (change.shape[1] - 1) // 3
    early, late = change[:, 1 : 1 + third].mean(axis=1), change[:, -third:].mean(axis=1)
    first = {key: data[f"{key}/sinks"][:, -third:, 0].mean(axis=1) for key in (OWN, name)}
    return [
        _difference(
            f"Fine-tuning leaves tokens more alike at the last layer {where}.",
            "raw mean cosine",
            after["raw"],
            before["raw"],
            SEEN,
        ),
        _difference(
            f"Fine-tuning leaves fewer clusters {where}.",
            "clusters per token",
            after["clusters"],
            before["clusters"],
            SEEN,
            fewer=True,
        ),
        _difference(
            f"Fine-tuning acts on the last third of the layers more than on the first {where}.",
            "change of the raw mean cosine",
            late,
            early,
            LITTLE,
        ),
        _difference(
            f"Fine-tuning turns attention to the first token in the last third of the layers {where}.",
            "attention on the first token",
            first[name],
            first[OWN],
            LITTLE,
        ),
    ]


def _last(data: Data, name: str) -> Mapping[str, np.ndarray]:
    """What is judged of a model at its last layer, one number per text."""
    return {
        "raw": data[f"{name}/mean"][:, -1, 0],
        "share": data[f"{name}/share"][:, -1, 1],
        "clusters": data[f"{name}/clusters"][:, -1, 1],
    }


def _difference(
    claim: str, what: str, one: np.ndarray, other: np.ndarray, least: float, fewer: bool = False
) -> Verdict:
    """One number is larger (or smaller, ``fewer``) than another by at least ``least``, text by text."""
    gap = other - one if fewer else one - other
    return judge_number(
        claim,
        SOURCE,
        gap,
        (least, np.inf),
        kind="observation",
        notes=f"{what}: {np.nanmean(one):.3g} against {np.nanmean(other):.3g}; a difference of {least:g} was asked for",
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    if model_access.SKIPPED in data:
        return {}
    figures: Figures = {TABLE: _table(data)}
    lines = {
        "Mean cosine of tokens, raw": ("mean", 0, "mean cosine"),
        "Mean cosine of tokens beside the mean direction of each text": ("mean", 1, "mean cosine, centred"),
        "Clusters per token (centred cosines above 0.9)": ("clusters", 1, "clusters per token"),
        "Attention on the first token, mean over heads": ("sinks", 0, "attention"),
        "Attention on punctuation (dots and arrows of a reaction), mean over heads": ("sinks", 2, "attention"),
    }
    for title, (key, column, label) in lines.items():
        figures[f"{title}, with 95% intervals over texts"] = _by_layer(data, key, column, label)
    return figures


def _by_layer(data: Data, key: str, column: int, label: str) -> Figure:
    means, bands = {}, {}
    for name, short in SHORT.items():
        values = data[f"{name}/{key}"][:, :, column]  # (texts, layers)
        means[short] = np.nanmean(values, axis=0)
        bands[short] = tuple(np.array([mean_interval(v[np.isfinite(v)]) for v in values.T]).T)
    first = 1 if key == "sinks" else 0
    layers = np.arange(first, first + len(means[SHORT[OWN]]))
    return series(layers, means, band=bands, xlabel="layer", ylabel=label, marks=True)


def _table(data: Data) -> Figure:
    columns = [
        *("cosine\nraw", "cosine\ncentred", "above 0.9\nraw", "above 0.9\ncentred", "clusters\nper token"),
        *("on first\ntoken", "on\nseparator", "on punc-\ntuation", "good\ntriples"),
    ]
    cells = []
    for name in MODELS:
        mean, share, clusters, sinks = (
            np.nanmean(data[f"{name}/{key}"][:, -1], axis=0) for key in ("mean", "share", "clusters", "sinks")
        )
        good = data[f"{name}/good"]
        numbers = [mean[0], mean[1], share[0], share[1], clusters[1], *sinks]
        cells.append([*(f"{value:.3f}" for value in numbers), f"{int((good == 1).sum())} of {good.size}"])
    return table(columns, [SHORT[name] for name in MODELS], cells)


def finding(params: Params, data: Data) -> Finding | None:
    if model_access.SKIPPED in data:
        return None
    cosine = {SHORT[name]: np.nanmean(_last(data, name)["raw"]) for name in MODELS}
    each = ", ".join(f"{value:.2f} in {name}" for name, value in cosine.items())
    return Finding(
        "The theory has one V for all times, weights that all layers share: they should leave tokens more alike.",
        f"At layer {int(data[f'{OWN}/trained'])} the mean cosine of a text's tokens is {each}; the models differ in "
        "more than sharing.",
        TABLE,
    )


def check(params: Params) -> dict[str, Check]:
    """What the similarities of one short text are, by plain NumPy."""
    return similarity_check(SHARED)


EXPERIMENT = Experiment(
    name="model-sharing",
    title="Shared against unshared weights, before and after fine-tuning",
    source=SOURCE,
    figures="none in the papers",
    params=Params,
    run=model_access.or_skip(run),
    judge=judge,
    draw=draw,
    quick={"models": (SHARED,)},
    check=check,
    finding=finding,
    topic="model",
    full={"instances": 500},
    leaves_out="The whole comparison, which needs a download of 75 MB.",
    text="An ALBERT, whose one block is used twelve times, and a BERT with twelve blocks of its own read the same "
    "chemical reactions with the same vocabulary and the same width; the BERT is there as pretrained and fine-tuned in "
    "two ways on the classes of reactions. Every reaction is the same tokens in all four, so differences are taken "
    "text by text. The models differ in more than sharing (heads, size of the embedding, training), so a difference "
    "is a natural experiment's and no proof of its cause. Good triples are counted on (Q, K, O V) of every head; the "
    "shared block has one layer's worth.",
)
