"""Fig. 1 of the first paper: cosines of a model's tokens, layer by layer, and the spike at 1."""

from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure

from metastable.experiments import model_access
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.model_checks import similarity_check
from metastable.experiments.normality import READINGS, normality
from metastable.models.depth_axis import CAUTION, some_layers
from metastable.models.model import Model
from metastable.models.probe import probe
from metastable.plots import histograms, series
from metastable.plots.style import FAINT, SOFT, captioned, footnote, paper
from metastable.theory.intervals import mean_interval
from metastable.theory.verdicts import Verdict, from_readings, judge_number

SOURCE = "first paper, sec. 3.1.1, 4.1 and Fig. 1"
CLAIM = "A spike at cosine 1 grows with depth"
SHARES = "Share of pairs with a cosine above 0.99, layer by layer"
NORMAL = 0.05  # Kolmogorov distance from a normal law: the uniform law has 0.057, the Laplace law 0.07
EVEN = 0.005  # what cosines spread evenly over [-1, 1] would have above 0.99


@dataclass(frozen=True)
class Params:
    """Depth 96 as published, by applying the shared block again; ``instances`` texts of each model's corpus.

    ``others`` are measured at their trained depth.
    """

    model: str = model_access.ZOO
    others: tuple[str, ...] = model_access.OTHERS
    layers: int | None = 96
    bins: int = 100
    instances: int = 100
    seed: int = 0


def run(params: Params, work: Work) -> Data:
    data = _measured(params, model_access.model_of(params.model), params.seed, work)
    for name in model_access.companions(params):
        found = model_access.measured(params, name, lambda model: _measured(params, model, 0, work))
        data |= {f"{name}/{key}": value for key, value in found.items()}
    return data


def _measured(params: Params, model: Model, seed: int, work: Work) -> Data:
    """Shares, means and clusters (texts, layer, ...), histograms (layer, kind, bin), and the trained depth."""
    given = model_access.texts_of(model, seed, params.instances)
    depth = params.layers if model.shared else model.depth

    def chunk(first: int, last: int) -> Data:
        found = []
        for text in given[first:last]:
            one = probe(model, [text], layers=depth, measure=("similarity",), bins=params.bins, longest=512).similarity
            assert one is not None
            found.append(one)
        names = ("share_above", "mean", "clusters", "same_token_share")
        data = {name: np.stack([one[name].values for one in found]) for name in names}
        # a text without a pair has no histogram; the others weigh the same, however long
        data["normality"] = np.stack([normality(model, text) for text in given[first:last]])
        return data | {"histogram": np.nan_to_num([one["histogram"].values for one in found]).sum(axis=0)[None]}

    data = work.parts(f"texts-{model_access.slug(model.name)}", len(given), 10, chunk)
    return {**data, "histogram": data["histogram"].sum(axis=0), "trained": np.array(model.depth)}


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    if model_access.SKIPPED in data:
        return model_access.skipped(CLAIM, SOURCE, data)
    trained, last = int(data["trained"]), data["share_above"].shape[1] - 1
    verdicts = [_normal(params, data), _growth(params, data, 0, min(trained, last), 0)]
    if last > trained:
        verdicts.append(_growth(params, data, 0, last, 0))
    verdicts += [_growth(params, data, 0, last, 1), _spike(params, data, last)]
    others = model_access.companions(params)
    return verdicts + model_access.judged(others, data, CLAIM, SOURCE, lambda name: _other(params, data, name))


def _normal(params: Params, data: Data) -> Verdict:
    """ "An initially broad, normal distribution at layer 0": the Kolmogorov distance from the normal law with the same
    mean and variance is at most NORMAL = 0.05, in the mean over texts.

    That tells the normal law from the uniform (0.057) and the Laplace law (0.07). As many independent directions of the
    same dimension have about 0.02 (in the notes), so the criterion can be met. Rows: raw and centred, all pairs and
    pairs of different tokens only, because one token met twice makes a spike at 1 by itself.
    """
    rows = []
    for k, reading in enumerate(READINGS):
        values = data["normality"][:, k]
        null = data["normality"][:, -1]
        rows.append(
            judge_number(
                f"{reading}.",
                SOURCE,
                values,
                (0.0, NORMAL),
                kind="reading",
                notes=f"distance from normal, random directions have {np.nanmean(null):.3f}",
            )
        )
    claim = f"At layer 0 the distribution of cosines is normal ({params.model})."
    return from_readings(claim, SOURCE, rows)


def _other(params: Params, data: Data, name: str) -> list[Verdict]:
    """The same growth in another model, from its embedded tokens to its last layer, raw and beside the mean."""
    own = model_access.own(data, name)
    last = own["share_above"].shape[1] - 1
    return [_growth(replace(params, model=name), own, 0, last, kind) for kind in (0, 1)]


def _growth(params: Params, data: Data, first: int, last: int, kind: int) -> Verdict:
    """The share of pairs above 0.99 grows from one layer to another, text by text.

    It must grow by at least EVEN = 0.005, the share that cosines spread evenly over [-1, 1] would have up there:
    anything less cannot be seen as a spike in a histogram of the whole range.
    """
    share = data["share_above"][:, :, kind, 1]  # (texts, layers)
    gain = share[:, last] - share[:, first]
    trained = int(data["trained"])
    where = "the trained depth" if last == trained else f"layer {last}, beyond the trained {trained}"
    beside = ", beside the mean direction of each text" if kind else ""
    same = data["same_token_share"][:, last, kind, 1]
    same = same[np.isfinite(same)]
    repeated = f"; {same.mean():.0%} of these pairs are the same token met twice" if same.size else ""
    return judge_number(
        f"{CLAIM}, from layer {first} to {where}{beside} ({params.model}).",
        SOURCE,
        gain,
        (EVEN, 1.0),
        kind="observation",
        notes=f"share of pairs above 0.99: {np.nanmean(share[:, first]):.3g} at layer {first}, "
        f"{np.nanmean(share[:, last]):.3g} at layer {last}{repeated}; the claim asks for a gain of at least {EVEN:g}",
    )


def _spike(params: Params, data: Data, last: int) -> Verdict:
    """At the last layer the density of cosines above 0.99 exceeds that between 0.9 and 0.99: it ends in a spike.

    Densities are shares over widths 0.01 and 0.09, so their ratio is 9 share(> 0.99)/(share(> 0.9) - share(> 0.99)),
    pooled over texts with a bootstrap over texts; above 1 the distribution rises towards 1.
    """
    shares = data["share_above"][:, last, 0]  # (texts, 2)
    shares = shares[np.isfinite(shares).all(axis=1)]
    draws = np.random.default_rng(0).integers(0, len(shares), (2000, len(shares)))
    sums = shares[draws].sum(axis=1)  # (draws, 2)
    ratio = _ratio(sums)
    low, high = np.quantile(ratio, [0.025, 0.975])
    pooled = float(_ratio(shares.sum(axis=0)[None])[0])
    return model_access.counted(
        len(shares),
        f"At layer {last} the distribution of cosines rises towards 1 instead of dying out ({params.model}).",
        SOURCE,
        pooled,
        (1.0, np.inf),
        (float(low), float(high)),
        "density above 0.99 over density between 0.9 and 0.99; above 1 there is a spike",
    )


def _ratio(sums: np.ndarray) -> np.ndarray:
    between = np.maximum(sums[:, 0] - sums[:, 1], 1e-300)
    return np.asarray(np.minimum(9.0 * sums[:, 1] / between, 1e6))


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    if model_access.SKIPPED in data:
        return {}

    trained, last = int(data["trained"]), data["histogram"].shape[0] - 1
    layers = some_layers(0, last, trained, 8)
    edges = np.linspace(-1.0, 1.0, params.bins + 1)
    labels = [f"{k} (trained)" if k == trained < last else str(k) for k in layers]
    figures: Figures = {}
    for kind, name in enumerate(("raw cosines", "cosines beside the mean direction")):
        figure = histograms(data["histogram"][layers, kind], edges, labels=labels)
        with paper():
            figure.axes[0].set(title=name, ylabel="layer", xticks=[-1.0, -0.5, 0.0, 0.5, 1.0])
            if trained < last and trained in layers:
                _mark_beyond(figure, len(layers), layers.index(trained))
            footnote(figure, CAUTION if kind == 0 else "")
        texts = len(data["share_above"])
        caption = (
            f"{params.model}: {name} of all pairs of positions in {texts} texts from number {params.seed} on, one row "
            f"per layer, each on its own scale; trained to layer {trained}"
            + (", grey: its block applied again beyond." if trained < last else ".")
        )
        figures[f"Fig. 1 on {params.model}: {name}"] = captioned(figure, caption)
    share = data["share_above"]
    lines, bands = {}, {}
    for kind, kind_name in enumerate(("raw", "centred")):
        values = share[:, :, kind, 1]
        lines[kind_name] = np.nanmean(values, axis=0)
        bands[kind_name] = tuple(np.array([mean_interval(v[np.isfinite(v)]) for v in values.T]).T)
    reference = {"trained depth": ([trained, trained], [0.0, max(lines["raw"].max(), EVEN)])} if trained < last else {}
    figure = series(
        np.arange(last + 1), lines, band=bands, reference=reference, xlabel="layer", ylabel="share above 0.99"
    )
    caption = (
        f"{params.model}, {len(share)} texts: share of pairs with a cosine above 0.99, mean with its 95% interval."
    )
    figures[SHARES] = captioned(figure, caption)
    for name in model_access.companions(params):
        figures |= _other_model(name, data)
    return figures


def _other_model(name: str, data: Data) -> Figures:
    """Fig. 1 on another model, T5 among them, at its trained depth; nothing where there is no such model."""
    if f"{name}/histogram" not in data:
        return {}
    found = data[f"{name}/histogram"]  # (layers, kinds, bins)
    layers = some_layers(0, len(found) - 1, len(found) - 1, 6)
    figure = histograms(
        found[layers, 0], np.linspace(-1.0, 1.0, found.shape[-1] + 1), labels=[str(layer) for layer in layers]
    )
    with paper():
        figure.axes[0].set(title="raw cosines", ylabel="layer", xticks=[-1.0, -0.5, 0.0, 0.5, 1.0])
    texts = len(data[f"{name}/share_above"])
    caption = f"{name}: raw cosines of all pairs of positions in {texts} texts, layer 0 to its trained depth."
    return {f"Fig. 1 on {name}: raw cosines": captioned(figure, caption)}


def _mark_beyond(figure: Figure, rows: int, trained: int) -> None:
    """Grey behind the rows that lie beyond the trained depth, which stands in row ``trained``."""
    axis, edge = figure.axes[0], rows - 1 - trained
    axis.axhspan(-0.05, edge - 0.02, color=FAINT, alpha=0.45, lw=0, zorder=0)
    axis.text(-0.98, edge - 0.12, "beyond the trained depth", fontsize=6, color=SOFT, va="top", zorder=30)


def finding(params: Params, data: Data) -> Finding | None:
    if model_access.SKIPPED in data:
        return None
    trained, last = int(data["trained"]), data["share_above"].shape[1] - 1
    raw, centred = (np.nanmean(data["share_above"][:, :, kind, 1], axis=0) for kind in (0, 1))
    at = min(trained, last)
    beyond = f" and {raw[last]:.1%} at layer {last}, beyond its training" if last > trained else ""
    return Finding(
        "Cosines of tokens are said to go from a normal law at layer 0 to a growing spike at 1.",
        f"In {params.model} {raw[0]:.1%} of the pairs are above 0.99 at layer 0, {raw[at]:.1%} at the trained "
        f"depth{beyond} ({centred[at]:.1%} beside the mean direction); at layer 0 the law is "
        f"{np.nanmean(data['normality'][:, 0]):.2f} from a normal one, where {NORMAL:g} would pass.",
        SHARES,
    )


def check(params: Params) -> dict[str, Check]:
    """What the similarities of one short text are, by plain NumPy."""
    return similarity_check(params.model)


EXPERIMENT = Experiment(
    name="model-similarities",
    title="A real model's tokens, layer by layer",
    source=SOURCE,
    figures="Fig. 1",
    params=Params,
    run=model_access.or_skip(run),
    judge=judge,
    draw=draw,
    quick={"instances": 20, "layers": 48, "others": ()},
    full={"instances": 500},
    check=check,
    finding=finding,
    topic="model",
    leaves_out="Other models, and the layers from 48 to the published 96.",
    text="Cosines of all pairs of different positions, each counted once, in a pretrained ALBERT whose one block is "
    "applied again beyond its trained depth, as published; other models are measured at their trained depth. Two "
    "cautions that the published figure does not have: raw cosines contain a direction that all tokens share, and many "
    "pairs near 1 are one and the same token met twice.",
)
