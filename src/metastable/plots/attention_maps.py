"""Attention and other matrices as heat maps."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from metastable.errors import InputError
from metastable.plots.style import DIVERGING, HEAT, Size, panels, paper

Floats = NDArray[np.float64]

LABELS_UP_TO = 40  # more names than this along an axis cannot be read


@paper()
def heatmap(
    matrix: ArrayLike,
    *,
    xlabel: str = "",
    ylabel: str = "",
    columns: Sequence[str] | None = None,
    rows: Sequence[str] | None = None,
    low: float | None = None,
    high: float | None = None,
    diverging: bool = False,
    bar: str = "",
    title: str = "",
    size: Size | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw any matrix as a heat map: head correlations, attention per head and token, distances.

    Parameters
    ----------
    matrix
        Values (rows, columns); nan is left white.
    xlabel, ylabel, title, bar
        Words for the axes, the panel and the colour bar.
    columns, rows
        Names along the axes, drawn while they can be read.
    low, high
        Values at the ends of the colours; the matrix's own when None.
    diverging
        Two-sided colours around 0, for correlations.
    size
        Of a new figure: "column", "page" or "slide", a width, or width and height in inches.
    ax
        Existing axes.

    Examples
    --------
    >>> fig = heatmap([[1.0, -0.5], [-0.5, 1.0]], diverging=True, low=-1, high=1, bar="correlation")
    >>> fig.axes[0].images[0].get_clim()
    (-1.0, 1.0)
    """
    values = np.atleast_2d(np.asarray(matrix, dtype=float))
    finite = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
    reach = float(np.abs(finite).max())
    bottom = low if low is not None else (-reach if diverging else float(finite.min()))
    top = high if high is not None else (reach if diverging else float(finite.max()))
    tall = float(np.clip(values.shape[0] / values.shape[1], 0.45, 1.3))
    figure, (panel,) = panels(ax, 1, 3.2, 0.74 * tall, 0.3, size=size)
    norm = Normalize(bottom, top if top > bottom else bottom + 1.0)
    image = _image(panel, values, norm, DIVERGING if diverging else HEAT)
    panel.set(xlabel=xlabel, ylabel=ylabel, title=title)
    panel.set_aspect("auto" if values.shape[0] != values.shape[1] else "equal")
    _names(panel, columns, rows, values.shape)
    _bar(figure, image, [panel], bar)
    return figure


@paper()
def attention_maps(
    matrices: ArrayLike,
    *,
    titles: Sequence[str] | None = None,
    tokens: Sequence[str] | None = None,
    log: bool = False,
    columns: int | None = None,
    size: Size | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Draw attention matrices side by side (over times or heads) with one colour scale.

    Parameters
    ----------
    matrices
        One matrix (n, n) or several (m, n, n); row i is the attention token i pays.
    titles
        One per panel, for example times or heads.
    tokens
        Names of the tokens, drawn while they can be read.
    log
        Colours by the logarithm, from 1e-4 to 1.
    columns
        Panels in a row.
    size
        Of a new figure: "column", "page" or "slide", a width, or width and height in inches.
    ax
        Existing axes, one per panel.

    Examples
    --------
    >>> import numpy as np
    >>> fig = attention_maps(np.full((2, 3, 3), 1 / 3), titles=["t = 0", "t = 1"])
    >>> fig.axes[0].get_ylabel()
    'query $i$'
    """
    P = np.asarray(matrices, dtype=float)
    P = P[None] if P.ndim == 2 else P  # (m, n, n)
    if P.ndim != 3 or P.shape[1] != P.shape[2]:
        raise InputError(f"Attention to draw has shape (panels, n, n) but {np.shape(matrices)} was given.")
    if titles is not None and len(titles) != len(P):
        raise InputError(f"There are {len(P)} attention matrices but {len(titles)} titles; give one per matrix.")
    wide = 2.7 if len(P) == 1 else 1.9
    figure, axes = panels(ax, len(P), wide, 1.0, 0.1 if len(P) > 1 else -0.15, columns=columns, size=size)
    # Attention lies between 0 and 1 but is often far below: the scale ends at the largest value drawn.
    top = float(np.nanmax(P)) if np.isfinite(P).any() else 1.0
    norm = LogNorm(1e-4, 1.0, clip=True) if log else Normalize(0.0, top if top > 0 else 1.0)
    spec = axes[0].get_subplotspec()
    in_row = spec.get_gridspec().ncols if spec is not None else len(P)
    for k, (panel, matrix) in enumerate(zip(axes, P)):
        image = _image(panel, matrix, norm, HEAT)
        panel.set_title(titles[k] if titles is not None else "")
        _names(panel, tokens, tokens, matrix.shape)
        outer = ax is not None or k % in_row == 0
        panel.set_ylabel("query $i$" if outer else "")
        panel.set_xlabel("key $j$" if ax is not None or k + in_row >= len(P) else "")
    _bar(figure, image, axes, "attention $P_{ij}$")
    return figure


def _image(panel: Axes, values: Floats, norm: Normalize, colours: Colormap) -> AxesImage:
    image = panel.imshow(values, norm=norm, cmap=colours, origin="upper", interpolation="nearest")
    for side in panel.spines.values():
        side.set_visible(True)
        side.set_linewidth(0.5)
    panel.tick_params(length=1.5)
    return image


def _names(panel: Axes, columns: Sequence[str] | None, rows: Sequence[str] | None, shape: tuple[int, ...]) -> None:
    """Names along the axes, or counts from 1 like the papers' indices."""
    for axis, names, count, tilt in ((panel.xaxis, columns, shape[1], 90), (panel.yaxis, rows, shape[0], 0)):
        if names is not None and len(names) != count:
            raise InputError(f"There are {len(names)} names for {count} rows or columns; give one name each.")
        if names is not None and count <= LABELS_UP_TO:
            size = float(np.clip(140 / count, 4.0, 7.0))
            axis.set_ticks(range(count), [str(name) for name in names], fontsize=size, rotation=tilt)
        else:
            step = MaxNLocator(nbins=4, integer=True, min_n_ticks=1).tick_values(1, max(count, 2))
            shown = sorted({1, *(int(value) for value in step if 1 <= value <= count)} - ({2} if count > 6 else set()))
            axis.set_ticks([value - 1 for value in shown], [str(value) for value in shown])


def _bar(figure: Figure, image: AxesImage, axes: Sequence[Axes], words: str) -> None:
    """One colour bar for all panels: as tall as the panel in a single row, beside the grid otherwise."""
    spec = axes[-1].get_subplotspec()
    if spec is None or spec.get_gridspec().nrows == 1:
        bar = figure.colorbar(image, cax=axes[-1].inset_axes((1.05, 0.0, 0.045, 1.0)))
    else:
        bar = figure.colorbar(image, ax=list(axes), fraction=0.02, pad=0.02, aspect=28, shrink=0.8)
    bar.outline.set_linewidth(0.5)
    bar.ax.tick_params(length=1.5)
    bar.set_label(words)
