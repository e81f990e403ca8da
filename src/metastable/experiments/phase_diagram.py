"""The phase diagram over (beta, t): the share of pairs that have met, and the number of clusters.

n uniform tokens of S^{d-1} are nearly orthogonal when d is large, so their mean cosine follows the closed form for
equal angles (`metastable.theory.equiangular`), and the front of the diagram its level line.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.initial import sphere
from metastable.plots import phase_diagram, series
from metastable.plots.phase import shared_bar
from metastable.plots.style import captioned, panels, paper
from metastable.solve.observe import observe_many
from metastable.solve.simulate import simulate
from metastable.theory.equiangular import equiangular_path, equiangular_time
from metastable.theory.intervals import bootstrap_interval
from metastable.theory.verdicts import Verdict, judge_number, judge_share

SOURCE = "first paper, sec. 2.4; closed form for orthogonal tokens"
MET = 0.999  # cosine from which on a pair counts as clustered
ATTENTIONS = ("softmax", "unnormalised")
AXES: dict[str, Any] = {"xlabel": r"$\beta$", "ylabel": "time $t$", "bar": None}
MASKS, VALUES = ("full", "causal"), ("identity", "minus identity", "random")


@dataclass(frozen=True)
class Params:
    """The published setting in small; ``usa_`` is for unnormalised attention, whose rates grow like e^beta."""

    n: int = 32
    dims: tuple[int, ...] = (2, 8, 32, 128)
    betas: tuple[float, ...] = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
    t: float = 30.0
    dt: float = 0.1
    usa_betas: tuple[float, ...] = (0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
    usa_t: float = 6.0
    usa_dt: float = 0.02
    times: int = 31
    instances: int = 24
    others: int = 4  # instances of the maps without a law
    usa_others: int = 1  # 0: those of unnormalised attention are left out
    seed: int = 0


def grid(params: Params, attention: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Betas, times and step of one attention."""
    if attention == 0:
        return np.array(params.betas), np.linspace(0.0, params.t, params.times), params.dt
    return np.array(params.usa_betas), np.linspace(0.0, params.usa_t, params.times), params.usa_dt


def weights(value: int, d: int, seed: int) -> Weights:
    """V = I, -I, or a random matrix of unit spectral radius as d grows."""
    if value == 0:
        return Weights()
    return Weights(
        V=-np.eye(d) if value == 1 else np.random.default_rng([seed, 7]).standard_normal((d, d)) / np.sqrt(d)
    )


def mean_cosine(run: Any) -> xarray.DataArray:
    """Mean cosine of pairs i < j: (|sum x|^2 - n)/(n (n-1))."""
    n = run.x.shape[-2]
    values = (np.square(run.x.sum(axis=-2)).sum(axis=-1) - n) / (n * (n - 1))
    return xarray.DataArray(values, dims=["time", *(f"run{k}" for k in range(values.ndim - 1))], coords={"time": run.t})


MEASURES = {
    "share": lambda run: run.observe("similarity_share", above=MET),
    "clusters": lambda run: run.observe("clusters", tolerance=0.05),
    "cosine": mean_cosine,
}


def diagram(params: Params, d: int, attention: int, mask: int, value: int, first: int, last: int) -> Data:
    """Measures of some instances at every beta and time, (instances, betas, times) each."""
    betas, times, dt = grid(params, attention)
    seeds = [params.seed + k for k in range(first, last)]
    x0 = np.repeat(np.stack([sphere(params.n, d, seed=s) for s in seeds]), len(betas), axis=0)
    kind: dict[str, Any] = {"normalise": ATTENTIONS[attention], "mask": MASKS[mask]}
    if value < 2:
        dynamics: Any = Dynamics(weights(value, d, 0), beta=np.tile(betas, len(seeds)), **kind)
    else:
        dynamics = [Dynamics(weights(value, d, s), beta=float(b), **kind) for s in seeds for b in betas]
    data = observe_many(dynamics, x0, MEASURES, t=float(times[-1]), dt=dt, save=times)
    shape = (len(times), len(seeds), len(betas))
    return {name: np.moveaxis(np.asarray(data[name].values, dtype=float).reshape(shape), 0, 2) for name in MEASURES}


def key(d: int, attention: int, mask: int, value: int) -> str:
    return f"d{d}-{ATTENTIONS[attention]}-{MASKS[mask]}-{VALUES[value].replace(' ', '-')}"


def run(params: Params, work: Work) -> Data:
    found: Data = {}
    for d in params.dims:
        for attention in range(2):
            for mask, value in (
                [(m, v) for m in range(2) for v in range(3)] if attention <= params.usa_others else [(0, 0)]
            ):
                name, law = key(d, attention, mask, value), mask == value == 0
                count = params.instances if law else min(params.others, params.instances)
                part = work.parts(
                    name,
                    count,
                    24,
                    partial(diagram, params, d, attention, mask, value),
                )
                found |= {f"{name} {measure}": values for measure, values in part.items()}
    return found


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
    return [*found, _repulsion(params, data), _more_clusters(params, data)]


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


def _repulsion(params: Params, data: Data) -> Verdict:
    """No more pairs have met at the end than at the start in 4 of 5 runs: at large beta some are too slow."""
    outcomes = []
    for d in params.dims:
        shares = data[f"{key(d, 0, 0, 1)} share"]  # (instances, betas, times)
        outcomes += [bool(end <= begin) for end, begin in zip(shares[..., -1].ravel(), shares[..., 0].ravel())]
    return judge_share(
        "With V = -I and full attention tokens do not meet.", "first paper, sec. 4.2 (repulsion)", outcomes,
        kind="observation", required=0.8, notes="one outcome for each dimension, instance and beta",
    )  # fmt: skip


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
                figure, axes = panels(None, len(params.dims), 2.9, 0.75, 0.25, columns=2)
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
                f"{words.capitalize()} over beta and t, n = {params.n}, V = I, full {ATTENTIONS[attention]} attention, "
                f"mean over {params.instances} starts; red: when orthogonal tokens reach cosine {MET:g}.",
            )
    return figures | {"Distance to the closed form": _draw_deviation(params, data), **_draw_others(params, data)}


def _draw_deviation(params: Params, data: Data) -> Any:
    lines = {ATTENTIONS[a]: deviation(params, data, a).mean(axis=1) for a in range(2)}
    guide = lines["softmax"][-1] * (np.array(params.dims) / params.dims[-1]) ** -0.5
    figure = series(
        params.dims, lines, reference={"$d^{-1/2}$": (params.dims, guide)}, xlabel="dimension $d$",
        ylabel="mean |cosine - closed form|", xscale="log", yscale="log", marks=True,
    )  # fmt: skip
    return captioned(figure, f"How far the diagram is from its limit, n = {params.n}, {params.instances} starts.")


def _draw_others(params: Params, data: Data) -> Figures:
    """The maps without a law, softmax attention: masks down, V across, at one dimension each."""
    betas, times, _ = grid(params, 0)
    figures = {}
    for d in params.dims:
        with paper():
            figure, axes = panels(None, 6, 2.3, 0.8, 0.25, columns=3)
            for (mask, value), ax in zip([(m, v) for m in range(2) for v in range(3)], axes):
                shown = data[f"{key(d, 0, mask, value)} share"].mean(axis=0).T
                title = f"{MASKS[mask]}, V = {('I', '-I', 'random')[value]}"
                phase_diagram(betas, times, shown, **AXES, low=0.0, high=1.0, title=title, ax=ax)
            shared_bar(figure, axes, "share of pairs that have met")
        figures[f"Masks and values, d = {d}"] = captioned(
            figure, f"Share of pairs that have met, n = {params.n}, d = {d}, softmax attention, {params.others} starts."
        )
    return figures


def check(params: Params) -> dict[str, Check]:
    """Both attentions, both masks and a random V on one small start."""
    x, eye = sphere(5, 3, seed=1), np.eye(3)
    found: dict[str, Check] = {}
    for attention, mask, value in ((0, 0, 0), (0, 1, 2), (1, 0, 0), (1, 1, 1)):
        W = weights(value, 3, 1)
        V = eye if W.V is None else np.asarray(W.V).reshape(3, 3)
        dyn = Dynamics(W, beta=2.0, normalise=ATTENTIONS[attention], mask=MASKS[mask])
        own = simulate(dyn, x, 0.5, 0.005, save=[0.5]).x[-1]

        def field(t: float, y: np.ndarray, a: int = attention, m: int = mask, V: np.ndarray = V) -> np.ndarray:
            if a == 0:
                return plain.projected(y, plain.pull(y, eye, eye, V, 2.0, bool(m)))
            seen = np.tri(len(y)) if m else np.ones((len(y), len(y)))
            weight = np.exp(2.0 * y @ y.T) * seen / seen.sum(axis=1, keepdims=True)
            return plain.projected(y, weight @ (y @ V.T))

        found[f"tokens, {ATTENTIONS[attention]}, {MASKS[mask]}"] = (own, plain.moved(field, x, 0.5, 400), 1e-7)
    return found


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
    "random V.",
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="d = 128, and most betas",
)  # fmt: skip
