"""How a distribution changes over layers or time."""

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from metastable.errors import InputError, unknown
from metastable.plots.style import INK, PALETTE, Size, one_axes, panels, paper

Floats = NDArray[np.float64]

LAYOUTS = ("ridge", "panels")


@paper()
def histograms(
    counts: ArrayLike,
    edges: ArrayLike,
    *,
    band: ArrayLike | None = None,
    labels: Sequence[str] | None = None,
    layout: str = "ridge",
    xlabel: str = "pairwise cosine similarity",
    columns: int | None = None,
    size: Size | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Draw one histogram per layer or time.

    Parameters
    ----------
    counts
        Counts or densities, (m, bins); each row is scaled to a density of its own.
    edges
        Bin edges, (bins + 1,).
    band
        The least and the largest count of every bin, (2, m, bins), for example over seeds: shaded over the rows.
    labels
        One per row, for example "layer 12".
    layout
        "ridge": rows above each other in one panel, first at the top; "panels": small multiples with own scales.
    xlabel
        Words for the horizontal axis.
    columns
        Panels in a row, for small multiples.
    size
        Of a new figure: "column", "page" or "slide", a width, or width and height in inches.
    ax
        Existing axes: one for a ridge, one per row for small multiples.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.random.default_rng(0).normal([[0.0], [0.5]], 0.2, size=(2, 500))
    >>> edges = np.linspace(-1, 1.5, 41)
    >>> counts = [np.histogram(row, edges)[0] for row in values]
    >>> fig = histograms(counts, edges, labels=["layer 0", "layer 24"])
    >>> len(fig.axes)
    1
    """
    if layout not in LAYOUTS:
        raise unknown("layout", layout, LAYOUTS)
    heights, bins = np.atleast_2d(np.asarray(counts, dtype=float)), np.asarray(edges, dtype=float)
    if heights.ndim != 2 or bins.shape != (heights.shape[1] + 1,):
        raise InputError(
            f"Histograms have counts (rows, bins) and bins + 1 edges, but shapes {heights.shape} and {bins.shape} "
            "were given."
        )
    words = [""] * len(heights) if labels is None else [str(label) for label in labels]
    if len(words) != len(heights):
        raise InputError(f"There are {len(heights)} histograms but {len(words)} labels; give one label each.")
    area = (np.nan_to_num(heights) * np.diff(bins)).sum(axis=1, keepdims=True)
    area = np.where(area > 0, area, 1.0)
    density = np.nan_to_num(heights) / area  # (m, bins)
    ends = None if band is None else np.nan_to_num(np.asarray(band, dtype=float)) / area
    if ends is not None and ends.shape != (2, *density.shape):
        raise InputError(f"A band has shape {(2, *density.shape)}, least and largest, but {ends.shape} was given.")
    if layout == "ridge":
        return _ridge(density, ends, bins, words, xlabel, size, ax)
    return _multiples(density, ends, bins, words, xlabel, columns, size, ax)


def _ridge(
    density: Floats,
    ends: Floats | None,
    bins: Floats,
    words: Sequence[str],
    xlabel: str,
    size: Size | None,
    ax: Axes | Sequence[Axes] | None,
) -> Figure:
    count = len(density)
    axes = ax if isinstance(ax, Axes) or ax is None else next(iter(ax))
    figure, panel = one_axes(axes, 3.4, float(np.clip(0.9 + 0.3 * count, 1.6, 7.0)), size)
    # Each row is scaled by its own peak, as a spike at 1 would flatten all others.
    low, high = (density, density) if ends is None else ends
    tints = matplotlib.colormaps["viridis"](np.linspace(0.12, 0.85, count))
    for k, (row, tint) in enumerate(zip(density, tints)):
        base, peak = count - 1 - k, high[k].max() or 1.0
        outline, least, most = (base + 0.92 * np.append(one, one[-1]) / peak for one in (row, low[k], high[k]))
        panel.fill_between(bins, base, outline, step="post", color=tint, alpha=0.75, lw=0, zorder=2 + k)
        panel.step(bins, outline, where="post", color="white", lw=0.8, zorder=2.1 + k)
        if ends is not None:
            panel.fill_between(bins, least, most, step="post", color=INK, alpha=0.3, lw=0, zorder=2.2 + k)
        panel.axhline(base, color=INK, lw=0.4, zorder=2.2 + k)
    panel.set_yticks([count - 1 - k for k in range(count)], words)
    panel.tick_params(axis="y", length=0)
    panel.spines["left"].set_visible(False)
    panel.set(xlim=(bins[0], bins[-1]), ylim=(-0.05, count + 0.05), xlabel=xlabel)
    return figure


def _multiples(
    density: Floats,
    ends: Floats | None,
    bins: Floats,
    words: Sequence[str],
    xlabel: str,
    columns: int | None,
    size: Size | None,
    ax: Axes | Sequence[Axes] | None,
) -> Figure:
    figure, axes = panels(ax, len(density), 1.75, 0.75, 0.25, columns=columns, size=size)
    spec = axes[0].get_subplotspec()
    in_row = spec.get_gridspec().ncols if spec is not None else len(axes)
    for k, (panel, row, word) in enumerate(zip(axes, density, words)):
        panel.stairs(row, bins, fill=True, color=PALETTE[0], alpha=0.35)
        panel.stairs(row, bins, color=PALETTE[0], lw=0.8)
        if ends is not None:
            panel.stairs(ends[1, k], bins, baseline=ends[0, k], fill=True, color=INK, alpha=0.3)
        panel.set(title=word, xlim=(bins[0], bins[-1]), ylim=(0, None))
        panel.locator_params(nbins=4)
        if k % in_row == 0:
            panel.set_ylabel("density")
        if k + in_row >= len(axes):
            panel.set_xlabel(xlabel)
    return figure
