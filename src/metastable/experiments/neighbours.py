"""The neighbours of attention in related work, run by the same code with another score, mask or normalisation.

Hegselmann-Krause opinions: score "bounded", discrete layers: x_i becomes the mean of the opinions within 1. Mean-shift:
score "distance"; data tokens see only themselves and stay, probes see only the data and climb their density. Kuramoto:
beta = 0, un-normalised, on the circle: theta_i' = (1/n) sum_j sin(theta_j - theta_i).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from metastable.backend import jnp
from metastable.equation.dynamics import Dynamics
from metastable.experiments.base import Data, Experiment, Figures, Work
from metastable.initial import sphere
from metastable.observables import cluster_count, order_parameter
from metastable.plots.style import FAINT, PALETTE, RED, SOFT, new_figure, panels, paper
from metastable.solve.simulate import simulate
from metastable.theory.intervals import exact_interval
from metastable.theory.verdicts import Verdict, judge_share

SOURCE = "second paper, related work"
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Params:
    """Opinions on an interval of ``opinions`` confidence radii; data in ``blobs``; ``n`` tokens of every kind."""

    n: int = 64
    opinions: float = 10.0
    opinion_layers: int = 60
    blobs: int = 3
    bandwidth: float = 0.6
    shift_layers: int = 400
    t: float = 40.0
    dt: float = 0.1
    instances: int = 200
    seed: int = 0


@dataclass(frozen=True)
class Probes:
    """The mask of mean-shift: the first ``data`` tokens see themselves, the others see the data."""

    data: int

    def __call__(self, i: Any, j: Any) -> Any:
        return ((i < self.data) & (i == j)) | ((i >= self.data) & (j < self.data))


def opinions(params: Params, seed: int) -> tuple[Dynamics, np.ndarray]:
    """Opinions uniform on an interval; one layer with dt = 1 replaces each by its neighbours' mean."""
    x = np.random.default_rng([seed, 1]).uniform(0.0, params.opinions, (params.n, 1))
    return Dynamics(beta=1.0, score="bounded", geometry="euclidean"), x


def probes(params: Params, seed: int) -> tuple[Dynamics, np.ndarray]:
    """``n`` data around centres on a circle of radius 2 (spread 0.5), and as many probes starting on them."""
    rng = np.random.default_rng([seed, 2])
    turn = 2.0 * np.pi * (np.arange(params.n) % params.blobs) / params.blobs
    data = 2.0 * np.stack([np.cos(turn), np.sin(turn)], axis=-1) + 0.5 * rng.standard_normal((params.n, 2))
    beta = 1.0 / (2.0 * params.bandwidth**2)
    dynamics = Dynamics(beta=beta, score="distance", geometry="euclidean", mask=Probes(params.n))
    return dynamics, np.concatenate([data, data])


def oscillators(params: Params, seed: int) -> tuple[Dynamics, np.ndarray]:
    """Identical oscillators, uniform on the circle."""
    return Dynamics(beta=0.0, normalise="unnormalised"), sphere(params.n, 2, seed=seed)


def run(params: Params, work: Work) -> Data:
    size = min(50, params.instances)
    data = work.parts("opinions", params.instances, size, lambda a, b: _opinions(params, a, b))
    data |= work.parts("shift", params.instances, size, lambda a, b: _shift(params, a, b))
    data |= work.parts("kuramoto", params.instances, size, lambda a, b: _kuramoto(params, a, b))
    return {**data, "kuramoto_t": np.linspace(0.0, params.t, 81)}


def _opinions(params: Params, first: int, last: int) -> Data:
    chosen = [opinions(params, s) for s in range(params.seed + first, params.seed + last)]
    layers = params.opinion_layers
    x = simulate(chosen[0][0], np.stack([x for _, x in chosen]), layers, method="layers", save=layers + 1).x
    end = np.sort(x[-1, :, :, 0], axis=-1)  # (b, n)
    steps = np.diff(end, axis=-1)
    return {
        "opinions_moved": np.abs(x[-1] - x[-2]).max(axis=(-1, -2)),
        "opinions_count": cluster_count(x[-1], 1e-6, "euclidean"),
        "opinions_gap": np.where(steps > 1e-6, steps, np.inf).min(axis=-1),
        "opinions_shown": np.moveaxis(x, 1, 0)[: int(first == 0), ..., 0],
    }


def _shift(params: Params, first: int, last: int) -> Data:
    chosen = [probes(params, s) for s in range(params.seed + first, params.seed + last)]
    x0 = np.stack([x for _, x in chosen])
    x = simulate(chosen[0][0], x0, params.shift_layers, method="layers", save=41).x[:, :, params.n :]  # (T, b, n, 2)
    data = x0[:, : params.n]
    density, gradient, top = _landscape(x, data, params.bandwidth)
    return {
        "shift_falls": (density[:-1] - density[1:]).max(axis=(0, 2)) / density.max(axis=(0, 2)),
        "shift_gradient": gradient[-1].max(axis=-1),
        "shift_top": top[-1].max(axis=-1),
        "shift_modes": cluster_count(x[-1], 1e-3, "euclidean"),
        "shift_shown": np.moveaxis(x, 1, 0)[: int(first == 0)],
        "shift_data": data[: int(first == 0)],
    }


def _landscape(x: np.ndarray, data: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kernel density at x (T, b, n, 2), the length of the mean-shift step, and its Hessian's larger eigenvalue."""
    gap = (data[None, :, None] - x[..., None, :]) / width  # (T, b, n, m, 2)
    kernel = np.exp(-0.5 * (gap**2).sum(axis=-1))  # (T, b, n, m)
    density = kernel.mean(axis=-1)
    step = np.einsum("...m,...md->...d", kernel, gap) / kernel.sum(axis=-1)[..., None] * width
    hessian = np.einsum("...m,...md,...me->...de", kernel, gap, gap) / kernel.sum(axis=-1)[..., None, None] - np.eye(2)
    return density, np.linalg.norm(step, axis=-1), np.linalg.eigvalsh(hessian)[..., -1]


def _kuramoto(params: Params, first: int, last: int) -> Data:
    chosen = [oscillators(params, s) for s in range(params.seed + first, params.seed + last)]
    dynamics, x0 = chosen[0][0], np.stack([x for _, x in chosen])
    x = simulate(dynamics, x0, params.t, params.dt, save=81).x  # (T, b, n, 2)
    angle = np.arctan2(x0[..., 1], x0[..., 0])
    turning = np.sin(angle[:, None, :] - angle[:, :, None]).mean(axis=-1)  # (b, n)
    v = np.asarray(dynamics.velocity(0.0, jnp.asarray(x0)))
    order = order_parameter(x)  # (T, b)
    centre = x[-1].mean(axis=1, keepdims=True)
    far = np.arccos(np.clip((x[-1] * centre).sum(axis=-1) / np.linalg.norm(centre, axis=-1), -1.0, 1.0))
    return {
        "kuramoto_order": order.T,
        "kuramoto_far": far.max(axis=-1),
        "kuramoto_equation": np.abs(v[..., 1] * x0[..., 0] - v[..., 0] * x0[..., 1] - turning).max(axis=-1),
    }


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    seeds = [params.seed + k for k in range(len(data["kuramoto_far"]))]
    return [*_judge_opinions(data, seeds), *_judge_shift(params, data, seeds), *_judge_kuramoto(params, data, seeds)]


def _judge_opinions(data: Data, seeds: list[int]) -> list[Verdict]:
    """At rest: the last layer moved no token by more than 1e-12 (rounding of a mean). Opinions of one cluster are then
    equal to rounding, so 1e-6 separates clusters, and clusters at most 1 apart would still see each other and move."""
    rest = data["opinions_moved"] <= 1e-12
    count = data["opinions_count"]
    return [
        judge_share(
            "Hegselmann-Krause opinions come to rest in clusters more than one confidence radius apart.",
            SOURCE,
            [bool(g > 1.0) if r else None for r, g in zip(rest, data["opinions_gap"])],
            seeds=seeds,
            notes=f"smallest gap between clusters {data['opinions_gap'].min():.3f}",
        ),
        judge_share(
            "They form several clusters.",
            SOURCE,
            [bool(c >= 2) if r else None for r, c in zip(rest, count)],
            kind="observation",
            required=0.5,
            seeds=seeds,
            notes=f"mean number of clusters {count.mean():.2f}, from {count.min()} to {count.max()}",
        ),
    ]


def _judge_shift(params: Params, data: Data, seeds: list[int]) -> list[Verdict]:
    """Density along a mean-shift path never falls, beyond n eps for its own sum. A probe has arrived when its next
    step is below 1e-6; it is on a mode when the Hessian of the log density there has no eigenvalue above the 1e-6 that
    such a step leaves uncertain."""
    arrived = data["shift_gradient"] <= 1e-6
    modes = data["shift_modes"]
    return [
        judge_share(
            "Mean-shift never descends: the kernel density grows along every path.",
            SOURCE,
            [bool(f <= params.n * _EPS) for f in data["shift_falls"]],
            seeds=seeds,
        ),
        judge_share(
            "Mean-shift finds modes: every probe ends on a maximum of the kernel density.",
            SOURCE,
            [bool(h <= 1e-6) if a else None for a, h in zip(arrived, data["shift_top"])],
            seeds=seeds,
            notes=f"mean number of modes {modes.mean():.2f}",
        ),
        judge_share(
            f"It finds the {params.blobs} blobs the data were drawn from.",
            SOURCE,
            [bool(m == params.blobs) if a else None for a, m in zip(arrived, modes)],
            kind="observation",
            required=0.5,
            seeds=seeds,
        ),
    ]


def _judge_kuramoto(params: Params, data: Data, seeds: list[int]) -> list[Verdict]:
    """Velocities agree to 4 n eps (two sums of n terms of size 1). The order parameter never falls beyond n eps. Once
    all oscillators are within 0.1 rad of their mean, inside a half-circle, they contract to one point."""
    falls = (data["kuramoto_order"][:, :-1] - data["kuramoto_order"][:, 1:]).max(axis=-1)
    return [
        judge_share(
            "At beta = 0 un-normalised attention on the circle is Kuramoto's equation with equal frequencies.",
            SOURCE,
            [bool(e <= 4 * params.n * _EPS) for e in data["kuramoto_equation"]],
            seeds=seeds,
            notes=f"largest difference {data['kuramoto_equation'].max():.1e}",
        ),
        judge_share(
            "Kuramoto oscillators synchronise, and their order parameter never falls on the way.",
            SOURCE,
            [
                False if f > params.n * _EPS else (True if far <= 0.1 else None)
                for f, far in zip(falls, data["kuramoto_far"])
            ],
            seeds=seeds,
            notes=f"at t = {params.t:g}; smallest order parameter then {data['kuramoto_order'][:, -1].min():.6f}",
        ),
    ]


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    with paper():
        figure, axes = panels(None, 3, 2.3, 0.9, 0.2)
        paths = data["opinions_shown"][0]  # (T, n)
        still = int(np.argmax(np.abs(np.diff(paths, axis=0)).max(axis=1) < 1e-12)) + 2
        axes[0].plot(paths[:still], color=PALETTE[0], lw=0.6)
        axes[0].set(title="Hegselmann-Krause", xlabel="layer", ylabel="opinion")
        cloud, walks = data["shift_data"][0], data["shift_shown"][0]  # (m, 2), (T, n, 2)
        _contours(axes[1], cloud, params.bandwidth)
        axes[1].plot(walks[..., 0], walks[..., 1], color=PALETTE[0], lw=0.5)
        axes[1].scatter(cloud[:, 0], cloud[:, 1], s=4, color=FAINT, edgecolors=PALETTE[0], linewidths=0.4, zorder=3)
        axes[1].scatter(walks[-1, :, 0], walks[-1, :, 1], s=14, color=RED, zorder=4)
        axes[1].set(title="mean-shift", xlabel="data, paths, modes (red)", aspect="equal")
        axes[2].plot(data["kuramoto_t"], data["kuramoto_order"][:30].T, color=PALETTE[0], lw=0.5, alpha=0.6)
        axes[2].set(title="Kuramoto", xlabel="time $t$", ylabel="order parameter", ylim=(0.0, 1.03))
    return {"Three neighbours, one code": figure, "The neighbours in numbers": _table(params, data)}


def _contours(panel: Axes, cloud: np.ndarray, width: float) -> None:
    line = np.linspace(-3.6, 3.6, 61)
    grid = np.stack(np.meshgrid(line, line), axis=-1)  # (61, 61, 2)
    density = np.exp(-0.5 * ((grid[:, :, None] - cloud) ** 2).sum(axis=-1) / width**2).mean(axis=-1)
    panel.contour(line, line, density, levels=6, colors=SOFT, linewidths=0.4)


def _table(params: Params, data: Data) -> Figure:
    several, blobs = data["opinions_count"] >= 2, data["shift_modes"] == params.blobs
    rows = [
        ["Hegselmann-Krause", 'score "bounded"', "several clusters", _percent(several)],
        ["mean-shift", 'score "distance", data fixed', f"{params.blobs} blobs found", _percent(blobs)],
        ["Kuramoto", "beta = 0, un-normalised", "synchronised", _percent(data["kuramoto_far"] <= 0.1)],
    ]
    with paper():
        figure = new_figure(6.6, 1.3)
        panel = figure.add_subplot()
        panel.set_axis_off()
        heads = ["model", "what is exchanged", "seen", "share of starts (95% interval)"]
        table = panel.table(rows, colLabels=heads, loc="center", cellLoc="left", edges="horizontal")
        table.auto_set_font_size(False)
        table.set_fontsize(7.5)
        table.scale(1.0, 1.4)
    return figure


def _percent(seen: np.ndarray) -> str:
    low, high = exact_interval(int(seen.sum()), len(seen))
    return f"{seen.mean():.1%} ({low:.1%} to {high:.1%})"


EXPERIMENT = Experiment(
    name="neighbours",
    title="Neighbours of attention",
    source=SOURCE,
    figures="none; a table and a figure",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 20, "n": 32, "t": 30.0},
    full={"instances": 4000},
    text="Opinion dynamics, mean-shift and the Kuramoto model are the same equation with another score, mask or "
    "normalisation, and are run by the same code. Opinions end in several clusters, mean-shift climbs to the modes "
    "of a density, oscillators synchronise.",
)
