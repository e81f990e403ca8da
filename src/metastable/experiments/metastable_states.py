"""Fig. 4 of the first paper: at beta = 9 several clusters persist; how long two of them last, against quadrature.

The paper calls beta = 9 a "higher temperature" and asks for beta >= sqrt(d), "in our case 9 >= sqrt(64)". Two slips:
beta is an inverse temperature, and 64 is n, the number of tokens (d is 3).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Films, Finding, Work
from metastable.experiments.lifetime_figure import lifetimes
from metastable.experiments.second_token import SAID, angle_to_first, judge_time
from metastable.experiments.self_checks import first_steps
from metastable.initial import sphere
from metastable.observables import cluster_labels, sizes_of
from metastable.plots import series, snapshots
from metastable.plots.style import captioned
from metastable.solve.simulate import simulate
from metastable.theory.intervals import mean_half_width
from metastable.theory.two_clusters import two_cluster_time
from metastable.theory.verdicts import Verdict, judge_number, judge_share
from metastable.trajectory import Trajectory

LINK = 0.05  # radians: far below the spacing of metastable clusters, 1/sqrt(beta) = 0.33, and about a printed dot
SPREAD = 0.01  # radians: standard deviation of the tokens of a prepared cluster
MERGED = 0.2  # radians: two clusters this close are past the bottleneck
SOURCE = "first paper, sec. 4.2.2 and Fig. 4"
FOUR = "Fig. 4: several clusters"
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
    times = _times(params)

    def chunk(first: int, last: int) -> Data:
        x = np.moveaxis(simulate(*_starts(params, first, last), **_settings(params)).x, 0, 1)  # (b, T, n, d)
        sizes = sizes_of(cluster_labels(x, LINK))  # (b, T, n)
        kept = x[:1] if first == 0 else x[:0]
        return {
            "clusters": (sizes > 1).sum(axis=-1),
            "alone": (sizes == 1).sum(axis=-1),
            "second": angle_to_first(x[:, [0, _at(times, params.t)]]),
            "shown": kept,
        }

    size = _size(params)
    data = work.parts("runs", params.instances, size, chunk)
    return {**data, **work.parts("pairs", params.instances, size, lambda a, b: _pairs(params, a, b)), "t": times}


def _starts(params: Params, first: int, last: int) -> tuple[Dynamics, np.ndarray]:
    """The causal dynamics, and tokens of some instances (b, n, d)."""
    made = [instance(params, params.seed + k) for k in range(first, last)]
    return made[0][0], np.stack([x for _, x in made])


def _size(params: Params) -> int:
    return min(50, params.instances)


def _times(params: Params) -> np.ndarray:
    return np.unique(np.concatenate([np.linspace(0.0, params.t, 61), np.linspace(params.t, params.later, 10)]))


def _settings(params: Params) -> dict[str, Any]:
    return {"t": params.later, "dt": params.dt, "save": _times(params)}


def check(params: Params) -> dict[str, Check]:
    """The first causal run, and the first pair of clusters under full attention."""
    one = np.eye(params.d)
    causal = plain.on_sphere(lambda x: plain.pull(x, one, one, one, params.beta, causal=True))
    chosen = [pair(params, params.seed + k) for k in range(_size(params))]
    beta = float(np.random.default_rng([params.seed, 2]).uniform(1.0, 10.0))  # the first draw of `pair`
    full = plain.on_sphere(lambda x: plain.pull(x, one, one, one, beta))
    tokens = np.stack([x for _, x, _ in chosen])
    settings = {"t": params.pair_t, "dt": params.dt, "save": 241}
    return {
        "causal tokens after the first steps": first_steps(
            *_starts(params, 0, _size(params)), [causal], **_settings(params)
        ),
        "a pair of clusters after the first steps": first_steps(
            [dyn for dyn, _, _ in chosen], tokens, [full], **settings
        ),
    }


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
    """A cluster has at least two tokens, linked up to LINK; "typical" means more often than not, a share of 1/2.

    Token 2 is compared with its quadrature by the rule of `second_token`: several clusters would be there without the
    causal mask too, and at other beta; its path would not be the same.
    """
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
    second = judge_time(data["second"], np.full(len(seeds), params.beta), params.t, seeds)
    return [several, persist, fewer, second, _lifetimes(params, data, seeds)]


def finding(params: Params, data: Data) -> Finding:
    """How many clusters there are, and how many are left later."""
    then, end = (data["clusters"][:, _at(data["t"], when)] for when in (params.t, params.later))
    off = np.abs(data["pair_time"] / data["pair_exact"] - 1.0)
    return Finding(
        f"At beta = {params.beta:g} several clusters persist (Fig. 4).",
        f"{(then >= 2).mean():.0%} of {len(then)} starts have several at t = {params.t:g}, {then.mean():.1f} on "
        f"average, and {end.mean():.1f} are left at t = {params.later:g}; two clusters live as long as a quadrature "
        f"says, to {off.max():.2%}.",
        FOUR,
    )


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
    mean, half = clusters.mean(axis=0), mean_half_width(clusters)
    setting = f"n = {params.n}, d = {params.d}, beta = {params.beta:g}, Q = K = V = I, causal"
    shown = snapshots(data["shown"][0], data["t"], times=[0.0, params.t / 3, params.t, params.later], color="final")
    counted = series(
        data["t"],
        {"mean": mean},
        band={"mean": (mean - half, mean + half)},
        reference={f"t = {params.t:g}, Fig. 4": ([params.t] * 2, [0.0, float((mean + half).max())])},
        ylabel="clusters",
    )
    many = f"{params.instances} instances from seed {params.seed} on"
    return {
        FOUR: captioned(
            shown, f"Tokens at four times, coloured by the cluster they end in. {setting}, {params.seed=}."
        ),
        "Clusters of two or more tokens over time": captioned(
            counted, f"Tokens linked up to {LINK:g} rad, mean with a 95% band of {many}. {setting}."
        ),
        "Lifetimes of two clusters, measured and exact": captioned(
            lifetimes(data),
            f"Two prepared clusters of {params.pair_n} tokens in all under full attention, Q = K = V = I, random "
            f"sizes, angles and beta (colour), run to t = {params.pair_t:g}; {many}.",
        ),
    }


def films(params: Params, data: Data) -> Films:
    early = data["t"] <= params.t
    shown = Trajectory(data["t"][early], data["shown"][0, early], instance(params, params.seed)[0])
    caption = f"n = {params.n}, d = {params.d}, beta = {params.beta:g}, Q = K = V = I, causal, seed {params.seed}, "
    caption += f"t = 0 to {params.t:g}; colours: clusters at the end."
    return {f"Fig. 4 as a film: beta = {params.beta:g}": {"tokens": shown, "color": "final", "caption": caption}}


EXPERIMENT = Experiment(
    name="metastable-states",
    title="Several clusters at beta = 9",
    source=SOURCE,
    figures="Fig. 4",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 40, "n": 32, "later": 30.0, "pair_n": 16, "pair_t": 30.0},
    full={"instances": 2000},
    films=films,
    text="The same tokens as in Fig. 3 at beta = 9: causal attention, V = I. Clusters persist at t = 15 and most of "
    "them longer, but not for ever. How long two clusters last is known exactly for full attention; prepared pairs "
    "with random sizes, angles and beta are run until they merge and compared with that quadrature, which grows like "
    "e^{beta (1 - cos phi)}. " + SAID,
    check=check,
    finding=finding,
    topic="observation",
    leaves_out="32 tokens instead of 64, 40 starts instead of 200, and what happens after t = 30.",
)
