"""The tables of a study: caption, names of columns, rows."""

from typing import Any

import numpy as np

from metastable.models.depth_axis import some_layers
from metastable.models.head_figures import maps
from metastable.models.ladder_figures import climbed
from metastable.models.study_numbers import group_sizes
from metastable.models.study_record import Study
from metastable.models.token_distances import over_texts

Table = tuple[str, list[str], list[list[Any]]]
_GOOD = {1: "yes", 0: "no", -1: "undecidable by rounding"}
AVERAGE = "Means over states 1 to the last, then over texts; ± is the standard deviation over texts."


def similarity_table(study: Study) -> Table:
    """Similarities at a few states."""
    rows = []
    for state in some_layers(0, study.last, study.model["depth"], 8):
        at = study.similarity.sel(layer=state)
        row: list[Any] = [state]
        for kind in ("raw", "centred"):
            here = at.sel(kind=kind)
            row += [float(here["mean"]), *(float(v) for v in here["share_above"].values)]
        raw = at.sel(kind="raw")
        row += [float(raw["clusters"][0]), float(at.sel(kind="centred")["mixed_clusters"][0])]
        rows.append([*row, float(raw["same_token_share"][1])])
    names = ["mean cosine", "above .9", "above .99"]
    columns = ["state", *(f"{kind}: {name}" for kind in ("raw", "centred") for name in names)]
    caption = (
        "Shares of pairs; clusters are tokens linked above 0.9, mean number in a text (raw: all; centred: those that "
        "hold two different tokens); the last column is the share of pairs above .99 that are one token met twice."
    )
    return caption, [*columns, "raw: clusters", "centred: mixed clusters", "same token"], rows


def group_table(study: Study) -> Table:
    """Groups of heads at every layer, or at a few."""
    heads, rows = maps(study)[0], []
    for layer in some_layers(0, len(heads.layer) - 1, study.model["depth"] - 1, 12):
        at = heads.isel(layer=layer)
        there = bool(at["has_groups"])
        found = int(at["groups"]) if there else "none"
        sizes = ", ".join(map(str, group_sizes(at["group"].values))) if there else "–"
        numbers = (float(at[name]) for name in ("silhouette", "null_silhouette", "stability"))
        rows.append([layer, found, sizes, *numbers])
    columns = ["layer", "groups", "their heads", "silhouette", "of shuffled maps, at most", "found again (ARI)"]
    return "Groups of heads.", columns, rows


def sink_table(study: Study) -> Table:
    """The heads with the strongest sinks."""
    sinks = maps(study)[1].sel(kind="first")
    mass = sinks["mass"].values
    order = np.argsort(-mass, axis=None)[:6]
    rows = []
    for layer, head in zip(*np.unravel_index(order, mass.shape)):
        at = sinks.isel(layer=layer, head=head)
        rows.append([int(layer), int(head), float(at["mass"]), float(at["position"]), float(at["excess"])])
    names = ["layer", "head", "attention", "evenly spread", "times that"]
    return f"The {len(rows)} heads that pay most attention to the first token.", names, rows


def head_table(study: Study) -> Table:
    """Spectral numbers of every head."""
    assert study.spectra is not None, "this study has no spectra"
    data, rows = study.spectra, []
    for layer in data.layer.values:
        for head in range(data.sizes["head"]):
            at = data.sel(layer=layer).isel(head=head)
            lead, block = complex(at["ov"].values[0]), complex(at["value_block"].values[0])
            row = [int(layer), head, _complex(lead), _complex(block), float(at["along"]), _GOOD[int(at["good"])]]
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
        rows.append([found["layer"], found["head"], _complex(value), *words])
    caption = "Eigenvectors of O V read through the embedding; an eigenvector has no sign of its own."
    return caption, ["layer", "head", "eigenvalue", "toward", "away"], rows


def ladder_table(study: Study) -> Table:
    """Distances of every rung and baseline, averaged by the one rule."""
    rungs, beside = climbed(study)
    rows: list[list[Any]] = []
    for number, part in zip(rungs.rung.values, rungs["part"].values):
        at = rungs.sel(rung=number)
        errors = [float(at[name].max(skipna=False)) for name in ("relative_error", "step_error")]
        rows.append([f"{number}: {part}", *_averages(at), *errors])
    for name in beside.baseline.values:
        rows.append([str(name), *_averages(beside.sel(baseline=name)), float("nan"), float("nan")])
    names = ["rung or baseline", "Gram distance", "Wasserstein", "ARI of clusters"]
    return (
        f"{AVERAGE} Errors are the largest of any state.",
        [*names, "largest state error", "largest step error"],
        rows,
    )


def _averages(data: Any) -> list[str]:
    return [spread(*over_texts(data[name])) for name in ("gram_distance", "wasserstein", "rand_index")]


def spread(mean: Any, deviation: Any) -> str:
    """A mean with its standard deviation, as words.

    >>> spread(0.8431, 0.0312), spread(1.0, float("nan")), spread(float("nan"), 1.0)
    ('0.843 ± 0.031', '1', '–')
    """
    mean, deviation = float(mean), float(deviation)
    if not np.isfinite(mean):
        return "–"
    text = f"{mean:.3g}" if not np.isfinite(deviation) else f"{mean:.3g} ± {deviation:.2g}"
    return text.replace("-", "\N{MINUS SIGN}")


def _complex(value: complex) -> str:
    text = f"{value.real:.3g}" if value.imag == 0.0 else f"{value.real:.3g} ± {abs(value.imag):.3g}i"
    return text.replace("-", "\N{MINUS SIGN}")
