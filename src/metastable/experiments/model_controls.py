"""What training does to a real model's tokens: the model beside the same network untrained and with shuffled weights.

The claim, from a first look at two models: untrained or shuffled networks collapse to one point, with no clusters
beside the mean direction; trained ones form many small clusters. It is judged at the last trained layer and, for a
block that all layers share, at the last layer beyond, with criteria fixed before any model was measured for them
(`judge`). The first paper concludes that clustering is "not merely a byproduct of training but an inherent feature":
that is judged text by text, trained against each control, raw and centred (`_inherent`).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metastable.experiments import model_access
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.model_checks import similarity_check
from metastable.models.controls import ABOUT, CONTROLS
from metastable.models.model import Model
from metastable.models.probe import probe
from metastable.plots import series
from metastable.plots.style import captioned
from metastable.theory.intervals import Interval, mean_interval
from metastable.theory.verdicts import Verdict, from_settings, judge_number

SOURCE = "first paper, sec. 3.1.1 and Fig. 1, with controls that it does not have"
CLAIM = "Without training tokens collapse to one point, with it they form many small clusters"
TRAINED = "trained"
UNTRAINED = ("init", "shuffle")
ONE_POINT, NO_CLUSTERS, MANY, SMALL, SLACK = 0.9, 0.05, 2.0, 0.25, 0.05
WORDS = {"init": "fresh weights", "shuffle": "shuffled weights", "tokens": "trained weights on random tokens"}
_STATISTICS = ("largest", "mixed_share", "mixed_clusters", "share_above")  # (layer, kind, threshold)


@dataclass(frozen=True)
class Params:
    """``instances`` texts of each model's corpus, cut to ``longest`` tokens; ``seeds`` of every control.

    ``layers`` is for models whose layers share one block; the others are measured at their trained depth.
    """

    model: str = model_access.ZOO
    others: tuple[str, ...] = model_access.REST
    layers: int | None = 48
    longest: int = 128
    seeds: int = 2
    instances: int = 24
    seed: int = 0


def run(params: Params, work: Work) -> Data:
    def every_variant(model: Model, report: model_access.Report) -> Data:
        data: Data = {"depth": np.array(model.depth)}
        for k, variant in enumerate((TRAINED, *ABOUT)):
            report(k / (1 + len(ABOUT)), variant)
            slug = model_access.slug(model.name)
            part = work.part(f"{slug}-{variant}", lambda v=variant: _measured(params, model, v))  # type: ignore[misc]
            data |= {f"{variant}/{key}": value for key, value in part.items()}
        return data

    return model_access.every_model(params, work, every_variant)


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

    def at_depths(name: str) -> list[Verdict]:
        trained = int(data[f"{name}/depth"])
        last = data[f"{name}/{TRAINED}/largest"].shape[2] - 1
        depths = sorted({min(trained, last), last})
        return [v for at in depths for v in (*_inherent(data, name, at, trained), *_at(data, name, at, trained))]

    return model_access.judged(model_access.names_of(params), data, CLAIM, SOURCE, at_depths)


def _inherent(data: Data, name: str, layer: int, trained: int) -> list[Verdict]:
    """ "Not merely a byproduct of training but an inherent feature": without training there is as much of it, or more.

    Two verdicts at the trained depth and at the last layer, each with a row for fresh and for shuffled weights, both of
    which must hold (changed after data had been seen: one sufficed). Raw:
    the share of a text's tokens in its largest cluster. Centred: the share of tokens in clusters of different tokens
    beside the mean direction. The number is trained minus control, text by text (seeds averaged); "inherent" asks
    that it be at most SLACK = 0.05, and the whole interval decides. Two more say the same of trained weights on
    random tokens: whether a text is needed. Fixed when these verdicts were written, after a first look at the
    controls had suggested that raw and centred would differ.
    """
    end = f"{_where(layer, trained)} ({name})"
    found, needed = [], []
    for key, kind, what in (
        ("largest", 0, "Tokens gather in one large cluster"),
        ("mixed_share", 1, "Tokens form clusters beside the mean direction"),
    ):
        rows = [_paired(data, name, layer, key, kind, what, variant) for variant in UNTRAINED]
        claim = f"{what} without training as well: an inherent feature, no byproduct of training, {end}."
        found.append(from_settings(claim, "first paper, sec. 6", rows, kind="reading"))
        needed.append(_paired(data, name, layer, key, kind, f"{what} {end}", "tokens"))
    return [*found, *needed]


def _paired(data: Data, name: str, layer: int, key: str, kind: int, what: str, variant: str) -> Verdict:
    """Trained minus control, text by text; trivial where neither has more than SLACK of it.

    (The last was added after a trial in which both had no clusters at all, and "as much" held of nothing.)
    """
    trained, control = (
        np.nan_to_num(data[f"{name}/{v}/{key}"][:, :, layer, kind]).mean(axis=0) for v in (TRAINED, variant)
    )
    found = judge_number(
        f"{what} with {WORDS[variant]} as much as in the trained model, or more.",
        SOURCE,
        trained - control,
        (-np.inf, SLACK),
        kind="reading",
        notes=f"share of a text: trained {trained.mean():.3g}, control {control.mean():.3g}",
    )
    nothing = max(trained.mean(), control.mean()) <= SLACK
    return replace(found, status="trivial only", notes=f"hardly any in either; {found.notes}") if nothing else found


def _at(data: Data, name: str, layer: int, trained: int) -> list[Verdict]:
    end = f"{_where(layer, trained)} ({name})."

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

    found = []
    for variant in UNTRAINED:
        with_what = WORDS[variant]
        claim = f"With {with_what} tokens collapse to one point, {ONE_POINT:.0%} of a text or more"
        found.append(verdict(claim, variant, "largest", 0, (ONE_POINT, 1.0)))
        claim = f"With {with_what} there are no clusters beside the mean direction, {NO_CLUSTERS:.0%} of tokens at most"
        found.append(verdict(claim, variant, "mixed_share", 1, (0.0, NO_CLUSTERS)))
    claim = f"The trained model forms many clusters beside the mean direction, {MANY:g} in a text or more"
    found.append(verdict(claim, TRAINED, "mixed_clusters", 1, (MANY, np.inf)))
    claim = f"The trained model's clusters beside the mean direction are small, {SMALL:.0%} of a text at most"
    return [*found, verdict(claim, TRAINED, "largest", 1, (0.0, SMALL))]


def _where(layer: int, trained: int) -> str:
    return "at the trained depth" if layer == trained else f"at layer {layer}, beyond the trained {trained}"


def _ends(values: np.ndarray) -> Interval:
    """From the lowest end of any seed's interval over texts to the highest."""
    ends = [mean_interval(row) for row in values]
    return min(low for low, _ in ends), max(high for _, high in ends)


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    if model_access.SKIPPED in data:
        return {}
    figures: Figures = {}
    for name in model_access.names_of(params):
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
            figure = series(
                layers,
                {v: values.mean(axis=0) for v, values in each.items()},
                band={v: (values.min(axis=0), values.max(axis=0)) for v, values in each.items()},
                reference=reference,
                xlabel="layer",
                ylabel=what,
            )
            texts, seeds = data[f"{name}/init/{key}"].shape[1], data[f"{name}/init/{key}"].shape[0]
            caption = (
                f"{name}: {what} (cosines above 0.9{', centred' if kind else ''}), mean of {texts} texts of at most "
                f"{params.longest} tokens; bands from the lowest of {seeds} seeds of each control to the highest; "
                "init: fresh weights, shuffle: entries of every matrix in random order, tokens: random tokens."
            )
            figures[f"{name}: {what}, trained and controls"] = captioned(figure, caption)
    return figures


def finding(params: Params, data: Data) -> Finding | None:
    if model_access.SKIPPED in data:
        return None
    name = params.model
    layer = data[f"{name}/{TRAINED}/largest"].shape[2] - 1
    largest, beside = (
        {v: float(np.nan_to_num(data[f"{name}/{v}/{key}"][:, :, layer, kind]).mean()) for v in (TRAINED, *ABOUT)}
        for key, kind in (("largest", 0), ("mixed_share", 1))
    )
    return Finding(
        "Clustering is said to be inherent to the architecture, not a byproduct of training.",
        f"At layer {layer} of {name} the largest cluster holds {largest[TRAINED]:.0%} of a text's tokens trained, "
        f"{largest['init']:.0%} with fresh and {largest['shuffle']:.0%} with shuffled weights; clusters beside the "
        f"mean direction hold {beside[TRAINED]:.0%}, {beside['init']:.0%} and {beside['shuffle']:.0%}.",
        f"{name}: share of a text in its largest cluster, trained and controls",
    )


def check(params: Params) -> dict[str, Check]:
    """What the similarities of one short text are, by plain NumPy."""
    return similarity_check(params.model)


EXPERIMENT = Experiment(
    name="model-controls",
    title="Trained, untrained, shuffled",
    source=SOURCE,
    figures="none; a control for Fig. 1",
    params=Params,
    run=model_access.or_skip(run),
    judge=judge,
    draw=draw,
    quick={"instances": 20, "seeds": 1, "layers": 24, "longest": 64, "others": ()},
    full={"instances": 100, "seeds": 5, "longest": 512},
    check=check,
    finding=finding,
    topic="model",
    leaves_out="Other models, layers beyond 24, texts longer than 64 tokens, more than one seed.",
    text="The same texts through a pretrained model, the same network with fresh weights, the same network with the "
    "entries of every matrix shuffled, and the pretrained model on random tokens. What the second and third do as well "
    "has nothing to do with training. Clusters are tokens linked by chains of cosines above 0.9; beside the mean "
    "direction only clusters of different tokens count, for one token met twice is close to itself in any network.",
)
