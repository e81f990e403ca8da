"""A small table as a picture: numbers that belong beside each other, where a line of text would hide them.

A page shows such a figure as a table of its own; `cells_of` gives it the texts.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.table import Table

from metastable.errors import InputError
from metastable.plots.style import FAINT, INK, PAGE, SOFT, Size, one_axes, paper

_ROW = 0.24  # inches


@paper()
def table(
    columns: Sequence[str],
    rows: Sequence[str],
    cells: Sequence[Sequence[str]],
    *,
    size: Size | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a table.

    Parameters
    ----------
    columns, rows
        Names; a column's may have two lines.
    cells
        One sequence of texts for each row, as long as ``columns``.
    size
        Of a new figure: "column", "page" or "slide", a width, or width and height in inches.
    ax
        Existing axes.

    Examples
    --------
    >>> fig = table(["a", "b"], ["first", "second"], [["1", "2"], ["3", "4"]])
    >>> len(fig.axes[0].texts)
    8
    """
    if len(cells) != len(rows) or any(len(row) != len(columns) for row in cells):
        raise InputError(f"A table of {len(rows)} rows and {len(columns)} columns needs as many cells.")
    own, ax = ax is None, one_axes(ax, PAGE, _ROW * (len(rows) + 2.2), size)[1]
    figure = ax.get_figure(root=True)
    assert figure is not None
    ax.set(xlim=(0.0, 1.0), ylim=(len(rows) - 0.5, -1.9))
    ax.axis("off")
    first = min(0.4, 0.012 * max(map(len, rows), default=0) + 0.02)
    places = [first + (1.0 - first) * (k + 1) / len(columns) for k in range(len(columns))]
    for name, x in zip(columns, places):
        ax.text(x, -0.62, name, ha="right", va="bottom", color=SOFT, fontsize=7.0)
    ax.plot([0.0, 1.0], [-0.5, -0.5], color=INK, lw=0.6)
    for y, (name, row) in enumerate(zip(rows, cells)):
        ax.text(0.0, y, name, ha="left", va="center")
        for cell, x in zip(row, places):
            ax.text(x, y, cell, ha="right", va="center")
        ax.plot([0.0, 1.0], [y + 0.5, y + 0.5], color=FAINT, lw=0.5)
    if own:
        figure.cells = [["", *columns], *([name, *row] for name, row in zip(rows, cells))]  # type: ignore[attr-defined]
    return figure


def cells_of(figure: Figure) -> list[list[str]] | None:
    """The texts of a figure that is a table and nothing else, row by row, the names of the columns first.

    >>> cells_of(table(["a"], ["first"], [["1"]]))
    [['', 'a'], ['first', '1']]
    """
    cells: list[list[str]] | None = getattr(figure, "cells", None)
    if cells is None and len(figure.axes) == 1:
        drawn = [child for child in figure.axes[0].get_children() if isinstance(child, Table)]
        cells = _texts(drawn[0]) if len(drawn) == 1 else None
    return None if cells is None else [[" ".join(text.split()) for text in row] for row in cells]


def _texts(drawn: Table) -> list[list[str]]:
    """The texts of a table of matplotlib's."""
    found = {place: cell.get_text().get_text() for place, cell in drawn.get_celld().items()}
    rows, columns = ({place[axis] for place in found} for axis in (0, 1))
    return [[found.get((row, column), "") for column in sorted(columns)] for row in sorted(rows)]
