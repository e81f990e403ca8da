"""Theorem 3.1: with V = I and Q^T K > 0, rescaled tokens tend to the boundary of a convex polytope, or to 0."""

from dataclasses import dataclass

import numpy as np

from metastable import plots
from metastable.experiments import claim_instances, exact_pairs
from metastable.experiments.base import Check, Data, Experiment, Figures, Films, Finding, Work
from metastable.observables import hull_count, hull_growth
from metastable.plots.style import captioned
from metastable.theory.limits import polytope_of
from metastable.theory.theorems import THEOREMS, Triple
from metastable.theory.verdicts import Verdict, judge_number, judge_share
from metastable.trajectory import Trajectory

CLAIM = THEOREMS[1]
DETAILS = ("vertices", "largest distance from a vertex or 0")
SOURCE = "second paper, Theorem 3.1"
FIGURE_5 = "Fig. 5: tokens on their way to the vertices"


@dataclass(frozen=True)
class Params:
    """n = 40 tokens uniform on [-5, 5]^3, V = I (Fig. 5); every other instance has a random Q^T K > 0 instead of I."""

    instances: int = 200
    seed: int = 0
    n: int = 40
    d: int = 3
    side: float = 5.0
    method: str = "tsit5"
    chunk: int = 2


def triple(params: Params, index: int) -> Triple:
    """Instance ``index``: all its randomness comes from the seed params.seed + index."""
    rng = np.random.default_rng([params.seed + index])
    tokens = rng.uniform(-params.side, params.side, (params.n, params.d))
    eye = np.eye(params.d)
    Q, K = (eye, eye) if (params.seed + index) % 2 == 0 else claim_instances.random_score(params.d, rng)
    return Triple(Q, K, eye, tokens)


def run(params: Params, work: Work) -> Data:
    """Instances in chunks, the paths of the first two for pictures; and opposite pairs of the same triples."""
    return exact_pairs.with_pairs(work, CLAIM, params, triple, families=2, details=DETAILS, measure=_measure)


def check(params: Params) -> dict[str, Check]:
    """The first two instances, one of each family, from the start to t = 1/2."""
    return claim_instances.check(CLAIM, [triple(params, i) for i in (0, 1)], method=params.method, chunk=params.chunk)


def _measure(case: Triple, run: Trajectory) -> dict[str, np.ndarray]:
    """How far any later token gets outside an earlier hull, relative; and the vertices at the start."""
    few = np.array([0, 3, 6, 9, 13, 18, claim_instances.HALF, len(claim_instances.SHARES) - 1])
    few = few[few < len(run.t)]
    growth = hull_growth(run.x[few]).max() / np.linalg.norm(case.tokens, axis=1).max()
    return {"growth": np.asarray(growth), "start": np.asarray(hull_count(case.tokens))}


def judge(params: Params, data: Data) -> list[Verdict]:
    """Six verdicts. Tolerances, besides those of `claim_instances` and, for the last, of `exact_pairs`:

    - a token is at a vertex when it is within 2 resolutions of it: vertices are found up to one resolution, and a token
      may be one off its limit;
    - the identity of a limit point, <Qz, Kz> = max_j <Qz, K v_j>, is linear in the v_j and z, each known to a
      resolution, so it must hold to 2 resolutions of |K^T Q z| times the extent;
    - the hull's boundary only moves inwards and errors outside it are not amplified, so later tokens leave an earlier
      hull by no more than the sum of local errors (`claim_instances.GROWTH`);
    - "significantly smaller than n" is read as: on average at most half of n.

    A limit of one vertex, or of none, is trivial.
    """
    seeds = range(params.seed, params.seed + params.instances)
    settled = data["outcome"] == claim_instances.HOLDS
    vertices, far = data["details"].T  # (instances,) each
    away, away_before = far / data["extent"], data["details_before"][:, 1] / data["extent"]
    at_vertex = claim_instances.still(away, away_before, 2 * claim_instances.RESOLUTION, settled)
    identity = np.where(settled, _identity(params, data) <= 2 * claim_instances.RESOLUTION, claim_instances.UNDECIDED)
    shrinks = [bool(g <= claim_instances.GROWTH) for g in data["growth"]]
    eligible = data["eligible"].tolist()
    kept, trivial = settled & data["eligible"], (vertices <= 1).tolist()
    distances = f"relative distances at the end: {claim_instances.spread(data['residual'])}"
    return [
        judge_share(
            "With V = I and Q^T K > 0 every rescaled token tends to 0 or to the boundary of a convex polytope.",
            SOURCE,
            claim_instances.outcomes(data),
            eligible=eligible,
            trivial=trivial,
            seeds=seeds,
            notes=distances,
        ),
        judge_share(
            "For almost every start the limits are vertices of the polytope (or 0).",
            "second paper, after Theorem 3.1",
            claim_instances.outcomes({"outcome": at_vertex}),
            kind="observation",
            eligible=eligible,
            trivial=trivial,
            seeds=seeds,
            notes=f"distance from the nearest vertex, relative: {claim_instances.spread(away)}",
        ),
        judge_number(
            f"The polytope has far fewer vertices than the n = {params.n} tokens (share of n).",
            "second paper, after Theorem 3.1",
            vertices[kept] / params.n,
            (0.0, 0.5),
            kind="observation",
            instances=params.instances,
            notes=f"{claim_instances.average(vertices[kept]):.2f} vertices on average, "
            f"{claim_instances.average(data['start'][kept]):.1f} in the hull at the start",
        ),
        judge_share(
            "The convex hull of the rescaled tokens never grows.",
            "second paper, Proposition C.2",
            shrinks,
            eligible=eligible,
            seeds=seeds,
            notes=f"relative growth between saved times: {claim_instances.spread(data['growth'])}",
        ),
        judge_share(
            "Every limit point z is 0 or maximises its own score, <Qz, Kz> = max_j <Qz, K v_j> over the vertices v_j.",
            "second paper, Claim 1",
            claim_instances.outcomes({"outcome": identity}),
            eligible=eligible,
            trivial=trivial,
            seeds=seeds,
        ),
        exact_pairs.verdict(data, SOURCE, params.seed),
    ]


def finding(params: Params, data: Data) -> Finding:
    """How many starts ended at the vertices of a polytope, and how many vertices it has."""
    settled = data["outcome"] == claim_instances.HOLDS
    vertices = claim_instances.average(data["details"][settled, 0])
    return Finding(
        "With V = I and Q^T K > 0 rescaled tokens tend to the boundary of a convex polytope (Theorem 3.1).",
        f"{int(settled.sum())} of {params.instances} random starts did; of {params.n} tokens "
        f"{vertices:.1f} become its vertices on average.",
        FIGURE_5,
    )


def _identity(params: Params, data: Data) -> np.ndarray:
    """The identity's largest gap over the tokens of each instance, as a distance relative to the extent."""
    worst = []
    for i, z in enumerate(data["end"]):
        form, extent = triple(params, i).form, float(data["extent"][i])
        corners = polytope_of(z, form).vertices(claim_instances.RESOLUTION * extent)
        normals = z @ form  # (n, d)
        gap = np.abs((normals @ corners.T).max(axis=1) - (normals * z).sum(axis=1))
        length = np.linalg.norm(normals, axis=1)
        face = gap / np.where(length > 0.0, length, 1.0)
        worst.append(np.minimum(face, np.linalg.norm(z, axis=1)).max() / extent)
    return np.array(worst)


def draw(params: Params, data: Data) -> Figures:
    """Figs 1 and 5, and how many vertices there are."""
    t = claim_instances.HORIZON * claim_instances.SHARES
    path = data["path"]
    figures = {}
    form = "Q = K = I" if params.seed % 2 == 0 else "a random Q^T K > 0"
    setting = f"n = {params.n}, d = {params.d}, V = I, {form}, beta = 1, seed {params.seed}"
    if params.d in (2, 3):
        figures["Fig. 1: where tokens begin and end"] = captioned(
            plots.polytope(path[0][[0, -1]], t[[0, -1]], times=[0, t[-1]], color="final"),
            f"Rescaled tokens at t = 0 and {t[-1]:.3g}; orange: the limiting polytope. {setting}.",
        )
        figures[FIGURE_5] = captioned(
            plots.polytope(path[0], t, times=[0, 1, 2, 5], color="final", columns=2),
            f"The same start at t = 0, 1, 2 and 5; colours tell which vertex a token ends in. {setting}.",
        )
    counts = {
        "at the start": np.bincount(data["start"].astype(int), minlength=params.n + 1),
        "in the limit": np.bincount(data["details"][:, 0].astype(int), minlength=params.n + 1),
    }
    shares = {name: 1.0 * row / row.sum() for name, row in counts.items()}
    figures["How many vertices the limit has"] = captioned(
        plots.series(
            np.arange(params.n + 1), shares, marks=True, xlabel="vertices of the hull", ylabel="share of instances"
        ),
        f"Vertices of the hull of {params.n} tokens in dimension {params.d}, before and after: share of "
        f"{params.instances} instances from seed {params.seed} on, V = I, every other one with a random Q^T K > 0.",
    )
    return figures


def films(params: Params, data: Data) -> Films:
    """The first instance, until nothing moves."""
    shown = claim_instances.HALF
    run = Trajectory(claim_instances.HORIZON * claim_instances.SHARES[:shown], data["path"][0][:shown])
    caption = f"n = {params.n}, d = {params.d}, V = I, beta = 1, seed {params.seed}, t = 0 to {run.t[-1]:.3g}."
    return {"Tokens gather at the vertices": {"tokens": run, "caption": caption}}


EXPERIMENT = Experiment(
    name="polytope",
    title="Tokens tend to the vertices of a polytope",
    source=SOURCE,
    figures="1, 5",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 24, "method": "rk4", "chunk": 12},
    full={"instances": 2000},
    films=films,
    text="Tokens in space under V = I, rescaled. Every other instance has Q = K = I as in the paper's figures, the"
    " rest a random Q^T K > 0. In the pictures the orange edges are those of the limiting polytope, whose "
    "corners are the leaders; colours tell which corner a token ends in.",
    check=check,
    finding=finding,
    leaves_out="24 starts instead of 200, fixed steps instead of adaptive ones.",
)
