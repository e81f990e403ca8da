"""What the controls of a study say, made from its numbers."""

from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.models.controls import ABOUT
from metastable.models.curves import SHORT, Source, sources
from metastable.models.phrases import after, listed, span
from metastable.models.study_record import Study
from metastable.models.token_shapes import LINKED, shape

if TYPE_CHECKING:
    import xarray

Table = tuple[str, list[str], list[list[Any]]]


def names(study: Study) -> list[str]:
    """The controls that were measured."""
    return [source.control for source in sources(study)[1:]]


def what_they_are(study: Study) -> list[str]:
    """A sentence on each control, and on the seeds."""
    beside = sources(study)[1:]
    if not beside:
        return []
    seeds = beside[0].similarity.sizes["seed"]
    each = [f"{SHORT[s.control].capitalize()}: {ABOUT[s.control][0].lower()}{ABOUT[s.control][1:]}" for s in beside]
    return [f"Controls, {seeds} seed{'s' if seeds != 1 else ''} each, on the same texts, layers and options.", *each]


def on_tokens(study: Study) -> list[str]:
    """What the tokens of each control form, by the rule that the model's own are judged by."""
    said = []
    for state in sorted({study.trained, study.last}) if names(study) else ():
        found = [f"{_shapes(source.similarity, state)} with {source.label}" for source in sources(study)[1:]]
        said.append(f"By the same rule the controls, {after(state)}, have {listed(found)}.")
    return said


def _shapes(similarity: "xarray.Dataset", state: int) -> str:
    each = [shape(similarity.isel(seed=k).sel(layer=state)) for k in range(similarity.sizes["seed"])]
    return " or ".join(sorted(set(each)))


def control_table(study: Study) -> Table:
    """Cosines and clusters of the model and of each control; ranges are over seeds."""
    columns = {
        "mean cosine": ("mean", "raw", {}),
        "largest cluster": ("largest", "raw", {"threshold": LINKED}),
        "in mixed clusters": ("mixed_share", "raw", {"threshold": LINKED}),
        "mean cosine, centred": ("mean", "centred", {}),
        "largest cluster, centred": ("largest", "centred", {"threshold": LINKED}),
        "in mixed clusters, centred": ("mixed_share", "centred", {"threshold": LINKED}),
    }
    rows: list[list[Any]] = []
    for state in sorted({study.trained, study.last}):
        for source in sources(study):
            row: list[Any] = [state, source.label]
            for name, kind, where in columns.values():
                values = source.similarity[name].sel({"kind": kind, "layer": state, **where}).values
                row.append(_range(values))
            rows.append(row)
    caption = (
        f"The model beside its controls. Shares of a text's tokens; clusters are tokens linked above {LINKED:g}, mixed "
        "ones hold different tokens; ranges are over seeds, a dash where tokens have met and nothing is left beside "
        "their mean."
    )
    return caption, ["state", "", *columns], rows


def _range(values: np.ndarray) -> str:
    return span(float(values.min()), float(values.max())) if np.isfinite(values).all() else "–"


def on_heads(study: Study) -> list[str]:
    """In how many layers the heads of each control form groups."""
    each = [(source, _grouped(source, study.trained)) for source in sources(study)[1:]]
    said = [f"{count} with {source.label}" for source, count in each if count]
    return [f"By the same rule the number of layers whose heads form groups is {listed(said)}."] if said else []


def _grouped(source: Source, trained: int) -> str:
    """In how many trained layers the heads of a control form groups, over its seeds; empty where it shows no maps."""
    if source.heads is None:
        return ""
    counts = source.heads["has_groups"].isel(layer=slice(0, trained)).sum("layer").values
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"


def _strongest(source: Source, trained: int) -> str:
    """How much attention its strongest head pays to the first token, over its seeds; empty where it shows no maps."""
    if source.sinks is None:
        return ""
    most = source.sinks["mass"].sel(kind="first").isel(layer=slice(0, trained)).max(("layer", "head")).values
    return span(float(most.min()), float(most.max()), "percent")


def in_short(source: Source, trained: int) -> list[str]:
    """The findings about a control in the order of a study's: tokens, heads, sinks, and two that controls have not."""
    shapes, count, share = _shapes(source.similarity, trained), _grouped(source, trained), _strongest(source, trained)
    groups = f"Heads form groups in {count} of {trained} layers." if count else "–"
    sink = f"The strongest head pays the first token {share} of its attention." if share else "–"
    return [f"{shapes[0].upper()}{shapes[1:]} after {trained} layers.", groups, sink, "–", "–"]


def on_ranks(study: Study) -> list[str]:
    """The effective rank of the attention maps of each control, in the median head."""
    said = []
    for source in sources(study)[1:]:
        if source.ranks is not None:
            within = source.ranks["effective_rank"].isel(layer=slice(0, study.trained)).mean("text")
            middle = within.median(("layer", "head")).values
            low, high = f"{middle.min():.1f}", f"{middle.max():.1f}"
            said.append(f"{low if low == high else f'{low} to {high}'} with {source.label}")
    return [f"In the median head of the controls it is {listed(said)}."] if said else []


def on_sinks(study: Study) -> list[str]:
    """How much attention the strongest head of each control pays to the first token."""
    each = [(source, _strongest(source, study.trained)) for source in sources(study)[1:]]
    said = [f"{share} with {source.label}" for source, share in each if share]
    return [f"In the controls the strongest head pays it {listed(said)}."] if said else []
