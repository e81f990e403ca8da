"""What pictures over the depth of a model share: which layers to show, the axis and the legend."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from metastable.models.study import Study
from metastable.plots.style import SOFT, paper

CAUTION = "Raw cosines contain the direction that all tokens share\n(anisotropy); by itself it is no sign of clusters."
DASHED = (0, (4, 2))


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


def by_layer(panel: Axes, study: Study) -> None:
    """The horizontal axis of everything that runs over depth."""
    panel.set_xlabel("layer")
    panel.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
    panel.grid(True, axis="y")
    trained, last = study.model["depth"], panel.get_xlim()[1]
    if trained < int(study.similarity.layer[-1]) and trained < last:
        panel.axvline(trained, color=SOFT, lw=0.7, ls=":")
        where = panel.get_xaxis_transform()  # across in layers, up in shares of the panel
        panel.text(trained, 1.01, "trained", ha="center", va="bottom", fontsize=6, color=SOFT, transform=where)


def legend(figure: Figure) -> None:
    """Above the panel: these curves leave no corner free."""
    lines, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside upper center", ncols=1 if max(map(len, labels)) > 27 else 2, fontsize=6.5)


@paper()
def heads_from_zero(figure: Figure, heads: int) -> Figure:
    """A map of layers and heads, with heads counted from 0 as everywhere else."""
    shown = range(0, heads, -(-heads // 12))
    figure.axes[0].set_aspect("auto")
    figure.axes[0].set_xticks(list(shown), [str(h) for h in shown])
    return figure
