"""How each named picture is drawn from a run: what to read out of it, then one call."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from metastable.errors import InputError
from metastable.observables import similarity_histogram
from metastable.plots.attention_maps import attention_maps
from metastable.plots.clouds import attention_clouds
from metastable.plots.colours import Color
from metastable.plots.eigenvalues import eigenvalues
from metastable.plots.histograms import histograms
from metastable.plots.motion import pick, read_motion
from metastable.plots.polytopes import polytope
from metastable.plots.series import projections, series
from metastable.plots.snapshots import snapshots
from metastable.plots.style import footnote
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

    @property
    def given(self) -> list[str]:
        """Names of the options that were set."""
        return [name for name, value in vars(self).items() if value is not None]


def draw_snapshots(run: Trajectory, o: Choices) -> Figure:
    return snapshots(
        run, times=o.times, spacing=o.spacing or "linear", color=o.color, first=o.first, view=o.view, run=o.run or 0
    )


def draw_trajectories(run: Trajectory, o: Choices) -> Figure:
    return trajectories(run, color=o.color, first=o.first, view=o.view, run=o.run or 0)


def draw_polytope(run: Trajectory, o: Choices) -> Figure:
    return polytope(
        run, times=o.times, spacing=o.spacing or "linear", color=o.color, first=o.first, view=o.view, run=o.run or 0
    )


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
    motion = read_motion(run, run=o.run or 0)
    chosen = pick(motion, o.times, o.spacing or "linear")
    all_heads = [_attention_at(run, int(motion.indices[k]), o.run or 0) for k in chosen]  # (h, n, n) each
    heads = len(all_heads[0])
    if o.head is None and heads > 1 and len(chosen) == 1:
        matrices, titles = all_heads[0], [f"head {k}" for k in range(heads)]
        note = motion.label(motion.t[chosen[0]])
    else:
        matrices = np.stack([_one_head(P, o.head or 0) for P in all_heads])
        titles = [motion.label(motion.t[k]) for k in chosen]
        note = f"head {o.head or 0} of 0 to {heads - 1}" if heads > 1 else ""
    figure = attention_maps(matrices, titles=titles, log=bool(o.log))
    footnote(figure, ", ".join(filter(None, [note, motion.note])))
    return figure


def draw_clouds(run: Trajectory, o: Choices) -> Figure:
    motion = read_motion(run, run=o.run or 0)
    chosen = pick(motion, o.times, o.spacing or "linear")
    head, weights = o.head or 0, run.moved_by("picture of keys and queries").weights
    P = np.stack([_one_head(_attention_at(run, int(motion.indices[k]), o.run or 0), head) for k in chosen])
    keys, queries = [], []
    for k in chosen:
        now = weights.at(float(motion.t[k]))
        K, Q = (None if W is None else np.asarray(W)[min(head, len(W) - 1)] for W in (now.K, now.Q))  # (k, d)
        keys.append(motion.x[k] if K is None else motion.x[k] @ K.T)
        queries.append(motion.x[k] if Q is None else motion.x[k] @ Q.T)
    letter = motion.letter
    figure = attention_clouds(
        np.stack(keys),
        np.stack(queries),
        P,
        titles=[motion.label(motion.t[k]) for k in chosen],
        names=(f"$K{letter}_j$", f"$Q{letter}_i$"),
    )
    footnote(figure, motion.note)
    return figure


def draw_series(run: Trajectory, o: Choices) -> Figure:
    """An observable over time: lines, or the median and a band when there are many (an ensemble, all tokens)."""
    name = o.observable or "clusters"
    motion = read_motion(run, run=o.run or 0)
    data = run.observe(name)
    values = np.asarray(data.values)[motion.indices]  # (T, ensemble..., own...)
    ensemble = values.ndim - 1 - sum(not str(dim).startswith("run") for dim in data.dims[1:])
    values = values.reshape(len(values), -1, *values.shape[1 + ensemble :])  # (T, runs, own...)
    runs = values.shape[1] if o.run is None else 1
    chosen = values if o.run is None else values[:, [o.run]]
    flat = chosen.reshape(len(values), -1)  # (T, lines)
    label, own = str(data.name or "observable").replace("_", " "), str(data.dims[-1])
    xlabel, yscale = "layer" if motion.clock == "layer" else "time $t$", "log" if o.log else "linear"
    if flat.shape[1] == 1:
        return series(motion.t, flat[:, 0], xlabel=xlabel, ylabel=label, yscale=yscale)
    if runs == 1 and flat.shape[1] <= 8:
        named = {f"{own} {k}": flat[:, k] for k in range(flat.shape[1])}
        return series(motion.t, named, xlabel=xlabel, ylabel=label, yscale=yscale)
    low, middle, high = np.nanquantile(flat, [0.05, 0.5, 0.95], axis=1)
    band = {"median": (low, high)}
    figure = series(motion.t, {"median": middle}, band=band, xlabel=xlabel, ylabel=label, yscale=yscale)
    over = [f"{runs} runs"] * (runs > 1) + [f"all {own}s"] * (flat.shape[1] > runs)
    footnote(figure, f"median and middle 90% over {' and '.join(over)}")
    return figure


def draw_similarity(run: Trajectory, o: Choices) -> Figure:
    motion = read_motion(run, run=o.run or 0)
    chosen = pick(motion, o.times, o.spacing or "linear", default=6)
    counts, edges = similarity_histogram(motion.x[chosen], bins=80)
    figure = histograms(counts, edges, labels=[motion.label(motion.t[k]) for k in chosen])
    footnote(figure, motion.note)
    return figure


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
    gathered = _gathered(values[-1][:, kept])
    figure = projections(motion.t, values[..., kept], groups=gathered, names=names, ylabel=word)
    footnote(figure, ", ".join(filter(None, ["mean and standard deviation of each group of tokens", motion.note])))
    return figure


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
    return eigenvalues(np.linalg.eigvals(V), titles=titles)
