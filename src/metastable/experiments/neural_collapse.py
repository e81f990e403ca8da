"""Neural collapse in the flows: are clusters the vertices of a simplex?

The second paper: "Our results bear a resemblance to some geometric aspects of neural collapse": class means that form
the vertices of a simplex. Cluster means are compared with a regular simplex (`simplex.simplex_distance`, 0 for one),
and with as many random directions in the same space, which come near one by themselves where there are few of them.

| family   | flow                                                  | clusters                              |
|----------|-------------------------------------------------------|---------------------------------------|
| sphere   | first paper, beta = 9, V = I, uniform tokens in R^d   | closer than 0.05 rad at t = 15        |
| polytope | eq. (1), Q = K = V = I, the cloud [-5, 5]^d, z        | closer than 1e-2 of the extent at t=6 |
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import exact_pairs
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.self_checks import first_steps
from metastable.experiments.simplex import random_distance, simplex_distance
from metastable.initial import cube, sphere
from metastable.observables import cluster_labels
from metastable.plots.style import PALETTE, SOFT, captioned, panels, paper
from metastable.solve.simulate import simulate
from metastable.theory.verdicts import Verdict, judge_number

SOURCE = "second paper, related work (neural collapse); first paper, sec. 1"
FAMILIES = ("sphere", "polytope")
WORDS = {"sphere": "metastable clusters on the sphere", "polytope": "the vertices of the limit polytope"}
LEAST = 3  # two clusters are always a simplex
FLAT = 6.0  # the horizon in R^d, where x grows like e^t
CHUNK = 50
TITLE = "Distance of cluster means from a simplex, beside that of random directions"


@dataclass(frozen=True)
class Params:
    """``n`` tokens in each of ``dimensions``; beta is that of the sphere."""

    n: int = 64
    dimensions: tuple[int, ...] = (3, 8)
    beta: float = 9.0
    t: float = 15.0
    dt: float = 0.1
    instances: int = 100
    seed: int = 0


def instance(params: Params, family: str, d: int, seed: int) -> tuple[Dynamics, np.ndarray]:
    """The flow and its start."""
    if family == "sphere":
        return Dynamics(Weights(V=np.eye(d)), params.beta), sphere(params.n, d, seed=[seed, d])
    return Dynamics(Weights(V=np.eye(d)), 1.0, geometry="euclidean"), cube(params.n, d, seed=[seed, d])


def run(params: Params, work: Work) -> Data:
    data: Data = {}
    for family in FAMILIES:
        for d in params.dimensions:

            def chunk(first: int, last: int, family: str = family, d: int = d) -> Data:
                return _measured(params, family, d, range(params.seed + first, params.seed + last))

            found = work.parts(f"{family}-{d}", params.instances, CHUNK, chunk)
            data |= {f"{family}-{d}/{key}": value for key, value in found.items()}
    return data | work.part("groups", lambda: _groups(params))


def _groups(params: Params) -> Data:
    """Two groups of tokens in R^d (`exact_pairs`), in the shapes of the runs; added after a first look."""
    data: Data = {}
    for d in params.dimensions:
        one, count = instance(params, "polytope", d, params.seed)[0], min(CHUNK, params.instances)
        made = exact_pairs.in_space(one, np.ones(count), d, params.n, params.seed, t=FLAT, dt=params.dt)
        data |= {f"polytope-{d}/{key}": value for key, value in made.items()}
    return data


def _settings(params: Params, family: str) -> dict[str, Any]:
    return {"t": params.t if family == "sphere" else FLAT, "dt": params.dt, "save": 2}


def _measured(params: Params, family: str, d: int, seeds: range) -> Data:
    """Clusters, their distance from a simplex and that of random directions, (b,) each; nan for fewer than LEAST."""
    chosen = [instance(params, family, d, seed) for seed in seeds]
    end = simulate(chosen[0][0], np.stack([x for _, x in chosen]), **_settings(params, family)).x[-1]  # (b, n, d)
    rows = []
    for seed, x in zip(seeds, end):
        x = x if family == "sphere" else x / np.abs(x).max()
        labels = cluster_labels(x, 0.05 if family == "sphere" else 0.01, family if family == "sphere" else "euclidean")
        count = int(labels.max()) + 1
        means = np.stack([x[labels == k].mean(axis=0) for k in range(count)])
        known = count >= LEAST
        null = random_distance(count, d, np.random.default_rng([seed, 3])) if known else np.nan
        rows.append((float(count), simplex_distance(means) if known else np.nan, null))
    return {key: np.array([row[k] for row in rows]) for k, key in enumerate(("count", "own", "random"))}


def check(params: Params) -> dict[str, Check]:
    """The first steps of the first run of every family and dimension, by the engine and in the shapes of the runs."""
    found: dict[str, Check] = {}
    for family in FAMILIES:
        for d in params.dimensions:
            chosen = [instance(params, family, d, params.seed + k) for k in range(min(CHUNK, params.instances))]
            beta, one = float(chosen[0][0].beta), np.eye(d)

            def pull(y: np.ndarray, beta: float = beta, one: np.ndarray = one) -> np.ndarray:
                return plain.pull(y, one, one, one, beta)

            field = plain.on_sphere(pull) if family == "sphere" else lambda t, y, pull=pull: pull(y)
            tokens = np.stack([x for _, x in chosen])
            made = first_steps(chosen[0][0], tokens, [field], **_settings(params, family))
            found[f"tokens after the first steps, {WORDS[family]}, d = {d}"] = made
    return found


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """Cluster means are nearer to a simplex than as many random directions, by 5% of their distance or more.

    The number is own/random - 1, run by run, over runs with at least LEAST = 3 clusters; the whole interval decides.
    """
    verdicts = []
    for family in FAMILIES:
        for d in params.dimensions:
            own, null, count = (data[f"{family}-{d}/{key}"] for key in ("own", "random", "count"))
            known = np.isfinite(own)
            verdicts.append(
                judge_number(
                    f"{WORDS[family].capitalize()} in R^{d} are nearer to a simplex than random directions (relative).",
                    SOURCE,
                    own[known] / null[known] - 1.0,
                    (-1.0, -0.05),
                    kind="reading",
                    instances=len(own),
                    notes=f"distance from a simplex {own[known].mean() if known.any() else np.nan:.2f}, random "
                    f"{null[known].mean() if known.any() else np.nan:.2f}; {count.mean():.1f} clusters on average",
                )
            )
    groups = [  # they tell A^T
        exact_pairs.verdict(data, f"{SOURCE}; d = {d}", params.seed, f"polytope-{d}/", exact_pairs.COARSE)
        for d in params.dimensions
    ]
    return [*verdicts, *groups]


def draw(params: Params, data: Data) -> Figures:
    with paper():
        figure, axes = panels(None, 2, 3.0, 0.8)
        for axis, family in zip(axes, FAMILIES):
            for d, colour in zip(params.dimensions, PALETTE):
                own, null = data[f"{family}-{d}/own"], data[f"{family}-{d}/random"]
                axis.scatter(null, own, s=8, color=colour, alpha=0.6, label=f"d = {d}", linewidths=0)
            axis.plot([0.0, 1.2], [0.0, 1.2], color=SOFT, lw=0.8, ls=(0, (4, 2)))
            axis.set(xlim=(0.0, 1.2), ylim=(0.0, 1.2), xlabel="distance, random directions", title=WORDS[family])
            axis.set_ylabel("distance, cluster means" if family == "sphere" else "")
            axis.legend(loc="upper left")
    what = (
        f"A dot is a run with three clusters or more, {params.instances} seeds from {params.seed} on; n = {params.n}, "
        f"V = I, sphere: beta = {params.beta:g}, t = {params.t:g}; polytope: beta = 1, t = 6. Below the dashed line "
        "cluster means are nearer to a regular simplex than random directions."
    )
    return {TITLE: captioned(figure, what)}


def finding(params: Params, data: Data) -> Finding:
    d = params.dimensions[0]
    own, null = (np.nanmean(data[f"sphere-{d}/{key}"]) for key in ("own", "random"))
    poly, other = (np.nanmean(data[f"polytope-{d}/{key}"]) for key in ("own", "random"))
    return Finding(
        "Clusters are said to resemble neural collapse, whose class means are the vertices of a simplex.",
        f"In R^{d} metastable clusters are {own:.2f} from a simplex (random directions: {null:.2f}), the limit "
        f"polytope's vertices {poly:.2f} ({other:.2f}); 0 would be a simplex.",
        TITLE,
    )


EXPERIMENT = Experiment(
    name="neural-collapse",
    title="Are clusters the vertices of a simplex?",
    source=SOURCE,
    figures="none in the papers",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 40, "n": 40},
    full={"instances": 2000},
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="A third of the tokens.",
    text="Neural collapse puts class means at the vertices of a regular simplex. Here the means of clusters are "
    "compared with one, in the flow on the sphere and in the rescaled flow, beside as many random directions in the "
    "same space.",
)
