"""What pictures over the depth of a model share: how layers are counted, which to show, the axes and the legend."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from metastable.plots import heatmap
from metastable.plots.style import COLUMN, SOFT, new_figure, paper

CAUTION = "Raw cosines contain the direction that all tokens share\n(anisotropy); by itself it is no sign of clusters."
COUNTING = (
    "Layers and heads are counted from 0, as in Python and in transformers: layer l turns state l into state l + 1. "
    "State 0 is the embedded text, state l the tokens after l layers."
)
DASHED = (0, (4, 2))
_TICKS = 12  # labels along an axis of layers or heads, at most


def some_layers(first: int, last: int, trained: int, most: int) -> list[int]:
    """At most ``most`` layers from first to last, evenly spaced, the trained depth among them.

    >>> some_layers(0, 96, 12, 5)
    [0, 12, 48, 72, 96]
    """
    even = sorted({int(v) for v in np.linspace(first, last, min(most, last - first + 1)).round()})
    if first < trained < last and trained not in even:
        inner = even[1:-1] or even[-1:]
        even[even.index(min(inner, key=lambda v: abs(v - trained)))] = trained
        even = sorted({*even, last})
    return even


def by_state(panel: Axes, trained: int, last: int, named: bool = True) -> None:
    """The horizontal axis of what is measured on tokens: states 0 to ``last``."""
    _across(panel, "state (layers passed)", trained, last, named)


def by_layer(panel: Axes, trained: int, layers: int, named: bool = True) -> None:
    """The horizontal axis of what is measured on attention maps: layers 0 to ``layers`` - 1."""
    _across(panel, "layer", trained - 0.5, layers - 1, named)


def _across(panel: Axes, label: str, trained: float, last: int, named: bool) -> None:
    panel.set_xlabel(label)
    panel.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    panel.grid(True, axis="y")
    if trained < last:
        panel.axvline(trained, color=SOFT, lw=0.7, ls=":")
        where = panel.get_xaxis_transform()  # across in layers, up in shares of the panel
        words = "trained" if named else ""
        panel.text(trained, 1.01, words, ha="center", va="bottom", fontsize=6, color=SOFT, transform=where)


def legend(figure: Figure, panel: Axes | None = None, columns: int | None = None) -> None:
    """Above the panels: these curves leave no corner free."""
    lines, labels = (panel or figure.axes[0]).get_legend_handles_labels()
    if labels:
        wide = columns or (1 if max(map(len, labels)) > 27 else 2)
        figure.legend(lines, labels, loc="outside upper center", ncols=wide, fontsize=6.5)


@paper()
def layer_head_map(values: np.ndarray, title: str, low: float | None = 0.0) -> Figure:
    """A heat map of (layers, heads), both counted from 0, in one column."""
    layers, heads = values.shape
    figure = new_figure(COLUMN, float(np.clip(1.0 + 0.16 * layers, 1.6, 5.0)))
    panel = figure.add_subplot()
    heatmap(values, xlabel="head", ylabel="layer", low=low, title=title, ax=panel)
    panel.set_aspect("auto")
    panel.set_xticks(_counted(heads), map(str, _counted(heads)))
    panel.set_yticks(_counted(layers), map(str, _counted(layers)))
    return figure


def _counted(count: int) -> Sequence[int]:
    """0, 1, 2, ... as many as can be read."""
    return range(0, count, -(-count // _TICKS))
