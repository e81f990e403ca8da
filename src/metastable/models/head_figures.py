"""Pictures of a study's attention heads and sinks, each from its datasets alone."""

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font

from metastable.models.depth_axis import layer_head_map
from metastable.models.study_record import Study
from metastable.plots import heatmap
from metastable.plots.style import COLUMN, INK, LOOK, footnote, new_figure, paper

if TYPE_CHECKING:
    import xarray

TOKENS_SHOWN = 40
SINKS = {"separator": "separators", "punctuation": "punctuation"}  # classes of tokens besides the first


def maps(study: Study) -> "tuple[xarray.Dataset, xarray.Dataset]":
    """The datasets of heads and sinks of a model that shows its attention."""
    assert study.heads is not None, "this model shows no attention maps"
    assert study.sinks is not None, "this model shows no attention maps"
    return study.heads, study.sinks


@paper()
def correlations(study: Study, layer: int) -> Figure:
    """Correlations of attention maps of one layer (from 0), heads in the order of their groups where there are any."""
    data = maps(study)[0].isel(layer=layer)
    grouped = bool(data["has_groups"])
    group = data["group"].values if grouped else np.zeros(data.sizes["head"], dtype=int)
    order = np.argsort(group, kind="stable")
    names, matrix = [str(h) for h in order], data["correlation"].values[np.ix_(order, order)]
    figure = new_figure(COLUMN, 2.9)
    panel = figure.add_subplot()
    heatmap(matrix, rows=names, columns=names, diverging=True, low=-1, high=1, bar="correlation", ax=panel)
    for edge in np.flatnonzero(np.diff(group[order])) + 0.5:
        panel.axhline(edge, color=INK, lw=0.9)
        panel.axvline(edge, color=INK, lw=0.9)
    words = f"{int(data['groups'])} groups" if grouped else "no groups"
    panel.set(xlabel="head", ylabel="head", title=f"layer {layer}: {words}")
    panel.tick_params(axis="x", rotation=0)
    return figure


@paper()
def activations(study: Study, layer: int) -> Figure:
    """Attention that each token of the first text receives from each head: Fig. 2 of the first paper, left."""
    data = maps(study)[0].isel(layer=layer)
    shown = min(TOKENS_SHOWN, data.sizes["token"])
    labels = [plain_word(word) for word in data["word"].values[:shown]]
    values = data["received"].values[:, :shown].T  # (token, head)
    heads = values.shape[1]
    figure = new_figure(COLUMN, 0.9 + 0.125 * shown)
    panel = figure.add_subplot()
    heatmap(values, rows=labels, low=0.0, bar="attention received", xlabel="head", title=f"layer {layer}", ax=panel)
    panel.set_aspect("auto")
    step = -(-heads // 12)
    panel.set_xticks(range(0, heads, step), [str(h) for h in range(0, heads, step)])
    panel.tick_params(axis="y", labelsize=6.0)
    more = data.sizes["token"] - shown
    footnote(figure, f"The first {shown} tokens; {more} more are not shown." if more else "")
    return figure


def plain_word(word: Any) -> str:
    """A token as a label: no line breaks, not too long; what the font cannot draw, by its number in Unicode.

    >>> plain_word("a\\nb"), plain_word("שלום"), plain_word("中文"), plain_word("interpretation")
    ('a b', 'שלום', 'U+4E2DU+6587', 'interpretat…')
    """
    known = _letters()
    text = " ".join(str(word).split()) or "␣"
    text = "".join(c if c.isprintable() and ord(c) in known else f"U+{ord(c):04X}" for c in text)
    return (text if len(text) <= 12 else text[:11] + "…").replace("$", r"\$")  # a dollar starts a formula


@cache
def _letters() -> frozenset[int]:
    """The characters that the font of our pictures has."""
    return frozenset(get_font(findfont(LOOK["font.family"][0])).get_charmap())


def rank_map(study: Study) -> Figure:
    """Effective rank of the attention maps by layer and head, mean over inputs."""
    assert study.ranks is not None, "this study has no ranks"
    found = study.ranks["effective_rank"].mean("text").values  # (layers, heads)
    return layer_head_map(found, "effective rank of the attention map")


def sink_map(study: Study) -> Figure:
    """Attention on the first token by layer and head."""
    mass = maps(study)[1]["mass"].sel(kind="first").values  # (layers, heads)
    return layer_head_map(mass, "attention on the first token")
