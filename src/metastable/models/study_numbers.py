"""The numbers of a study's summary, each computed once, for sentences, tables and JSON alike."""

from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.models.study_record import Study
from metastable.models.token_distances import DISTANCES, over_texts
from metastable.models.token_shapes import LINKED, SPIKE

if TYPE_CHECKING:
    import xarray

SINK = 0.3  # share of a head's attention from which a token is called its sink
_SIMILARITY: dict[str, tuple[str, dict[str, float]]] = {
    "mean_cosine": ("mean", {}),
    "spike": ("share_above", {"threshold": SPIKE}),
    "largest_cluster": ("largest", {"threshold": LINKED}),
    "mixed_clusters": ("mixed_clusters", {"threshold": LINKED}),
    "mixed_share": ("mixed_share", {"threshold": LINKED}),
}


def key_numbers(study: Study) -> dict[str, Any]:
    """The numbers of a summary; None where there is none to give.

    ``spike`` and ``spike_centred`` are by state; other similarities are those of the last state.
    """
    last = str(study.last)
    found: dict[str, Any] = {
        "spike": at_states(study, "spike", "raw"),
        "spike_centred": at_states(study, "spike", "centred"),
        "same_token_share": plain(_last(study)["same_token_share"].sel(threshold=SPIKE)),
        "clusters": plain(_last(study)["clusters"].sel(threshold=LINKED)),
    }
    for name in ("mean_cosine", "largest_cluster", "mixed_clusters", "mixed_share"):
        found[name] = at_states(study, name, "raw")[last]
        found[f"{name}_centred"] = at_states(study, name, "centred")[last]
    return found | _heads(study) | _ranks(study) | _sinks(study) | _spectra(study) | _ladder(study)


def _last(study: Study) -> "xarray.Dataset":
    return study.similarity.sel(layer=study.last, kind="raw")


def states(study: Study) -> list[int]:
    """The states that sentences speak of: the embedded text, the last trained one, and the last."""
    return sorted({0, study.trained, study.last})


def at_states(study: Study, name: str, kind: str) -> dict[str, float | None]:
    """One of the similarities at each of `states`."""
    variable, where = _SIMILARITY[name]
    values = study.similarity[variable].sel({"kind": kind, **where})
    return {str(k): plain(values.sel(layer=k)) for k in states(study)}


def _heads(study: Study) -> dict[str, Any]:
    empty = ("groups", "group_sizes", "silhouette", "stability", "layers_with_groups", "layers_with_a_lone_head")
    if study.heads is None:
        return dict.fromkeys((*empty, "grouped_layer"))
    within = study.heads.isel(layer=slice(0, study.trained))
    has, layer = within["has_groups"].values.astype(bool), grouped_layer(study)
    at, sizes = within.isel(layer=layer), [group_sizes(labels) for labels in within["group"].values]
    return {
        "groups": int(at["groups"]) if has.any() else None,
        "group_sizes": sizes[layer] if has.any() else None,
        "silhouette": plain(at["silhouette"]),
        "stability": plain(at["stability"]),
        "layers_with_groups": int(has.sum()),
        "layers_with_a_lone_head": sum(bool(there) and len(of) == 2 and of[-1] == 1 for there, of in zip(has, sizes)),
        "grouped_layer": layer,
    }


def group_sizes(labels: np.ndarray) -> list[int]:
    """How many heads each group has, the largest first.

    >>> group_sizes(np.array([0, 1, 0, 0]))
    [3, 1]
    """
    return sorted((int(size) for size in np.unique(labels, return_counts=True)[1]), reverse=True)


def grouped_layer(study: Study) -> int:
    """The trained layer whose heads form the clearest groups, or come nearest to it where none do."""
    assert study.heads is not None
    within = study.heads.isel(layer=slice(0, study.trained))
    has, clear = within["has_groups"].values.astype(bool), within["silhouette"].values
    return int(np.argmax(np.where(has if has.any() else True, np.nan_to_num(clear, nan=-2.0), -2.0)))


def _ranks(study: Study) -> dict[str, Any]:
    names = ("effective_rank", "even_rank", "rank_tokens", "rank_texts")
    if study.ranks is None:
        return dict.fromkeys(names)
    within = study.ranks.isel(layer=slice(0, study.trained))
    low, middle, high = np.quantile(within["effective_rank"].mean("text").values, [0.0, 0.5, 1.0])
    tokens, even = (float(within[name].mean()) for name in ("tokens", "even"))
    return dict(zip(names, ([float(low), float(middle), float(high)], even, round(tokens), within.sizes["text"])))


def _sinks(study: Study) -> dict[str, Any]:
    if study.sinks is None:
        return dict.fromkeys(("sink", "sink_layer", "sink_head", "sink_baseline", "sink_heads"))
    within = study.sinks.sel(kind="first").isel(layer=slice(0, study.trained))
    mass = within["mass"].values
    layer, head = (int(k) for k in np.unravel_index(np.argmax(mass), mass.shape))
    return {
        "sink": plain(mass[layer, head]),
        "sink_layer": layer,
        "sink_head": head,
        "sink_baseline": plain(within["position"].values[layer]),
        "sink_heads": int((mass >= SINK).sum()),
    }


def _spectra(study: Study) -> dict[str, Any]:
    if study.spectra is None:
        return dict.fromkeys(("heads", "good_triples", "undecided_triples", "beta"))
    good = study.spectra["good"].values
    return {
        "heads": int(good.size),
        "good_triples": int((good == 1).sum()),
        "undecided_triples": int((good == -1).sum()),
        "beta": [plain(v) for v in np.quantile(study.spectra["beta_model"].values, [0.0, 0.5, 1.0])],
    }


def _ladder(study: Study) -> dict[str, Any]:
    names = ("top_rung_error", "step_error", "theory_gram_distance", "rungs", "baselines")
    if study.ladder is None or study.baselines is None:
        return dict.fromkeys(names)
    steps = study.ladder["step_error"].values
    rungs = {str(k): averaged(study.ladder.sel(rung=k)) for k in study.ladder.rung.values}
    beside = {str(b): averaged(study.baselines.sel(baseline=b)) for b in study.baselines.baseline.values}
    error = plain(study.ladder["exact_error"].max())
    step = plain(np.nanmax(steps)) if np.isfinite(steps).any() else None
    return dict(zip(names, (error, step, rungs["1"]["gram_distance"][0], rungs, beside)))


def averaged(data: "xarray.Dataset") -> dict[str, list[float | None]]:
    """Mean and spread of both distances, by the one rule (``metastable.models.token_distances``)."""
    return {name: [plain(v) for v in over_texts(data[name])] for name in DISTANCES}


def plain(value: Any) -> float | None:
    """A number as JSON knows it: nan is None."""
    return float(value) if np.isfinite(float(value)) else None
