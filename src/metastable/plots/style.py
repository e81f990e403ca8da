"""One paper-quality look for every picture, and the rooms pictures are drawn in.

The look is a context manager, `paper`; outside it matplotlib's settings are as the user left them. `slides` is a second
look, for a projector: pictures drawn inside it have larger words and thicker lines. Both are style sheets too, for
figures of one's own: ``plt.style.use("metastable.plots.slides")``. Figures are made without pyplot, on the Agg canvas,
so pictures may be drawn from threads and servers: a lock keeps two of our own pictures from changing settings under
each other (matplotlib's text layout is not thread-safe either).
"""

import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import Any, TypeAlias

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from metastable.errors import InputError, unknown

# Colours that stay apart under deuteranopia, protanopia and in print (after Okabe-Ito and Tol). Red is left out:
# it is kept for the first token, so that it never means a cluster.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#AA4499", "#56B4E9", "#8C5A2B", "#332288", "#A3A500")
RED = "#D7261E"  # the first token
INK = "#222222"  # text, axes
SOFT = "#8A8A8A"  # secondary text, lone tokens
FAINT = "#DADADA"  # grids, meridians
PAPER = "#FFFFFF"

KEYS = "#1B8A4B"  # clouds of the second paper's figure 4: Kx green,
QUERIES = "#7B3294"  # Qx purple

HEAT = LinearSegmentedColormap.from_list(
    "metastable", ["#FFFFFF", "#DCE9F5", "#A9CCE6", "#5BA0CF", "#1F6FB2", "#0B3F80", "#061F47"]
)
DIVERGING = LinearSegmentedColormap.from_list(
    "metastable-diverging", ["#7A3B00", "#D98A2B", "#F6DDB5", "#FFFFFF", "#BBD7EC", "#2F7FBF", "#0B3F80"]
)

COLUMN = 3.4  # inches: one column of a two-column paper
PAGE = 7.0  # inches: the full width of the text
SIZES: dict[str, float | tuple[float, float]] = {"column": COLUMN, "page": PAGE, "slide": (10.0, 5.625)}
Size: TypeAlias = str | float | tuple[float, float]  # a name in SIZES, a width, or width and height, in inches
_NARROW = 1.3  # inches: panels narrower than this go into another row
RASTER_ABOVE = 2000  # more marks than this become an image inside vector files

LOOK: dict[str, Any] = {
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "savefig.dpi": 300,
    "figure.dpi": 150,
    "figure.constrained_layout.w_pad": 0.05,
    "figure.constrained_layout.h_pad": 0.05,
    # A concrete family, because generic names are looked up again at draw time, outside this context.
    "font.family": ["DejaVu Sans"],
    "mathtext.fontset": "dejavusans",
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.titlepad": 5.0,
    "axes.labelsize": 8.0,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.use_mathtext": True,
    "axes.formatter.limits": (-3, 4),
    "axes.unicode_minus": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "lines.linewidth": 1.3,
    "lines.solid_capstyle": "round",
    "image.interpolation": "nearest",
    "hatch.linewidth": 0.4,
    # what the files are made of
    "pdf.fonttype": 42,  # TrueType, embedded: editable and searchable
    "svg.fonttype": "path",  # letters as shapes: the same in every browser, whatever fonts it has
    "svg.hashsalt": "metastable",  # the same picture gives the same bytes
}

DRAWING = threading.RLock()  # held while one of our pictures is laid out or drawn
_depth = 0  # these two are only touched by the thread that holds the lock
_slides = False


@contextmanager
def paper() -> Iterator[None]:
    """The look of the package, inside a ``with`` block or as a decorator; the user's settings come back after it.

    Examples
    --------
    >>> import matplotlib
    >>> before = matplotlib.rcParams["font.size"]
    >>> with paper():
    ...     print(matplotlib.rcParams["font.size"])
    8.0
    >>> matplotlib.rcParams["font.size"] == before
    True
    """
    global _depth
    with DRAWING:
        _depth += 1
        try:
            if _depth > 1:  # already inside: entering again would only cost time
                yield
            else:
                with matplotlib.rc_context(LOOK), matplotlib.rc_context(_sheet("slides") if _slides else None):
                    yield
        finally:
            _depth -= 1


@contextmanager
def slides() -> Iterator[None]:
    """Pictures drawn inside are for a projector: large words, thick lines, as wide as a slide unless a size is given.

    Examples
    --------
    >>> from metastable.plots import series
    >>> with slides():
    ...     fig = series([0.0, 1.0], [1.0, 2.0])
    >>> float(fig.get_figwidth())
    10.0
    """
    global _slides
    with DRAWING:
        before, _slides = _slides, True
        try:
            yield
        finally:
            _slides = before


def _sheet(name: str) -> dict[str, Any]:
    """A style sheet of this folder."""
    path = Path(__file__).with_name(f"{name}.mplstyle")
    return dict(matplotlib.rc_params_from_file(path, use_default_template=False))


def magnified() -> float:
    """How much larger dots and small words are than on paper."""
    return 1.9 if _slides else 1.0


class Picture(Figure):
    """A matplotlib figure to go on with: it shows itself in a notebook and has a caption.

    Attributes
    ----------
    caption : str
        What is drawn, of which run, in a sentence.
    """

    caption: str = ""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        with paper():
            self.savefig(file, format="png", dpi=150.0)
        return file.getvalue()


def new_figure(width: float, height: float) -> Picture:
    """An empty figure of that many inches, on the Agg canvas and unknown to pyplot."""
    figure = Picture(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def inches(size: Size | None) -> tuple[float | None, float | None]:
    """The width and the height that a size asks for; None where it leaves them open.

    >>> inches("column"), inches(5), inches((4.0, 3.0)), inches("4,3"), inches(None)
    ((3.4, None), (5.0, None), (4.0, 3.0), (4.0, 3.0), (None, None))
    """
    if size is None:
        size = SIZES["slide"] if _slides else None
    if isinstance(size, str) and size not in SIZES:
        try:
            size = tuple(float(side) for side in size.split(","))  # type: ignore[assignment]
        except ValueError:
            raise unknown("size", str(size), SIZES) from None
    if isinstance(size, str):
        size = SIZES[size]
    if size is None:
        return None, None
    sides = [float(side) for side in np.atleast_1d(np.asarray(size, dtype=float))]
    if len(sides) not in (1, 2) or not all(0.5 <= side <= 100.0 for side in sides):
        raise InputError(f"A size is {', '.join(SIZES)}, a width or (width, height) in inches, not {size!r}.")
    return sides[0], (sides[1] if len(sides) == 2 else None)


def panels(
    ax: Axes | Sequence[Axes] | None,
    count: int,
    width: float,
    ratio: float = 1.0,
    extra: float = 0.0,
    columns: int | None = None,
    size: Size | None = None,
    projection: str | None = None,
) -> tuple[Figure, list[Axes]]:
    """The axes to draw in: the given ones, or a new grid of panels.

    Parameters
    ----------
    ax
        None for a new figure, or as many existing axes as there are panels.
    count
        How many panels the picture has.
    width
        Width of a panel in inches; rows wider than a page shrink to it.
    ratio, extra
        The height is ratio * width + extra inches: titles and labels do not shrink with the panels.
    columns
        Panels in a row; as many as look right when None.
    size
        Of a new figure: "column", "page" or "slide", a width, or width and height in inches.
    projection
        Matplotlib's name of the projection that panels must have; plain axes when None.
    """
    if ax is not None and size is not None:
        raise InputError("Axes have a size already; leave out `size` where `ax` is given.")
    if ax is not None:
        given = [ax] if isinstance(ax, Axes) else list(np.ravel(np.asarray(ax, dtype=object)))
        if len(given) != count:
            raise InputError(f"The picture has {count} panels but {len(given)} axes were given; give one for each.")
        if projection is not None and any(panel.name != projection for panel in given):
            raise InputError(f"The picture needs axes made with projection={projection!r}.")
        return given[0].get_figure(root=True), given  # type: ignore[return-value]
    wide, high = inches(size)
    columns = min(count, columns or best_columns(count, wide))
    rows = -(-count // columns)
    width = min(width, PAGE / columns) if wide is None else wide / columns
    figure = new_figure(width * columns, (ratio * width + extra) * rows if high is None else high)
    return figure, [figure.add_subplot(rows, columns, k + 1, projection=projection) for k in range(count)]


def best_columns(count: int, width: float | None = None) -> int:
    """Panels in a row: up to five side by side, then rows that come out as even as possible.

    A ``width`` in inches allows as many as can still be read.

    >>> best_columns(4), best_columns(4, COLUMN), best_columns(6), best_columns(5, COLUMN)
    (4, 2, 3, 2)
    """
    most = 5 if width is None else max(1, int(width / _NARROW + 1e-9))
    if count <= min(most, 5):
        return count
    least = min(3, most) if width is None else min(most, max(2, most // 2))  # a gap rather than one long column
    return min(range(least, min(most, 5) + 1), key=lambda columns: (-count % columns, -columns))


def one_axes(
    ax: Axes | None, width: float = COLUMN, height: float = 2.5, size: Size | None = None
) -> tuple[Figure, Axes]:
    """The given axes and its figure, or those of a new one-panel figure."""
    figure, axes = panels(ax, 1, width, height / width, size=size)
    return figure, axes[0]


def footnote(figure: Figure, text: str, ax: object = None) -> None:
    """A small grey remark under the picture, for what the reader must know (which run, which projection).

    Nothing is written under a figure of the user's own, whose ``ax`` was given.
    """
    if text and ax is None:
        letters = int(figure.get_figwidth() * 72 / (3.5 * magnified()))
        text = "\n".join(wrap(text, letters) if letters < len(text) and "\n" not in text else [text])
        figure.supxlabel(text, fontsize=6.5 * magnified(), color=SOFT, x=0.995, ha="right")


def captioned(figure: Figure, text: str) -> Figure:
    """The figure with a caption for the page it will stand on: what is drawn, n, d, beta, V, seeds."""
    figure.caption = text  # type: ignore[attr-defined]
    return figure
