"""Keys and queries as two clouds of points, joined by attention."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from metastable.errors import InputError
from metastable.plots.projection import principal
from metastable.plots.spaces import limits
from metastable.plots.style import FAINT, KEYS, QUERIES, Size, panels, paper

Floats = NDArray[np.float64]


@paper()
def attention_clouds(
    keys: ArrayLike,
    queries: ArrayLike,
    attention: ArrayLike,
    *,
    titles: Sequence[str] | None = None,
    names: tuple[str, str] = ("$Kx_j$", "$Qx_i$"),
    columns: int | None = None,
    size: Size | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Draw the clouds of keys (green) and queries (purple), joined by lines of width P_ij.

    This is figure 4 of the second paper: lines that gather on few keys show attention of low rank. One-dimensional
    clouds are drawn as two rows, clouds beyond the plane on their two principal directions.

    Parameters
    ----------
    keys, queries
        K x and Q x, (n, k), or (m, n, k) for m panels.
    attention
        P, (n, n) or (m, n, n): row i belongs to query i.
    titles
        One per panel, for example times.
    names
        What keys and queries are called in the legend.
    columns
        Panels in a row.
    size
        Of a new figure: "column", "page" or "slide", a width, or width and height in inches.
    ax
        Existing axes, one per panel.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(5, 2))
    >>> fig = attention_clouds(x, x + 1, np.full((5, 5), 0.2))
    >>> len(fig.axes[0].collections)  # the lines, the keys, the queries
    3
    """
    P, y, q = (np.asarray(a, dtype=float) for a in (attention, keys, queries))
    P, y, q = (a[None] if a.ndim == 2 else a for a in (P, y, q))
    if not (len(P) == len(y) == len(q) and y.shape == q.shape and P.shape[1:] == (y.shape[1], y.shape[1])):
        raise InputError(
            f"Clouds need keys and queries (m, n, k) and attention (m, n, n), but shapes {y.shape}, {q.shape} and "
            f"{P.shape} were given."
        )
    figure, axes = panels(ax, len(P), 2.0, 1.0, 0.4 + 0.15 * (y.shape[-1] > 2), columns=columns, size=size)
    y, q = _flat(y, q)  # (m, n, 2)
    for k, panel in enumerate(axes):
        _clouds(panel, y[k], q[k], P[k], names)
        if np.shape(keys)[-1] == 1:
            panel.set(ylim=(-1.35, 1.35), yticks=[])
        panel.set_title(titles[k] if titles is not None else "")
        if np.shape(keys)[-1] > 2:
            panel.set(xlabel="principal axis 1", ylabel="principal axis 2" if k == 0 else "")
    handles, words = axes[0].get_legend_handles_labels()
    if ax is None:
        figure.legend(handles, words, loc="outside lower center", ncols=2, markerscale=1.3)
    else:
        axes[0].legend(loc="best")
    return figure


def _flat(keys: Floats, queries: Floats) -> tuple[Floats, Floats]:
    """Keys and queries (m, n, k) as points (m, n, 2), the same way in every panel."""
    if keys.shape[-1] == 1:
        up = np.ones(keys.shape[:2])
        return np.stack([keys[..., 0], up], axis=-1), np.stack([queries[..., 0], -up], axis=-1)
    if keys.shape[-1] == 2:
        return keys, queries
    seen = principal(np.concatenate([keys, queries]))
    return seen.see(keys), seen.see(queries)


def _clouds(panel: Axes, keys: Floats, queries: Floats, P: Floats, names: tuple[str, str]) -> None:
    i, j = np.nonzero(P > 0.004)  # thinner lines than this cannot be seen
    order = np.argsort(P[i, j])
    i, j = i[order], j[order]
    lines = LineCollection(
        list(np.stack([queries[i], keys[j]], axis=1)),  # (lines, 2, 2)
        linewidths=2.6 * P[i, j],
        colors="#3C4450",
        alpha=0.55,
        zorder=2,
        rasterized=len(i) > 20_000,
    )
    panel.add_collection(lines, autolim=False)
    # queries a little larger and below, so that one on its own key shows as a purple rim
    for points, colour, name, area, zorder in ((keys, KEYS, names[0], 11, 4), (queries, QUERIES, names[1], 22, 3)):
        panel.scatter(
            points[:, 0],
            points[:, 1],
            s=area,
            color=colour,
            edgecolors="white",
            linewidths=0.35,
            zorder=zorder,
            label=name,
        )
    centre, half = limits(np.concatenate([keys, queries]))
    panel.set(xlim=(centre[0] - half[0], centre[0] + half[0]), ylim=(centre[1] - half[1], centre[1] + half[1]))
    panel.set_box_aspect(1)
    panel.locator_params(nbins=4)
    panel.axhline(0, color=FAINT, lw=0.6, zorder=0)
    panel.axvline(0, color=FAINT, lw=0.6, zorder=0)
    for side in ("top", "right"):
        panel.spines[side].set_visible(True)
