"""Named pictures of a run, for `Trajectory.plot` and the command line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from metastable.errors import InputError, door, unknown
from metastable.plots import trajectory_plots
from metastable.plots.colours import Color
from metastable.plots.style import Size
from metastable.plots.trajectory_plots import Choices
from metastable.trajectory import Trajectory


@dataclass(frozen=True)
class Plot:
    """A named picture of a run: what it shows, how it is drawn, which options of `plot` it listens to."""

    shows: str
    draw: Callable[[Trajectory, Choices], Figure] = field(repr=False)
    options: tuple[str, ...]


@door
def plot(
    trajectory: Trajectory,
    kind: str = "snapshots",
    *,
    times: int | ArrayLike | None = None,
    spacing: str | None = None,
    color: Color = None,
    first: str | None = None,
    view: tuple[float, float] | None = None,
    run: int | None = None,
    head: int | None = None,
    observable: str | Callable[[Trajectory], Any] | None = None,
    log: bool | None = None,
    log_time: bool | None = None,
    centre: str | None = None,
    band: float | str | None = None,
    size: Size | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Draw a named picture of a run.

    Parameters
    ----------
    trajectory
        A `Trajectory`.
    kind
        A name in `PLOTS`.
    times
        Times to show: a count of saved ones, or the times themselves, which are met exactly.
    spacing
        "linear" or "exponential" spacing of a count of times.
    color
        "cluster" (identities kept through merges), "final", "token", a colour, labels (n,) or identities (T, n). None:
        one colour for each cluster at the end, paler while a token is alone.
    first
        A colour for the first token, for example "red".
    view
        Azimuth and elevation in degrees when d = 3.
    run
        Which run of an ensemble; 0 when None, and the picture says so.
    head
        Which attention head, counted from 0.
    observable
        What a time series shows: a name in `metastable.observables.OBSERVABLES`, or a function of the run.
    log
        Logarithmic colours of attention, or vertical axis of a time series.
    log_time
        A logarithmic axis of time.
    centre, band
        The line of an ensemble, "median" or "mean", and its shade: a share of the runs, "std", "range" or "none".
    size
        "column" or "page" of a two-column paper, "slide", a width, or width and height in inches.
    ax
        Existing axes to draw in, as many as the picture has panels.

    Returns
    -------
    Figure
        Go on with it, or write it with `save_figure`; ``figure.caption`` says in a sentence what it shows.

    Examples
    --------
    >>> import metastable as ms
    >>> run = ms.simulate(ms.Dynamics(beta=9.0, mask="causal"), ms.initial.sphere(n=8, d=3, seed=0), t=1.0, save=3)
    >>> fig = plot(run, "snapshots", times=[0.0, 1.0], first="red")
    >>> len(fig.axes)
    2
    >>> fig.caption.partition(", rk4")[0]
    'Tokens at t = 0 and 1: n = 8, d = 3, beta = 9, causal mask, softmax, on the sphere, V = I, Q^T K = I'
    """
    if kind not in PLOTS:
        raise unknown("kind of picture", kind, PLOTS)
    if view is not None and np.shape(view) != (2,):
        raise InputError(f"view must be two numbers, azimuth and elevation in degrees, not {view!r}.")
    choices = Choices(times, spacing, color, first, view, run, head, observable, log, log_time, centre, band, size, ax)
    picture = PLOTS[kind]
    for name in choices.given:
        if name not in picture.options:
            raise InputError(f"The picture '{kind}' has no option '{name}'; it takes {', '.join(picture.options)}.")
    return picture.draw(trajectory, choices)


_ROOM = ("size", "ax")
_TIMES = ("times", "spacing")
_TOKENS = ("color", "first", "view", "run", *_ROOM)

PLOTS: dict[str, Plot] = {
    "snapshots": Plot("tokens at a few times", trajectory_plots.draw_snapshots, _TIMES + _TOKENS),
    "trajectories": Plot("every token's path", trajectory_plots.draw_trajectories, _TOKENS),
    "polytope": Plot(
        "tokens and the convex hull they end in, d = 2 or 3", trajectory_plots.draw_polytope, _TIMES + _TOKENS
    ),
    "attention": Plot(
        "attention matrices over times or heads",
        trajectory_plots.draw_attention,
        (*_TIMES, "run", "head", "log", *_ROOM),
    ),
    "clouds": Plot(
        "keys and queries joined by attention", trajectory_plots.draw_clouds, (*_TIMES, "run", "head", *_ROOM)
    ),
    "series": Plot(
        "an observable over time",
        trajectory_plots.draw_series,
        ("observable", "run", "log", "log_time", "centre", "band", *_ROOM),
    ),
    "similarity": Plot(
        "histograms of pairwise similarity over time", trajectory_plots.draw_similarity, (*_TIMES, "run", *_ROOM)
    ),
    "hyperplanes": Plot(
        "coordinates along V's eigenvectors over time",
        trajectory_plots.draw_hyperplanes,
        ("run", "head", "log_time", *_ROOM),
    ),
    "eigenvalues": Plot("eigenvalues of V in the complex plane", trajectory_plots.draw_eigenvalues, ("head", *_ROOM)),
}
