"""The phase diagram over (beta, t): the share of pairs that have met, and the number of clusters.

n uniform tokens of S^{d-1} are nearly orthogonal when d is large, so their mean cosine follows the closed form for
equal angles (`metastable.theory.equiangular`), and the front of the diagram its level line.
"""

from typing import Any

import numpy as np

from metastable.experiments.base import Data, Experiment, Figures, Finding
from metastable.experiments.phase_diagram_maps import ALONE, AXES, draw_maps, judge_maps
from metastable.experiments.phase_diagram_runs import ATTENTIONS, MET, Params, check, grid, key, run
from metastable.plots import phase_diagram, series
from metastable.plots.phase import shared_bar
from metastable.plots.style import captioned, panels, paper
from metastable.theory.equiangular import equiangular_path, equiangular_time
from metastable.theory.intervals import bootstrap_interval
from metastable.theory.verdicts import Verdict, judge_number

SOURCE = "first paper, sec. 2.4; closed form for orthogonal tokens"


def deviation(params: Params, data: Data, attention: int) -> np.ndarray:
    """Mean over (beta, t) of |mean cosine - closed form|, (dims, instances)."""
    betas, times, _ = grid(params, attention)
    law = np.stack([equiangular_path(times, params.n, b, normalise=ATTENTIONS[attention]) for b in betas])
    cosines = [data[f"{key(d, attention, 0, 0)} cosine"] for d in params.dims]
    return np.stack([np.abs(c - law).mean(axis=(1, 2)) for c in cosines])


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """Cosines of uniform tokens have standard deviation d^{-1/2} and mean 0: the start is orthogonal up to that.

    The flow depends smoothly on the start over a fixed time, so the deviation from the closed form falls at least like
    d^{-1/2}: the fitted power of d (from d = 8 on) must be at most -0.4, which leaves a fifth for finite d.
    """
    found = []
    for attention in range(2):
        apart = deviation(params, data, attention)
        names = f"{ATTENTIONS[attention]} attention"
        found.append(
            judge_number(
                f"The phase diagram of {names} tends to the closed form as d grows.",
                SOURCE,
                apart[-1] / apart[0],
                (0.0, 0.5),
                kind="observation",
                notes=f"distance at d = {params.dims[-1]} over that at d = {params.dims[0]}, at most a half; mean "
                "|cosine - closed form| at d = "
                + ", ".join(f"{d}: {value:.3g}" for d, value in zip(params.dims, apart.mean(axis=1))),
            )
        )
        found.append(_power(params, apart, names))
    return [*found, _more_clusters(params, data), *judge_maps(params, data)]


def _power(params: Params, apart: np.ndarray, names: str) -> Verdict:
    d = np.log(np.array([value for value in params.dims if value >= 8], dtype=float))
    logs = np.log(apart[-len(d) :])
    slopes = ((d - d.mean())[:, None] * logs).sum(axis=0) / np.square(d - d.mean()).sum()
    return judge_number(
        f"Its distance to the closed form falls at least like d^(-1/2) ({names}).",
        SOURCE,
        slopes,
        (-np.inf, -0.4),
        kind="observation",
        interval=bootstrap_interval(slopes, np.mean),
        deciding=len(slopes),
        notes="fitted power of d over d = " + ", ".join(str(v) for v in params.dims if v >= 8),
    )


def _more_clusters(params: Params, data: Data) -> Verdict:
    """On the circle: clusters at the horizon at the largest beta minus those at the smallest, from the same tokens."""
    clusters = data[f"{key(min(params.dims), 0, 0, 0)} clusters"][..., -1]
    return judge_number(
        f"On S^{min(params.dims) - 1} more clusters are left at beta {params.betas[-1]:g} than at {params.betas[0]:g}.",
        "first paper, sec. 3.2",
        clusters[:, -1] - clusters[:, 0],
        (1e-9, np.inf),
        kind="observation",
        notes=f"mean clusters at t = {params.t:g} by beta: "
        + ", ".join(f"{b:g}: {c:.2f}" for b, c in zip(params.betas, clusters.mean(axis=0))),
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    figures = {}
    for attention in range(2):
        betas, times, _ = grid(params, attention)
        fine = np.linspace(betas[0], betas[-1], 80)
        curve = [equiangular_time(MET, params.n, b, normalise=ATTENTIONS[attention]) for b in fine]
        for measure, words in (("share", "share of pairs that have met"), ("clusters", "clusters")):
            with paper():
                columns, ratio = (3, 1.0) if len(params.dims) == 3 else (2, 0.75)  # no hole, and room for the bar
                figure, axes = panels(None, len(params.dims), 2.9, ratio, 0.25, columns=columns)
                for k, (d, ax) in enumerate(zip(params.dims, axes)):
                    values = data[f"{key(d, attention, 0, 0)} {measure}"].mean(axis=0).T
                    low, high = (0.0, 1.0) if measure == "share" else (1.0, float(params.n))
                    phase_diagram(
                        betas, times, values, **AXES, title=f"$d = {d}$", low=low, high=high,
                        curves={"" if k else "closed form": (fine, curve)}, ax=ax,
                    )  # fmt: skip
                shared_bar(figure, axes, words)
            figures[f"{words.capitalize()}, {ATTENTIONS[attention]} attention"] = captioned(
                figure,
                f"{words.capitalize()}{ALONE[measure]} over beta and t, n = {params.n}, Q = K = V = I, full "
                f"{ATTENTIONS[attention]} attention, mean over {params.instances} starts, seeds from {params.seed} on; "
                f"red: when orthogonal tokens reach cosine {MET:g}.",
            )
    return figures | {"Distance to the closed form": _draw_deviation(params, data), **draw_maps(params, data)}


def _draw_deviation(params: Params, data: Data) -> Any:
    lines = {ATTENTIONS[a]: deviation(params, data, a).mean(axis=1) for a in range(2)}
    guide = lines["softmax"][-1] * (np.array(params.dims) / params.dims[-1]) ** -0.5
    figure = series(
        params.dims, lines, reference={"$d^{-1/2}$": (params.dims, guide)}, xlabel="dimension $d$",
        ylabel="mean |cosine - closed form|", xscale="log", yscale="log", marks=True,
    )  # fmt: skip
    return captioned(
        figure,
        f"Mean over beta, t and {params.instances} starts of the distance between the mean cosine of {params.n} tokens "
        "and that of orthogonal ones; Q = K = V = I, full attention.",
    )


def finding(params: Params, data: Data) -> Finding:
    apart = deviation(params, data, 0).mean(axis=1)
    return Finding(
        "Tokens in high dimension cluster along one curve over (beta, t), that of orthogonal tokens.",
        f"The mean cosine is {apart[0]:.2g} off the closed form at d = {params.dims[0]} and {apart[-1]:.2g} at "
        f"d = {params.dims[-1]}, averaged over beta and t.",
        "Share of pairs that have met, softmax attention",
    )


EXPERIMENT = Experiment(
    name="phase-diagram",
    title="The phase diagram over beta and time",
    source=SOURCE,
    figures="phase diagrams of follow-up work",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 20, "others": 3, "usa_others": 0, "dims": (2, 8, 32), "betas": (1.0, 5.0, 9.0),
           "usa_betas": (0.5, 2.0), "t": 12.0, "usa_t": 3.2, "times": 9},
    full={"instances": 256, "others": 64},
    text="n tokens start uniformly on the sphere. For every beta the share of pairs that have met and the number of "
    "clusters are measured over time. As d grows tokens start at right angles, and the front between no pair and all "
    "pairs tends to a curve that is known in closed form. Below: the same under a causal mask, and with V = -I and "
    "random V; the first two causal tokens, which have closed forms, tell whether those maps are right.",
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="d = 128, and most betas",
)  # fmt: skip
