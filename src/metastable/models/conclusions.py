"""A study in sentences and tables: what the report and the command line say of it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.models.baselines import verdict
from metastable.models.depth_axis import some_layers
from metastable.models.parts_alone import conclusion
from metastable.models.study import Study
from metastable.models.token_distances import DISTANCES, over_texts

if TYPE_CHECKING:
    import xarray

Table = tuple[str, list[str], list[list[Any]]]
_GOOD = {1: "yes", 0: "no", -1: "undecidable by rounding"}


def key_numbers(study: Study) -> dict[str, Any]:
    """The numbers of a summary; None where there is none to give."""
    depth, trained = int(study.similarity.layer[-1]), min(study.model["depth"], int(study.similarity.layer[-1]))
    spike = study.similarity["share_above"].sel(threshold=0.99)
    first = study.sinks["mass"].sel(kind="first").values
    layer, head = np.unravel_index(np.argmax(first), first.shape)
    at = study.heads.sel(layer=trained)
    good = study.spectra["good"].values
    found: dict[str, Any] = {
        "spike": {str(k): _number(spike.sel(layer=k, kind="raw")) for k in sorted({0, trained, depth})},
        "spike_centred": {str(k): _number(spike.sel(layer=k, kind="centred")) for k in sorted({0, trained, depth})},
        "same_token_share": _number(study.similarity["same_token_share"].sel(layer=depth, kind="raw", threshold=0.99)),
        "mean_cosine": _number(study.similarity["mean"].sel(layer=depth, kind="raw")),
        "clusters": _number(study.similarity["clusters"].sel(layer=depth, kind="raw", threshold=0.9)),
        "groups": int(at["groups"]),
        "silhouette": _number(at["silhouette"]),
        "stability": _number(at["stability"]),
        "sink": _number(first.max()),
        "sink_layer": int(layer) + 1,
        "sink_head": int(head),
        "sink_baseline": _number(study.sinks["position"].sel(kind="first").isel(layer=layer)),
        "heads": int(good.size),
        "good_triples": int((good == 1).sum()),
        "undecided_triples": int((good == -1).sum()),
        "beta": [_number(v) for v in np.quantile(study.spectra["beta_model"].values, [0.0, 0.5, 1.0])],
        "top_rung_error": None,
        "step_error": None,
    }
    if study.ladder is not None:
        found["top_rung_error"] = _number(study.ladder["exact_error"].max())
        steps = study.ladder["step_error"].values
        found["step_error"] = _number(np.nanmax(steps)) if np.isfinite(steps).any() else None
        found["theory_gram_distance"] = _number(over_texts(study.ladder["gram_distance"].sel(rung=1))[0])
    return found


def sentences(study: Study) -> list[str]:
    """The findings, a sentence each, with their numbers."""
    n = key_numbers(study)
    text = [_spike(study, n), _groups(n), _sink(n), _triples(n)]
    return [*text, *_ladder(study, n)]


def timing(study: Study) -> str:
    """Where the time went, in one sentence."""
    seconds = study.about["probe"]["seconds"]
    total = max(sum(seconds.values()), 1e-9)
    text = f"The pass over the texts took {total:.0f} s, {seconds['network'] / total:.0%} of it in the network itself"
    if study.ladder is None:
        return f"{text}."
    climb = study.about["ladder"]
    return f"{text}; the ladder took {climb['seconds']:.0f} s, on {climb['texts']} texts of {climb['tokens']} tokens."


def _spike(study: Study, n: dict[str, Any]) -> str:
    shares = ", ".join(f"{_percent(v)} at layer {k}" for k, v in n["spike"].items())
    beside = list(n["spike_centred"].values())[-1]
    text = f"Pairs of tokens with a cosine above 0.99: {shares} ({_percent(beside)} beside the mean direction)"
    if n["same_token_share"] is not None:
        text += f"; {_percent(n['same_token_share'])} of the last are one and the same token met twice"
    return text + "."


def _groups(n: dict[str, Any]) -> str:
    if n["silhouette"] is None:
        return "There are too few heads, or too little variation in their maps, to form groups."
    strength = "clear" if n["silhouette"] >= 0.5 else "weak" if n["silhouette"] >= 0.25 else "hardly separate"
    again = "" if n["stability"] is None else f", found again in other texts with ARI {n['stability']:.2f}"
    return (
        f"At the last trained layer the heads fall into {n['groups']} groups that are {strength} "
        f"(silhouette {n['silhouette']:.2f}{again})."
    )


def _sink(n: dict[str, Any]) -> str:
    times = n["sink"] / n["sink_baseline"] if n["sink_baseline"] else float("nan")
    return (
        f"The strongest head (layer {n['sink_layer']}, head {n['sink_head']}) pays {_percent(n['sink'])} of its "
        f"attention to the first token, {times:.1f} times what evenly spread attention would."
    )


def _triples(n: dict[str, Any]) -> str:
    low, middle, high = n["beta"]
    open_ = f", {n['undecided_triples']} cannot be decided" if n["undecided_triples"] else ""
    return (
        f"{n['good_triples']} of {n['heads']} heads are good triples with their true map O V{open_}; "
        f"effective beta {low:.3g} to {high:.3g}, median {middle:.3g}."
    )


def _ladder(study: Study, n: dict[str, Any]) -> list[str]:
    if study.ladder is None or study.baselines is None or study.parts is None:
        return [f"There is no ladder: {study.about['ladder']['absent']}"]
    text = [
        f"Rebuilt as particles, the exact network is reached to a relative error of {n['top_rung_error']:.1e}.",
        *verdict(study.ladder, study.baselines),
        *conclusion(study.parts),
    ]
    if n["step_error"] is None:
        return text
    small = "small enough for" if n["step_error"] < 0.1 else "too large a step for"
    return [
        *text,
        f"One layer on the sphere is {small} the ODE: the two part by up to {n['step_error']:.2f} (Gram distance).",
    ]


# --- tables -------------------------------------------------------------------------------------------------------


def similarity_table(study: Study) -> Table:
    """Similarities at a few layers."""
    data = study.similarity
    rows = []
    for layer in some_layers(0, int(data.layer[-1]), study.model["depth"], 8):
        at = data.sel(layer=layer)
        raw = at.sel(kind="raw")
        row: list[Any] = [layer, float(raw["mean"]), *(float(v) for v in raw["share_above"].values)]
        row += [float(v) for v in at.sel(kind="centred")["share_above"].values]
        rows.append([*row, float(raw["clusters"][0]), float(raw["same_token_share"][1])])
    names = ["layer", "mean cosine", "above .9", "above .99", "centred above .9", "centred above .99"]
    caption = "Shares of pairs; clusters are tokens linked above 0.9, mean number in a text."
    return caption, [*names, "clusters", "same token above .99"], rows


def sink_table(study: Study) -> Table:
    """The heads with the strongest sinks."""
    mass = study.sinks["mass"].sel(kind="first").values
    order = np.argsort(-mass, axis=None)[:6]
    rows = []
    for layer, head in zip(*np.unravel_index(order, mass.shape)):
        at = study.sinks.sel(kind="first").isel(layer=layer, head=head)
        rows.append([int(layer) + 1, int(head), float(at["mass"]), float(at["position"]), float(at["excess"])])
    return "The six strongest first-token sinks.", ["layer", "head", "attention", "baseline", "times baseline"], rows


def head_table(study: Study) -> Table:
    """Spectral numbers of every head."""
    data, rows = study.spectra, []
    for layer in data.layer.values:
        for head in range(data.sizes["head"]):
            at = data.sel(layer=layer).isel(head=head)
            lead, block = complex(at["ov"].values[0]), complex(at["value_block"].values[0])
            row = [int(layer) + 1, head, _complex(lead), _complex(block), float(at["along"]), _GOOD[int(at["good"])]]
            rows.append([*row, float(at["margin"]), float(at["beta_model"]), float(at["qk"].values[0])])
    names = ["layer", "head", "leading of O V", "of value block", "<Q phi, K phi>", "good triple", "margin", "beta"]
    caption = (
        "The margin is the change of the core (2-norm) that would alter the answer, negative where the triple is not "
        "good; the last column is the largest eigenvalue of the score form."
    )
    return caption, [*names, "largest of QK"], rows


def promotion_table(study: Study) -> Table:
    """Tokens behind leading eigenvectors, at most 60 rows."""
    rows = []
    for found in study.about["spectra"]["promotions"][:60]:
        value = complex(*found["eigenvalue"])
        words = [", ".join(found[side]) for side in ("toward", "away")]
        rows.append([found["layer"] + 1, found["head"], _complex(value), *words])
    caption = "Eigenvectors of O V read through the embedding; an eigenvector has no sign of its own."
    return caption, ["layer", "head", "eigenvalue", "toward", "away"], rows


def ladder_table(study: Study) -> Table:
    """Distances of every rung and baseline, averaged by the one rule."""
    assert study.ladder is not None
    assert study.baselines is not None
    named = zip(study.ladder.rung.values, study.ladder["part"].values)
    rows = [_ladder_row(f"{k}: {part}", study.ladder.sel(rung=k)) for k, part in named]
    rows += [_ladder_row(str(name), study.baselines.sel(baseline=name)) for name in study.baselines.baseline.values]
    names = ["rung or baseline", "Gram distance", "spread", "Wasserstein", "spread", "ARI of clusters"]
    caption = "Means over layers 1 to the last and over texts; the spread is the standard deviation over texts."
    return caption, names, rows


def _ladder_row(name: str, system: "xarray.Dataset") -> list[Any]:
    row: list[Any] = [name]
    for distance in DISTANCES:
        row += [float(value) for value in over_texts(system[distance])]
    return [*row, float(over_texts(system["rand_index"])[0])]


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(float(value)) else None


def _percent(share: float | None) -> str:
    if share is None:
        return "none"
    if 0.99 <= share < 1.0:
        return f"{np.floor(1000 * share) / 10:.1f}%"  # almost all is not all
    return f"{100 * share:.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"


def _complex(value: complex) -> str:
    text = f"{value.real:.3g}" if value.imag == 0.0 else f"{value.real:.3g} ± {abs(value.imag):.3g}i"
    return text.replace("-", "\N{MINUS SIGN}")
