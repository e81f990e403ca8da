"""How each named picture is drawn from a run: what to read out of it, then one call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from metastable.errors import InputError, unknown
from metastable.observables import similarity_histogram
from metastable.plots.attention_maps import attention_maps
from metastable.plots.captions import caption, times_in_words
from metastable.plots.clouds import attention_clouds
from metastable.plots.colours import Color, tolerance_in_words
from metastable.plots.eigenvalues import eigenvalues
from metastable.plots.histograms import histograms
from metastable.plots.motion import Motion, read_motion
from metastable.plots.overlay import CENTRES, band_in_words, bounds, over_in_words
from metastable.plots.polytopes import polytope
from metastable.plots.series import projections, series
from metastable.plots.shown_times import pick
from metastable.plots.snapshots import snapshots
from metastable.plots.style import Size, captioned, footnote
from metastable.plots.trajectories import trajectories
from metastable.trajectory import Trajectory


@dataclass(frozen=True)
class Choices:
    """The options of `plot`; None means the picture's own default."""

    times: int | ArrayLike | None = None
    spacing: str | None = None
    color: Color = None
    first: str | None = None
    view: tuple[float, float] | None = None
    run: int | None = None
    head: int | None = None
    observable: str | Callable[[Trajectory], Any] | None = None
    log: bool | None = None
    log_time: bool | None = None
    centre: str | None = None
    band: float | str | None = None
    size: Size | None = None
    ax: Axes | Sequence[Axes] | None = None

    @property
    def given(self) -> list[str]:
        """Names of the options that were set."""
        return [name for name, value in vars(self).items() if value is not None]

    @property
    def tokens(self) -> dict[str, Any]:
        """What pictures of tokens listen to."""
        shared = {name: getattr(self, name) for name in ("color", "first", "view", "size", "ax")}
        return {**shared, "run": self.run or 0}

    @property
    def room(self) -> dict[str, Any]:
        """Where a picture is drawn."""
        return {"size": self.size, "ax": self.ax}


def draw_snapshots(run: Trajectory, o: Choices) -> Figure:
    return snapshots(run, times=o.times, spacing=o.spacing or "linear", **o.tokens)


def draw_trajectories(run: Trajectory, o: Choices) -> Figure:
    return trajectories(run, **o.tokens)


def draw_polytope(run: Trajectory, o: Choices) -> Figure:
    return polytope(run, times=o.times, spacing=o.spacing or "linear", **o.tokens)


def _met(run: Trajectory, o: Choices, default: int = 4) -> tuple[Trajectory, Motion]:
    """A run at the times to show and nothing else, so that its attention can be read there."""
    motion, chosen = pick(read_motion(run, run=o.run or 0), o.times, o.spacing or "linear", default, run, o.run or 0)
    times = motion.t[chosen]
    saved = np.isin(times, run.t)
    if saved.all():
        kept = np.searchsorted(run.t, times)
        charts = None if run.chart is None else (run.chart[0][kept], run.chart[1][kept])
        held = None if run.kept_attention is None else run.kept_attention[kept]
        shown = replace(run, t=run.t[kept], x=run.x[kept], chart=charts, kept_attention=held)
    else:
        shown = run.at(times)
    return shown, replace(motion, t=times, x=motion.x[chosen], indices=np.arange(len(times)))


def _attention_at(run: Trajectory, index: int, which: int) -> NDArray[np.float64]:
    """Attention (h, n, n) of one run of an ensemble at a saved time."""
    P = np.asarray(run.attention(index), dtype=float)
    return np.asarray(P.reshape(-1, *P.shape[-3:])[which])


def _one_head(P: NDArray[np.float64], head: int) -> NDArray[np.float64]:
    if not -len(P) <= head < len(P):
        raise InputError(f"Head {head} was requested, but there are heads 0 to {len(P) - 1}.")
    return np.asarray(P[head])


def draw_attention(run: Trajectory, o: Choices) -> Figure:
    """Over times for one head; over heads when there is a single time and no head was chosen."""
    shown, motion = _met(run, o)
    labels = [motion.label(float(time)) for time in motion.t]
    all_heads = [_attention_at(shown, k, o.run or 0) for k in range(len(labels))]  # (h, n, n) each
    heads = len(all_heads[0])
    if o.head is None and heads > 1 and len(labels) == 1:
        matrices, titles, note = all_heads[0], [f"head {k}" for k in range(heads)], labels[0]
    else:
        matrices, titles = np.stack([_one_head(P, o.head or 0) for P in all_heads]), labels
        note = f"head {o.head or 0} of 0 to {heads - 1}" if heads > 1 else ""
    figure = attention_maps(matrices, titles=titles, log=bool(o.log), **o.room)
    footnote(figure, ", ".join(filter(None, [note, motion.note])), o.ax)
    what = f"Attention at {times_in_words(motion, np.arange(len(labels)))}"
    return captioned(figure, caption(what, run, motion, note))


def draw_clouds(run: Trajectory, o: Choices) -> Figure:
    shown, motion = _met(run, o)
    head, weights = o.head or 0, run.moved_by("picture of keys and queries").weights
    P = np.stack([_one_head(_attention_at(shown, k, o.run or 0), head) for k in range(len(motion.t))])
    keys, queries = [], []
    for time, x in zip(motion.t, motion.x):
        now = weights.at(float(time))
        K, Q = (None if W is None else np.asarray(W)[min(head, len(W) - 1)] for W in (now.K, now.Q))  # (k, d)
        keys.append(x if K is None else x @ K.T)
        queries.append(x if Q is None else x @ Q.T)
    letter = motion.letter
    figure = attention_clouds(
        np.stack(keys),
        np.stack(queries),
        P,
        titles=[motion.label(float(time)) for time in motion.t],
        names=(f"$K{letter}_j$", f"$Q{letter}_i$"),
        **o.room,
    )
    footnote(figure, motion.note, o.ax)
    what = f"Keys (green) and queries (purple) at {times_in_words(motion, np.arange(len(motion.t)))}"
    return captioned(figure, caption(what, run, motion, "lines are as wide as the attention between them"))


def draw_series(run: Trajectory, o: Choices) -> Figure:
    """An observable over time: lines, or a middle and a band when there are many (an ensemble, all tokens)."""
    if o.observable is not None and not (isinstance(o.observable, str) or callable(o.observable)):
        raise InputError(
            "A series shows one observable, a name or a function of the run; draw several one by one, each with ax=."
        )
    motion = read_motion(run, run=o.run or 0)
    data = run.observe(o.observable or "clusters")
    values = np.asarray(data.values)[motion.indices]  # (T, ensemble..., own...)
    ensemble = values.ndim - 1 - sum(not str(dim).startswith("run") for dim in data.dims[1:])
    values = values.reshape(len(values), -1, *values.shape[1 + ensemble :])  # (T, runs, own...)
    runs = values.shape[1] if o.run is None else 1
    chosen = values if o.run is None else values[:, [o.run]]
    flat = chosen.reshape(len(values), -1)  # (T, lines)
    name, own = str(data.name or "observable"), str(data.dims[-1])
    label = name.replace("_", " ")
    count = name == "clusters"
    if count:
        label += f" at {tolerance_in_words(motion)}"
    look: dict[str, Any] = {"ylabel": label, "yscale": "log" if o.log else "linear", **o.room}
    look |= {"xlabel": "layer" if motion.clock == "layer" else "time $t$", "xscale": "log" if o.log_time else "linear"}
    note = ""
    if flat.shape[1] == 1:
        marked = _plateaus(flat[:, 0], motion, bool(o.log_time)) if count else []
        note = "broad lines: plateaus" if marked else ""
        figure = series(motion.t, flat[:, 0], plateaus=marked, **look)
    elif runs == 1 and flat.shape[1] <= 8:
        figure = series(motion.t, {f"{own} {k}": flat[:, k] for k in range(flat.shape[1])}, **look)
    else:
        centre, band = o.centre or "median", 0.9 if o.band is None else o.band
        if centre not in CENTRES:
            raise unknown("centre", centre, CENTRES)
        low, middle, high = bounds(np.asarray(flat, dtype=float), centre, band)
        figure = series(motion.t, {centre: middle}, band=None if band == "none" else {centre: (low, high)}, **look)
        note = f"{centre}{band_in_words(band)} over {over_in_words(runs, flat.shape[1], own)}"
    footnote(figure, note, o.ax)
    whole = runs > 1  # the remark that names one run of an ensemble would be wrong
    shown = replace(motion, note="") if whole else motion
    return captioned(figure, caption(f"{label[:1].upper()}{label[1:]} over time", run, shown, note))


def _plateaus(counts: NDArray[Any], motion: Motion, log_time: bool) -> list[tuple[float, float, float]]:
    """Stretches of one count, well below that of the tokens, that last a tenth of the picture's width or more."""
    t = motion.t[motion.t > 0] if log_time else motion.t
    if len(t) < 2:
        return []
    place = np.log if log_time else np.asarray
    least = 0.1 * float(place(t[-1]) - place(t[0]))
    edges = np.flatnonzero(np.diff(counts)) + 1
    found = []
    for first, last in zip([0, *edges], [*edges, len(counts)]):
        start, end = float(motion.t[first]), float(motion.t[min(last, len(counts) - 1)])
        from_ = max(start, float(t[0]))
        if end > from_ and float(place(end) - place(from_)) >= least and counts[first] <= 0.8 * motion.n:
            found.append((start, end, float(counts[first])))
    return found


def draw_similarity(run: Trajectory, o: Choices) -> Figure:
    motion, chosen = pick(read_motion(run, run=o.run or 0), o.times, o.spacing or "linear", 6, run, o.run or 0)
    counts, edges = similarity_histogram(motion.x[chosen], bins=80)
    labels = [motion.label(float(motion.t[k])) for k in chosen]
    figure = histograms(counts, edges, labels=labels, **o.room)
    footnote(figure, motion.note, o.ax)
    what = f"Cosines of all pairs of tokens at {times_in_words(motion, chosen)}"
    return captioned(figure, caption(what, run, motion))


def draw_hyperplanes(run: Trajectory, o: Choices) -> Figure:
    """Coordinates along the left eigenvectors of V whose eigenvalues have positive real part, at most six."""
    motion = read_motion(run, run=o.run or 0)
    data = run.observe("hyperplanes", head=o.head or 0)
    values = np.asarray(data.values)
    values = values.reshape(len(values), -1, *values.shape[-2:])[motion.indices, o.run or 0]  # (T, n, d)
    spectrum = np.asarray(data.coords["eigenvalue"].values)
    kept = np.flatnonzero(spectrum.real > 0)[:6]
    kept = kept if len(kept) else np.arange(min(1, len(spectrum)))
    names = [rf"$\lambda$ = {value.real:.3g}" for value in spectrum[kept]]
    word = rf"$\varphi_j^*({motion.letter}_i)$"
    look: dict[str, Any] = {"ylabel": word, "xscale": "log" if o.log_time else "linear", **o.room}
    figure = projections(motion.t, values[..., kept], groups=_gathered(values[-1][:, kept]), names=names, **look)
    note = "mean and standard deviation of each group of tokens"
    footnote(figure, ", ".join(filter(None, [note, motion.note])), o.ax)
    return captioned(figure, caption("Coordinates along V's left eigenvectors over time", run, motion, note))


def _gathered(values: NDArray[np.float64]) -> NDArray[np.int_]:
    """Which of at most three values each token's coordinates (n, k) have gathered at, (n, k); else all one group."""
    groups = np.zeros(values.shape, dtype=int)
    for k, column in enumerate(values.T):
        order = np.argsort(column)
        cuts = np.flatnonzero(np.diff(column[order]) > 0.05 * (np.ptp(column) or 1.0))
        if len(cuts) <= 2:  # Theorem 4.1: at most three hyperplanes
            groups[order, k] = np.searchsorted(cuts, np.arange(len(column)), side="left")
    return groups


def draw_eigenvalues(run: Trajectory, o: Choices) -> Figure:
    motion = read_motion(run, run=o.run or 0)
    V = np.asarray(run.moved_by("value matrix V").weights.value_map(float(motion.t[0]), motion.d))  # (h, d, d)
    V = V if o.head is None else _one_head(V, o.head)[None]
    titles = [f"head {k}" for k in range(len(V))] if len(V) > 1 else None
    figure = eigenvalues(np.linalg.eigvals(V), titles=titles, **o.room)
    marked = "the largest in modulus is ringed, and filled where it is real and positive"
    return captioned(figure, caption("Eigenvalues of V in the complex plane", run, replace(motion, note=""), marked))
