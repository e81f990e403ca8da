"""One observable of several runs or ensembles in one picture: a line for a run, a middle and a band for an ensemble."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from metastable.errors import InputError, unknown
from metastable.observables import OBSERVABLES
from metastable.plots.captions import common_caption
from metastable.plots.colours import cycle, tolerance_in_words
from metastable.plots.motion import read_motion
from metastable.plots.style import Size, captioned, footnote, one_axes, paper
from metastable.trajectory import Trajectory

Floats = NDArray[np.float64]

CENTRES: dict[str, Callable[..., Any]] = {"median": np.nanmedian, "mean": np.nanmean}
BANDS = ("std", "range", "none")


@paper()
def overlay(
    runs: Trajectory | Mapping[str, Trajectory] | Sequence[Trajectory],
    observable: Any = "clusters",
    *,
    centre: str = "median",
    band: float | str = 0.9,
    log: bool = False,
    log_time: bool = False,
    size: Size | None = None,
    ax: Axes | None = None,
    **options: Any,
) -> Figure:
    """Draw an observable of several runs or ensembles over time.

    Parameters
    ----------
    runs
        Runs by name, a list of them (named by what they differ in: beta, n, ...), or one.
    observable
        A name in `metastable.observables.OBSERVABLES`, or a function of the run; ``options`` are its own.
    centre
        The line of an ensemble: "median" or "mean" over its runs (and over tokens or heads, where the observable has
        a value for each).
    band
        The shade around it: the share of runs it holds (0.9: from the 5th to the 95th percentile), "std", "range" or
        "none".
    log, log_time
        A logarithmic vertical axis; a logarithmic axis of time. As in `plot`.
    size
        Of a new figure: "column", "page" or "slide", a width, or width and height in inches.
    ax
        Existing axes.

    Examples
    --------
    >>> import metastable as ms
    >>> x0 = ms.initial.sphere(n=8, d=3, runs=5)
    >>> runs = [ms.simulate(ms.Dynamics(beta=beta), x0, t=2.0, save=5) for beta in (1.0, 9.0)]
    >>> fig = overlay(runs, "order", centre="mean", band="std", size="column")
    >>> [text.get_text() for text in fig.axes[0].get_legend().get_texts()]
    ['beta = 1', 'beta = 9']
    """
    if centre not in CENTRES:
        raise unknown("centre", centre, CENTRES)
    given = _named(runs)
    _check_options(observable, options)
    figure, panel = one_axes(ax, size=size)
    shown, said, over = 0, "", ""
    for (name, run), colour in zip(given.items(), cycle(len(given))):
        data = run.observe(observable, **options)
        values = np.asarray(data.values, dtype=float).reshape(len(run.t), -1)  # (T, lines)
        low, middle, high = bounds(values, centre, band)
        whole = np.asarray(data.values).dtype.kind in "iub" and values.shape[1] == 1
        panel.plot(run.t, middle, color=colour, label=name, drawstyle="steps-post" if whole else "default")
        if values.shape[1] > 1 and band != "none":
            panel.fill_between(run.t, low, high, color=colour, alpha=0.18, lw=0)
        said = str(data.name or "observable").replace("_", " ")
        if values.shape[1] > shown:
            shown, over = values.shape[1], over_in_words(int(np.prod(run.runs)), values.shape[1], str(data.dims[-1]))
        if data.name == "clusters" and "tolerance" not in options:
            said += f" at {tolerance_in_words(read_motion(run))}"
    layers = all(read_motion(run).clock == "layer" for run in given.values())
    panel.set(xlabel="layer" if layers else "time $t$", ylabel=said)
    if log_time:
        panel.set_xscale("log", nonpositive="mask")
    if log:
        panel.set_yscale("log", nonpositive="mask")
    panel.grid(True, axis="y")
    if len(given) > 1:
        panel.legend(loc="best")
    legend = f"{centre}{band_in_words(band)} over {over}" if shown > 1 else ""
    footnote(figure, legend, ax)
    names = f" for {', '.join(given)}" if len(given) > 1 else ""
    what = f"{said[:1].upper()}{said[1:]} over time{names}"
    return captioned(figure, common_caption(what, list(given.values()), legend))


def bounds(values: Floats, centre: str, band: float | str) -> tuple[Floats, Floats, Floats]:
    """Lower end, middle and upper end (T,) of values (T, lines).

    >>> [part.tolist() for part in bounds(np.array([[0.0, 1.0, 5.0]]), "mean", "range")]
    [[0.0], [2.0], [5.0]]
    """
    middle = np.asarray(CENTRES[centre](values, axis=1))
    if isinstance(band, str) and band not in BANDS:
        try:
            band = float(band)
        except ValueError:
            raise unknown("band", str(band), BANDS) from None
    if isinstance(band, str):
        if band == "range":
            return np.asarray(np.nanmin(values, axis=1)), middle, np.asarray(np.nanmax(values, axis=1))
        spread = np.asarray(np.nanstd(values, axis=1))
        return middle - spread, middle, middle + spread
    if not 0.0 < float(band) <= 1.0:
        raise InputError(f"A band holds a share of the runs above 0 and at most 1, not {band!r}.")
    low, high = np.nanquantile(values, [(1 - band) / 2, (1 + band) / 2], axis=1)
    return low, middle, high


def band_in_words(band: float | str) -> str:
    """What a band shows.

    >>> band_in_words(0.9), band_in_words("std"), band_in_words("none")
    (' and middle 90%', ' and standard deviation', '')
    """
    named = {"std": " and standard deviation", "range": " and whole range", "none": ""}
    return named[band] if isinstance(band, str) and band in named else f" and middle {float(band):.0%}"


def over_in_words(runs: int, values: int, own: str) -> str:
    """What a middle and a band are taken over: runs, tokens (or heads, ...), or both.

    >>> over_in_words(20, 20, "run"), over_in_words(1, 64, "token"), over_in_words(5, 40, "token")
    ('20 runs', 'all tokens', '5 runs and all tokens')
    """
    return " and ".join([f"{runs} runs"] * (runs > 1) + [f"all {own}s"] * (values > runs))


def _check_options(observable: Any, options: Mapping[str, Any]) -> None:
    """An option that neither this picture nor a named observable has is refused with the names of both."""
    entry = OBSERVABLES.get(observable) if isinstance(observable, str) else None
    known = ("centre", "band", "log", "log_time", "size", "ax", *(() if entry is None else entry.options))
    for name in () if entry is None else options:
        if name not in known:
            raise unknown("option", name, known)


def _named(runs: Trajectory | Mapping[str, Trajectory] | Sequence[Trajectory]) -> dict[str, Trajectory]:
    if isinstance(runs, Trajectory):
        return {"": runs}
    if isinstance(runs, Mapping):
        found = {str(name): run for name, run in runs.items()}
    else:
        found = dict(zip(_names(list(runs)), runs))
    if not found or not all(isinstance(run, Trajectory) for run in found.values()):
        raise InputError("Runs to overlay are one Trajectory, a list of them, or a dict from names to them.")
    return found


def _names(runs: list[Trajectory]) -> list[str]:
    """What tells runs apart: the first of beta, n, d, mask, geometry that all have and differ in, or their numbers."""
    kinds: dict[str, Callable[[Trajectory], str]] = {
        "beta = ": lambda run: f"{float(run.moved_by('beta').beta):g}",
        "n = ": lambda run: str(run.x.shape[-2]),
        "d = ": lambda run: str(run.x.shape[-1]),
        "mask ": lambda run: str(run.moved_by("mask").mask.name),
        "": lambda run: str(run.moved_by("geometry").geometry.name),
    }
    for words, read in kinds.items():
        try:
            said = [f"{words}{read(run)}" for run in runs]
        except (InputError, TypeError, AttributeError):
            continue
        if len(set(said)) == len(runs) > 1:
            return said
    return [f"run {k}" for k in range(len(runs))]
