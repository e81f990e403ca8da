"""Fig. 4 of the first paper: at beta = 9 several clusters persist; how long two of them last, against quadrature.

The paper calls beta = 9 a "higher temperature" and asks for beta >= sqrt(d), "in our case 9 >= sqrt(64)". Two slips:
beta is an inverse temperature, and 64 is n, the number of tokens (d is 3).
"""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from metastable.equation.dynamics import Dynamics
from metastable.experiments.base import Data, Experiment, Figures, Films, Work
from metastable.initial import sphere
from metastable.observables import cluster_labels, sizes_of
from metastable.plots import series, snapshots
from metastable.plots.style import SOFT, one_axes, paper
from metastable.solve.simulate import simulate
from metastable.theory.two_clusters import two_cluster_time
from metastable.theory.verdicts import Verdict, judge_number, judge_share
from metastable.trajectory import Trajectory

LINK = 0.05  # radians: far below the spacing of metastable clusters, 1/sqrt(beta) = 0.33, and about a printed dot
SPREAD = 0.01  # radians: standard deviation of the tokens of a prepared cluster
MERGED = 0.2  # radians: two clusters this close are past the bottleneck
SOURCE = "first paper, sec. 4.2.2 and Fig. 4"
SLIPS = "beta is an inverse temperature, so beta = 9 is the colder setting, and sqrt(64) is sqrt(n), not sqrt(d)"


@dataclass(frozen=True)
class Params:
    """Fig. 4's setting; pairs of prepared clusters have their own number of tokens and horizon."""

    n: int = 64
    d: int = 3
    beta: float = 9.0
    dt: float = 0.1
    t: float = 15.0
    later: float = 60.0
    pair_n: int = 32
    pair_t: float = 60.0
    instances: int = 200
    seed: int = 0


def instance(params: Params, seed: int) -> tuple[Dynamics, np.ndarray]:
    """Dynamics and tokens of one causal run."""
    return Dynamics(beta=params.beta, mask="causal"), sphere(params.n, params.d, seed=seed)


def pair(params: Params, seed: int) -> tuple[Dynamics, np.ndarray, int]:
    """Two prepared clusters under full attention: dynamics, tokens, and how many tokens the first one has.

    beta is uniform in [1, 10], the angle in [0.8, 1.3], the first cluster's size in 1..n-1.
    """
    rng = np.random.default_rng([seed, 2])
    beta, phi, m = rng.uniform(1.0, 10.0), rng.uniform(0.8, 1.3), int(rng.integers(1, params.pair_n))
    centres = np.zeros((params.pair_n, params.d))
    centres[:m, 0] = 1.0
    centres[m:, :2] = np.cos(phi), np.sin(phi)
    x = centres + SPREAD * rng.standard_normal(centres.shape)
    return Dynamics(beta=beta), x / np.linalg.norm(x, axis=-1, keepdims=True), m


def run(params: Params, work: Work) -> Data:
    times = np.unique(np.concatenate([np.linspace(0.0, params.t, 61), np.linspace(params.t, params.later, 10)]))

    def chunk(first: int, last: int) -> Data:
        dynamics, _ = instance(params, params.seed)
        x0 = np.stack([instance(params, params.seed + k)[1] for k in range(first, last)])
        x = np.moveaxis(simulate(dynamics, x0, params.later, params.dt, save=times).x, 0, 1)  # (b, T, n, d)
        sizes = sizes_of(cluster_labels(x, LINK))  # (b, T, n)
        kept = x[:1] if first == 0 else x[:0]
        return {"clusters": (sizes > 1).sum(axis=-1), "alone": (sizes == 1).sum(axis=-1), "shown": kept}

    size = min(50, params.instances)
    data = work.parts("runs", params.instances, size, chunk)
    return {**data, **work.parts("pairs", params.instances, size, lambda a, b: _pairs(params, a, b)), "t": times}


def _pairs(params: Params, first: int, last: int) -> Data:
    """The angle between two clusters' centres: at the start, and at the last save before it falls below MERGED."""
    chosen = [pair(params, params.seed + k) for k in range(first, last)]
    tokens = np.stack([x for _, x, _ in chosen])
    runs = simulate([dyn for dyn, _, _ in chosen], tokens, params.pair_t, params.dt, save=241)
    rows = []
    for (dyn, _, m), one in zip(chosen, runs):
        phi = _centre_angle(one.x, m)  # (T,)
        merged = bool(phi[-1] < MERGED)
        at = max(1, int(np.argmax(phi < MERGED)) - 1) if merged else len(phi) - 1
        exact = two_cluster_time(phi[0], phi[at], float(dyn.beta), m, params.pair_n - m)
        rows.append((float(dyn.beta), m, phi[0], phi[at], one.t[at], exact, merged))
    names = ("pair_beta", "pair_m", "pair_phi0", "pair_phi1", "pair_time", "pair_exact", "pair_merged")
    return {name: np.array(column) for name, column in zip(names, zip(*rows))}


def _centre_angle(x: np.ndarray, m: int) -> np.ndarray:
    a, b = (c / np.linalg.norm(c, axis=-1, keepdims=True) for c in (x[:, :m].mean(axis=1), x[:, m:].mean(axis=1)))
    return np.asarray(2.0 * np.arcsin(np.linalg.norm(a - b, axis=-1) / 2.0))


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """A cluster has at least two tokens, linked up to LINK; "typical" means more often than not, a share of 1/2."""
    seeds = [params.seed + k for k in range(len(data["clusters"]))]
    then, end = _at(data["t"], params.t), _at(data["t"], params.later)
    clusters = data["clusters"]
    several = judge_share(
        f"At beta = {params.beta:g} several clusters coexist at t = {params.t:g}.",
        SOURCE,
        [bool(c >= 2) for c in clusters[:, then]],
        kind="observation",
        required=0.5,
        seeds=seeds,
        notes=f"mean {clusters[:, then].mean():.2f} clusters of two or more tokens and "
        f"{data['alone'][:, then].mean():.2f} lone tokens; {SLIPS}",
    )
    persist = judge_share(
        f"They persist: several are still there at t = {params.later:g}.",
        SOURCE,
        [bool(c >= 2) for c in clusters[:, end]],
        kind="observation",
        required=0.5,
        eligible=[bool(c >= 2) for c in clusters[:, then]],
        seeds=seeds,
        notes=f"mean {clusters[:, end].mean():.2f} clusters then",
    )
    fewer = judge_number(
        f"They are only metastable: between t = {params.t:g} and {params.later:g} clusters and lone tokens merge.",
        "first paper, sec. 2.5: with V = I every token ends at x_1(0)",
        (clusters + data["alone"])[:, then] - (clusters + data["alone"])[:, end],
        (0.0, np.inf),
        kind="observation",
        notes="mean number of merged groups per start, lone tokens counted",
    )
    return [several, persist, fewer, _lifetimes(params, data, seeds)]


def _lifetimes(params: Params, data: Data, seeds: list[int]) -> Verdict:
    """The lifetime of two clusters against the quadrature of the angle's equation (`metastable.theory.two_clusters`).

    Measured and exact times run from the first angle to the same last angle, so nothing is interpolated. The formula is
    for collapsed clusters. Offsets of size SPREAD change the pull between clusters by a relative (beta SPREAD)^2 (the
    first order moves the centres, which are measured), for the time unit or less in which they contract; the relative
    error of a lifetime is at most that, plus the integrator's dt^4.
    """
    off = data["pair_time"] / data["pair_exact"] - 1.0
    allowed = (data["pair_beta"] * SPREAD) ** 2 + params.dt**4
    merged = data["pair_merged"].astype(bool)
    longest = data["pair_time"][merged].max() if merged.any() else np.nan
    return judge_share(
        "Two clusters of m1 and m2 tokens at angle phi live exactly as long as the quadrature says.",
        "quadrature of the angle between two collapsed clusters",
        [bool(abs(a) <= b) for a, b in zip(off, allowed)],
        seeds=seeds,
        notes=f"largest relative error {np.abs(off).max():.1e}, allowed (beta {SPREAD:g})^2 + dt^4; "
        f"{int(merged.sum())} of {len(merged)} pairs merged by t = {params.pair_t:g} (longest lifetime {longest:.1f}); "
        "any others were compared as far as they came",
    )


def _at(t: np.ndarray, when: float) -> int:
    return int(np.abs(t - when).argmin())


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    clusters = data["clusters"].astype(float)
    mean, half = clusters.mean(axis=0), 1.96 * clusters.std(axis=0) / np.sqrt(len(clusters))
    return {
        f"Fig. 4: beta = {params.beta:g}": snapshots(
            data["shown"][0], data["t"], times=[0.0, params.t / 3, params.t, params.later], color="final"
        ),
        "Clusters of two or more tokens over time": series(
            data["t"],
            {"mean": mean},
            band={"mean": (mean - half, mean + half)},
            reference={f"t = {params.t:g}, Fig. 4": ([params.t] * 2, [0.0, float((mean + half).max())])},
            ylabel="clusters",
        ),
        "Lifetimes of two clusters, measured and exact": _draw_lifetimes(data),
    }


def _draw_lifetimes(data: Data) -> Figure:
    merged = data["pair_merged"].astype(bool)
    with paper():
        figure, panel = one_axes(None, 3.6, 2.7)
        ends = np.array([data["pair_exact"].min(), data["pair_exact"].max()])
        panel.plot(ends, ends, color=SOFT, lw=1.0, ls="--", zorder=1, label="equal")
        for chosen, marker, label in ((merged, "o", "merged"), (~merged, "^", "not yet merged")):
            if not chosen.any():
                continue
            dots = panel.scatter(
                data["pair_exact"][chosen],
                data["pair_time"][chosen],
                c=data["pair_beta"][chosen],
                s=9,
                marker=marker,
                vmin=1.0,
                vmax=10.0,
                label=label,
            )
        panel.set(xscale="log", yscale="log", xlabel="time by quadrature", ylabel="time measured")
        ticks = [v for v in (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0) if ends[0] <= v <= ends[1]]
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_ticks(ticks, [f"{v:g}" for v in ticks])
            axis.set_ticks([], minor=True)
        panel.legend()
        figure.colorbar(dots, ax=panel, fraction=0.06, pad=0.03, label="beta")
    return figure


def films(params: Params, data: Data) -> Films:
    early = data["t"] <= params.t
    shown = Trajectory(data["t"][early], data["shown"][0, early], instance(params, params.seed)[0])
    return {f"Fig. 4 as a film: beta = {params.beta:g}": {"tokens": shown, "color": "final"}}


EXPERIMENT = Experiment(
    name="metastable-states",
    title="Several clusters at beta = 9",
    source=SOURCE,
    figures="Fig. 4",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 12, "n": 32, "later": 30.0, "pair_n": 16, "pair_t": 30.0},
    full={"instances": 2000},
    films=films,
    text="The same tokens as in Fig. 3 at beta = 9: causal attention, V = I. Clusters persist at t = 15 and most of "
    "them longer, but not for ever. How long two clusters last is known exactly for full attention; prepared pairs "
    "with random sizes, angles and beta are run until they merge and compared with that quadrature, which grows like "
    "e^{beta (1 - cos phi)}.",
)
