"""Fig. 1 of the first paper: cosines of a model's tokens, layer by layer, and the spike at 1."""

from dataclasses import dataclass, replace

import numpy as np

from metastable.errors import InputError
from metastable.experiments import model_access
from metastable.experiments.base import Data, Experiment, Figures, Work
from metastable.models.depth_axis import CAUTION, some_layers
from metastable.models.model import Model
from metastable.models.probe import probe
from metastable.plots import histograms, series
from metastable.plots.style import footnote, paper
from metastable.theory.intervals import mean_interval
from metastable.theory.verdicts import Verdict, judge_number

SOURCE = "first paper, sec. 3.1.1, 4.1 and Fig. 1"
CLAIM = "A spike at cosine 1 grows with depth"
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
        try:
            found = _measured(params, model_access.model_of(name), 0, work)
        except InputError as error:
            found = {model_access.SKIPPED: np.array(str(error))}
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
        return data | {"histogram": np.nan_to_num([one["histogram"].values for one in found]).sum(axis=0)[None]}

    data = work.parts(f"texts-{model_access.slug(model.name)}", len(given), 10, chunk)
    return {**data, "histogram": data["histogram"].sum(axis=0), "trained": np.array(model.depth)}


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    if model_access.SKIPPED in data:
        return model_access.skipped(CLAIM, SOURCE, data)
    trained, last = int(data["trained"]), data["share_above"].shape[1] - 1
    verdicts = [_growth(params, data, 0, min(trained, last), 0)]
    if last > trained:
        verdicts.append(_growth(params, data, 0, last, 0))
    verdicts += [_growth(params, data, 0, last, 1), _spike(params, data, last)]
    return [*verdicts, *(v for name in model_access.companions(params) for v in _other(params, data, name))]


def _other(params: Params, data: Data, name: str) -> list[Verdict]:
    """The same growth in another model, from its embedded tokens to its last layer, raw and beside the mean."""
    own = {key.removeprefix(f"{name}/"): value for key, value in data.items() if key.startswith(f"{name}/")}
    if model_access.SKIPPED in own:
        return model_access.skipped(f"{CLAIM} ({name}).", SOURCE, own)
    last = own["share_above"].shape[1] - 1
    return [_growth(replace(params, model=name), own, 0, last, kind) for kind in (0, 1)]


def _growth(params: Params, data: Data, first: int, last: int, kind: int) -> Verdict:
    """The share of pairs above 0.99 grows from one layer to another, text by text.

    It must grow by at least EVEN = 0.005, the share that cosines spread evenly over [-1, 1] would have up there:
    anything less cannot be seen as a spike in a histogram of the whole range.
    """
    share = data["share_above"][:, :, kind, 1]  # (texts, layers)
    gain = share[:, last] - share[:, first]
    gain = gain[np.isfinite(gain)]
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
            footnote(figure, CAUTION if kind == 0 else "")
        figures[f"Fig. 1 on {params.model}: {name}, one row per layer, each on its own scale"] = figure
    share = data["share_above"]
    lines, bands = {}, {}
    for kind, kind_name in enumerate(("raw", "centred")):
        values = share[:, :, kind, 1]
        lines[kind_name] = np.nanmean(values, axis=0)
        bands[kind_name] = tuple(np.array([mean_interval(v[np.isfinite(v)]) for v in values.T]).T)
    reference = {"trained depth": ([trained, trained], [0.0, max(lines["raw"].max(), EVEN)])} if trained < last else {}
    figures["Share of pairs with a cosine above 0.99, mean over texts with its 95% interval"] = series(
        np.arange(last + 1), lines, band=bands, reference=reference, xlabel="layer", ylabel="share above 0.99"
    )
    return figures


EXPERIMENT = Experiment(
    name="model-similarities",
    title="A real model's tokens, layer by layer",
    source=SOURCE,
    figures="Fig. 1",
    params=Params,
    run=model_access.or_skip(run),
    judge=judge,
    draw=draw,
    quick={"instances": 6, "layers": 48, "others": ()},
    full={"instances": 500},
    text="Cosines of all pairs of different positions, each counted once, in a pretrained ALBERT whose one block is "
    "applied again beyond its trained depth, as published; other models are measured at their trained depth. Two "
    "cautions that the published figure does not have: raw cosines contain a direction that all tokens share, and many "
    "pairs near 1 are one and the same token met twice.",
)
