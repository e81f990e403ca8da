"""The neighbours of attention in related work, run by the same equation with another score, mask or normalisation.

Each is here with the known result that it must show: opinions and Sinkformers in `neighbour_opinions`, oscillators and
flocks in `neighbour_flocks`.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from metastable.experiments import neighbour_flocks as flocks
from metastable.experiments import neighbour_opinions as averaging
from metastable.experiments.base import Data, Experiment, Figures, Finding, Work
from metastable.experiments.neighbour_checks import check
from metastable.plots.style import FAINT, PALETTE, RED, SOFT, captioned, new_figure, panels, paper
from metastable.theory.intervals import exact_interval
from metastable.theory.verdicts import Verdict

SOURCE = "second paper, related work"
TITLE = "Neighbours of attention, one equation"


@dataclass(frozen=True)
class Params:
    """Opinions on an interval of ``opinions`` confidence radii; data in ``blobs``; ``n`` tokens of every kind.

    Vicsek's particles on a square of side 5 with ``noises`` eta; birds with psi = (1 + r^2)^-b for the b in ``powers``.
    """

    n: int = 64
    opinions: float = 10.0
    opinion_layers: int = 60
    krause_t: float = 60.0
    blobs: int = 3
    bandwidth: float = 0.6
    shift_layers: int = 400
    t: float = 40.0
    dt: float = 0.1
    noises: tuple[float, ...] = (0.1, 1.0, 2.0, 3.0, 4.0, 5.0, 2.0 * np.pi)
    vicsek_steps: int = 400
    powers: tuple[float, ...] = (0.25, 0.4, 1.5)
    flock_spread: float = 3.0
    flock_t: float = 60.0
    sinkhorn_n: int = 16
    instances: int = 200
    seed: int = 0


PARTS = {
    "opinions": averaging.run_opinions,
    "krause": averaging.run_krause,
    "shift": averaging.run_shift,
    "sinkformer": averaging.run_sinkformer,
    "kuramoto": flocks.run_kuramoto,
    "vicsek": flocks.run_vicsek,
    "flocks": flocks.run_flocks,
}


def run(params: Params, work: Work) -> Data:
    data: Data = {}
    for name, part in PARTS.items():
        data |= work.parts(name, params.instances, min(50, params.instances), partial(part, params))
    return {**data, "kuramoto_t": np.linspace(0.0, params.t, 81)}


def judge(params: Params, data: Data) -> list[Verdict]:
    seeds = [params.seed + k for k in range(len(data["kuramoto_far"]))]
    return [
        *averaging.judge_opinions(data, seeds),
        *averaging.judge_krause(data, seeds),
        *averaging.judge_shift(params, data, seeds),
        *averaging.judge_sinkformer(data, seeds),
        *flocks.judge_kuramoto(params, data, seeds),
        *flocks.judge_vicsek(params, data),
        *flocks.judge_flocks(params, data, seeds),
    ]


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    with paper():
        figure, axes = panels(None, 6, 2.3, 0.9, 0.2, columns=3)
        _opinions(axes[0], data["opinions_shown"][0])
        axes[1].plot(np.linspace(0.0, params.krause_t, 61), data["krause_shown"][0], color=PALETTE[0], lw=0.6)
        axes[1].set(title="Krause, compact $\\phi$", xlabel="time $t$", ylabel="opinion")
        cloud, walks = data["shift_data"][0], data["shift_shown"][0]  # (m, 2), (T, n, 2)
        _contours(axes[2], cloud, params.bandwidth)
        axes[2].plot(walks[..., 0], walks[..., 1], color=PALETTE[0], lw=0.5)
        axes[2].scatter(cloud[:, 0], cloud[:, 1], s=4, color=FAINT, edgecolors=PALETTE[0], linewidths=0.4, zorder=3)
        axes[2].scatter(walks[-1, :, 0], walks[-1, :, 1], s=14, color=RED, zorder=4)
        axes[2].set(title="mean-shift", xlabel="data, paths, modes (red)", aspect="equal")
        axes[3].plot(data["kuramoto_t"], data["kuramoto_order"][:30].T, color=PALETTE[0], lw=0.5, alpha=0.6)
        axes[3].set(title="Kuramoto", xlabel="time $t$", ylabel="order parameter", ylim=(0.0, 1.03))
        axes[4].plot(params.noises, data["vicsek_order"].T, color=PALETTE[0], lw=0.4, alpha=0.35)
        axes[4].plot(params.noises, data["vicsek_order"].mean(axis=0), color=PALETTE[1], marker="o", ms=3)
        axes[4].set(title="Vicsek", xlabel=r"noise $\eta$", ylabel="order parameter", ylim=(0.0, 1.03))
        t = np.linspace(0.0, params.flock_t, 41)
        for k, power in enumerate(params.powers):
            median = np.median(data["flock_paths"][:, k], axis=0)
            axes[5].plot(t, median, color=PALETTE[k % len(PALETTE)], label=f"b = {power:g}")
        axes[5].set(title="Cucker-Smale", xlabel="time $t$", ylabel="spread of velocities", yscale="log")
        axes[5].legend(loc="best")
    what = (
        f"One start of each model with n = {params.n} (mean-shift: {params.n} data in {params.blobs} blobs, bandwidth "
        f"{params.bandwidth:g}), and for Kuramoto (30 starts), Vicsek (grey lines: starts, orange: mean) and "
        f"Cucker-Smale (medians) {params.instances} seeds from {params.seed} on. Vicsek: square of side 5, reach 1, "
        f"speed 0.03, {params.vicsek_steps} steps. Cucker-Smale: psi = (1 + r^2)^-b."
    )
    numbers = f"Share of {params.instances} starts, seeds from {params.seed} on, that show the known result."
    return {TITLE: captioned(figure, what), "The neighbours in numbers": captioned(_table(params, data), numbers)}


def _opinions(panel: Axes, paths: np.ndarray) -> None:
    still = int(np.argmax(np.abs(np.diff(paths, axis=0)).max(axis=1) < 1e-12)) + 2
    panel.plot(paths[:still], color=PALETTE[0], lw=0.6)
    panel.set(title="Hegselmann-Krause", xlabel="layer", ylabel="opinion")


def _contours(panel: Axes, cloud: np.ndarray, width: float) -> None:
    line = np.linspace(-3.6, 3.6, 61)
    grid = np.stack(np.meshgrid(line, line), axis=-1)  # (61, 61, 2)
    density = np.exp(-0.5 * ((grid[:, :, None] - cloud) ** 2).sum(axis=-1) / width**2).mean(axis=-1)
    panel.contour(line, line, density, levels=6, colors=SOFT, linewidths=0.4)


def table_rows(params: Params, data: Data) -> list[list[str]]:
    """One row per neighbour: what is exchanged, the known result, and the share of starts that show it."""
    flock = data["flock_left"][:, 0] <= 0.01
    noise = (data["vicsek_order"][:, 0] >= 0.9) & (data["vicsek_order"][:, -1] <= 0.5)
    return [
        ["Hegselmann-Krause", 'score "bounded", layers', "several clusters", _percent(data["opinions_count"] >= 2)],
        ["Krause", "compact phi of the distance", "several clusters", _percent(data["krause_count"] >= 2)],
        [
            "mean-shift",
            'score "distance", data fixed',
            f"{params.blobs} blobs found",
            _percent(data["shift_modes"] == params.blobs),
        ],
        ["Sinkformer", "doubly stochastic", "mean grows like e^t", _percent(data["sinkhorn_mean"] <= 1e-6)],
        ["Kuramoto", "beta = 0, un-normalised", "synchronised", _percent(data["kuramoto_far"] <= 0.1)],
        ["Vicsek", "sight by place, noise", "order lost with noise", _percent(noise)],
        ["Cucker-Smale", f"psi = (1 + r^2)^-{params.powers[0]:g}", "one flock", _percent(flock)],
    ]


def _table(params: Params, data: Data) -> Figure:
    rows = table_rows(params, data)
    with paper():
        figure = new_figure(6.6, 0.4 + 0.24 * (len(rows) + 1))
        panel = figure.add_subplot()
        panel.set_axis_off()
        heads = ["model", "what is exchanged", "known result", "share of starts (95% interval)"]
        table = panel.table(rows, colLabels=heads, loc="center", cellLoc="left", edges="horizontal")
        table.auto_set_font_size(False)
        table.set_fontsize(7.5)
        table.scale(1.0, 1.4)
    return figure


def _percent(seen: np.ndarray) -> str:
    low, high = exact_interval(int(seen.sum()), len(seen))
    return f"{seen.mean():.1%} ({low:.1%} to {high:.1%})"


def finding(params: Params, data: Data) -> Finding:
    order = data["vicsek_order"].mean(axis=0)
    return Finding(
        "The transformer's equation is said to be close to models of opinions, flocks and oscillators.",
        f"Seven of them are run as the same equation: Krause's opinions end in "
        f"{data['krause_count'].mean():.1f} clusters on average, Vicsek's order falls from {order[0]:.2f} to "
        f"{order[-1]:.2f} with noise, a Sinkformer's energy falls as a gradient flow's to "
        f"{data['sinkhorn_energy'].max():.1g}.",
        TITLE,
    )


EXPERIMENT = Experiment(
    name="neighbours",
    title="Neighbours of attention",
    source=SOURCE,
    figures="none; a table and a figure",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 20, "n": 32, "dt": 0.25, "vicsek_steps": 200},
    full={"instances": 4000},
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="Half the tokens and nine tenths of the starts; steps are 0.25 instead of 0.1.",
    text="Opinion dynamics (in layers and as Krause's flow), mean-shift, Sinkformers, Kuramoto's oscillators, Vicsek's "
    "particles and Cucker and Smale's birds are the same equation with another score, mask or normalisation, run by "
    "the same code. Each must show the result it is known for: clusters that no longer see each other, the modes of a "
    "density, a gradient flow, synchrony, order that is lost with noise, flocking for slowly falling influence.",
)
