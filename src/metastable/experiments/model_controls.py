"""What training does to a real model's tokens: the model beside the same network untrained and with shuffled weights.

The claim, from a first look at two models: untrained or shuffled networks collapse to one point, with no clusters
beside the mean direction; trained ones form many small clusters. It is judged at the last trained layer and, for a
block that all layers share, at the last layer beyond, with criteria fixed before any model was measured for them
(`judge`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.experiments import model_access
from metastable.experiments.base import Data, Experiment, Figures, Work
from metastable.models.controls import ABOUT, CONTROLS
from metastable.models.model import Model
from metastable.models.probe import probe
from metastable.plots import series
from metastable.theory.intervals import Interval, mean_interval
from metastable.theory.verdicts import Verdict

SOURCE = "first paper, sec. 3.1.1 and Fig. 1, with controls that it does not have"
CLAIM = "Without training tokens collapse to one point, with it they form many small clusters"
TRAINED = "trained"
UNTRAINED = ("init", "shuffle")
ONE_POINT, NO_CLUSTERS, MANY, SMALL = 0.9, 0.05, 2.0, 0.25
_STATISTICS = ("largest", "mixed_share", "mixed_clusters")  # (layer, kind, threshold)


@dataclass(frozen=True)
class Params:
    """``instances`` texts of each model's corpus, cut to ``longest`` tokens; ``seeds`` of every control.

    ``layers`` is for models whose layers share one block; the others are measured at their trained depth.
    """

    model: str = model_access.ZOO
    others: tuple[str, ...] = model_access.OTHERS
    layers: int | None = 48
    longest: int = 128
    seeds: int = 2
    instances: int = 12
    seed: int = 0


def run(params: Params, work: Work) -> Data:
    names = (params.model, *model_access.companions(params))
    data: Data = {}
    for k, name in enumerate(names):
        try:
            model = model_access.model_of(name)
        except InputError as error:
            if name == params.model:
                raise
            data[f"{name}/{model_access.SKIPPED}"] = np.array(str(error))
            continue
        data[f"{name}/depth"] = np.array(model.depth)
        for j, variant in enumerate((TRAINED, *ABOUT)):
            work.progress((k + j / (1 + len(ABOUT))) / len(names), f"{name}: {variant}")
            part = work.part(f"{model_access.slug(name)}-{variant}", lambda m=model, v=variant: _measured(params, m, v))  # type: ignore[misc]
            data |= {f"{name}/{variant}/{key}": value for key, value in part.items()}
    return data


def _measured(params: Params, model: Model, variant: str) -> Data:
    """Each statistic (seed, text, layer, kind): clusters are made by cosines above 0.9."""
    given = model_access.texts_of(model, params.seed, params.instances)
    longest = min(params.longest, model.longest)
    depth = params.layers if model.shared else model.depth
    found: list[list[Any]] = []
    for seed in range(1 if variant == TRAINED else params.seeds):
        network, texts = (model, given) if variant == TRAINED else CONTROLS[variant](model, given, longest, seed)
        found.append([])
        for text in texts:
            one = probe(network, [text], layers=depth, measure=("similarity",), longest=longest).similarity
            assert one is not None
            found[-1].append(one.sel(threshold=0.9))
    return {key: np.array([[one[key].values for one in each] for each in found]) for key in _STATISTICS}


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """Four criteria for every model and depth; clusters are tokens linked by chains of cosines above 0.9.

    Collapse: the largest cluster holds at least ONE_POINT = 0.9 of a text's tokens, the mean direction included.
    No clusters: at most NO_CLUSTERS = 0.05 of a text's tokens are, beside the mean direction, in clusters that hold two
    different tokens (one token met twice is no cluster). Where all tokens have met there is nothing beside the mean
    direction, and no cluster. Both for fresh and for shuffled weights.
    Many: the trained model has at least MANY = 2 such clusters in a text, for one would be no multitude. Small: its
    largest cluster beside the mean direction holds at most SMALL = 0.25 of the tokens, a quarter of the text.

    Each is a mean over texts, which weigh the same, with Student's interval; of several seeds the interval reaches from
    the lowest end to the highest. The same number of the controls is the baseline of the last two.
    """
    if model_access.SKIPPED in data:
        return model_access.skipped(CLAIM, SOURCE, data)
    verdicts = []
    for name in (params.model, *model_access.companions(params)):
        if f"{name}/{model_access.SKIPPED}" in data:
            absent = {model_access.SKIPPED: data[f"{name}/{model_access.SKIPPED}"]}
            verdicts += model_access.skipped(f"{CLAIM} ({name}).", SOURCE, absent)
            continue
        trained = int(data[f"{name}/depth"])
        last = data[f"{name}/{TRAINED}/largest"].shape[2] - 1
        for layer in sorted({min(trained, last), last}):
            verdicts += _at(data, name, layer, trained)
    return verdicts


def _at(data: Data, name: str, layer: int, trained: int) -> list[Verdict]:
    where = "at the trained depth" if layer == trained else f"at layer {layer}, beyond the trained {trained}"
    end = f"{where} ({name})."

    def numbers(variant: str, key: str, kind: int) -> np.ndarray:
        """(seed, text); a text without a pair beside the mean direction has no cluster there."""
        return np.nan_to_num(data[f"{name}/{variant}/{key}"][:, :, layer, kind])

    def verdict(claim: str, variant: str, key: str, kind: int, accepted: Interval) -> Verdict:
        values = numbers(variant, key, kind)
        beside = ", ".join(f"{v} {numbers(v, key, kind).mean():.3g}" for v in (TRAINED, *ABOUT) if v != variant)
        notes = f"{variant} {values.mean():.3g}; {beside}; means of {len(values)} seeds: " if len(values) > 1 else ""
        notes += ", ".join(f"{v:.3g}" for v in values.mean(axis=1)) if notes else beside
        return model_access.counted(
            values.shape[1], f"{claim} {end}", SOURCE, float(values.mean()), accepted, _ends(values), notes
        )

    words = {"init": "fresh weights", "shuffle": "shuffled weights"}
    found = []
    for variant in UNTRAINED:
        with_what = words[variant]
        claim = f"With {with_what} tokens collapse to one point, {ONE_POINT:.0%} of a text or more"
        found.append(verdict(claim, variant, "largest", 0, (ONE_POINT, 1.0)))
        claim = f"With {with_what} there are no clusters beside the mean direction, {NO_CLUSTERS:.0%} of tokens at most"
        found.append(verdict(claim, variant, "mixed_share", 1, (0.0, NO_CLUSTERS)))
    claim = f"The trained model forms many clusters beside the mean direction, {MANY:g} in a text or more"
    found.append(verdict(claim, TRAINED, "mixed_clusters", 1, (MANY, np.inf)))
    claim = f"The trained model's clusters beside the mean direction are small, {SMALL:.0%} of a text at most"
    return [*found, verdict(claim, TRAINED, "largest", 1, (0.0, SMALL))]


def _ends(values: np.ndarray) -> Interval:
    """From the lowest end of any seed's interval over texts to the highest."""
    ends = [mean_interval(row) for row in values]
    return min(low for low, _ in ends), max(high for _, high in ends)


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    if model_access.SKIPPED in data:
        return {}
    figures: Figures = {}
    for name in (params.model, *model_access.companions(params)):
        if f"{name}/depth" not in data:
            continue
        trained = int(data[f"{name}/depth"])
        for key, kind, what in (
            ("largest", 0, "share of a text in its largest cluster"),
            ("mixed_share", 1, "share in clusters beside the mean direction"),
        ):
            each = {v: np.nan_to_num(data[f"{name}/{v}/{key}"][..., kind]).mean(axis=1) for v in (TRAINED, *ABOUT)}
            layers = np.arange(each[TRAINED].shape[-1])
            reference = {"trained depth": ([trained, trained], [0.0, 1.0])} if trained < layers[-1] else {}
            figures[f"{name}: {what}, trained and controls, bands from the lowest seed to the highest"] = series(
                layers,
                {v: values.mean(axis=0) for v, values in each.items()},
                band={v: (values.min(axis=0), values.max(axis=0)) for v, values in each.items()},
                reference=reference,
                xlabel="layer",
                ylabel=what,
            )
    return figures


EXPERIMENT = Experiment(
    name="model-controls",
    title="Trained, untrained, shuffled",
    source=SOURCE,
    figures="none; a control for Fig. 1",
    params=Params,
    run=model_access.or_skip(run),
    judge=judge,
    draw=draw,
    quick={"instances": 4, "seeds": 1, "layers": 24, "others": ()},
    full={"instances": 100, "seeds": 5, "longest": 512},
    text="The same texts through a pretrained model, the same network with fresh weights, the same network with the "
    "entries of every matrix shuffled, and the pretrained model on random tokens. What the second and third do as well "
    "has nothing to do with training. Clusters are tokens linked by chains of cosines above 0.9; beside the mean "
    "direction only clusters of different tokens count, for one token met twice is close to itself in any network.",
)
