"""What the tokens of a model form, by a rule: one point, many small clusters, no clusters, or something between."""

from typing import TYPE_CHECKING

from metastable.models.phrases import percent

if TYPE_CHECKING:
    import xarray

LINKED, SPIKE = 0.9, 0.99  # cosines above which two tokens are in one cluster, and all but the same
ONE_POINT, NONE, MANY, SMALL = 0.9, 0.05, 2.0, 0.25  # as in the experiment model-controls
SHAPES = ("one point", "many small clusters", "no clusters", "some tokens together")
RULE = (
    f"Clusters are tokens linked by cosines above {LINKED:g}. One point: the largest holds at least "
    f"{percent(ONE_POINT)} of a text's tokens. Many small clusters: beside the mean direction, at least {MANY:g} in a "
    f"text that hold different tokens, the largest with at most {percent(SMALL)} of the tokens. No clusters: beside "
    f"the mean direction, at most {percent(NONE)} of the tokens are in clusters of different tokens."
)


def shape(similarity: "xarray.Dataset") -> str:
    """One of SHAPES, for a similarity dataset at one state; "nothing to compare" where no text has a pair."""
    at = similarity.sel(threshold=LINKED)
    raw, centred = at.sel(kind="raw"), at.sel(kind="centred")
    if float(raw["mean"]) != float(raw["mean"]):
        return "nothing to compare"
    if float(raw["largest"]) >= ONE_POINT:
        return SHAPES[0]
    if float(centred["mixed_clusters"]) >= MANY and float(centred["largest"]) <= SMALL:
        return SHAPES[1]
    return SHAPES[2] if float(centred["mixed_share"]) <= NONE else SHAPES[3]
