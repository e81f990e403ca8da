"""Theorem 5.1: for paranormal V and Q^T K > 0, tokens tend to (the boundary of a polytope, or 0) x a subspace."""

from dataclasses import dataclass

import numpy as np

from metastable import plots
from metastable.equation.weights import paranormal
from metastable.experiments import claim_instances, exact_pairs
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.plots.style import captioned
from metastable.theory.leading import paranormal_splitting
from metastable.theory.theorems import THEOREMS, Triple, certified_until
from metastable.theory.verdicts import Verdict, judge_number, judge_share
from metastable.trajectory import Trajectory

CLAIM = THEOREMS[3]
SOURCE = "second paper, Theorem 5.1"
FIGURE_8_TITLE = "Fig. 8: corners in a plane, spread across it"
FIGURE_8 = np.diag([1.0, 1.0, -0.5])


@dataclass(frozen=True)
class Params:
    """n = 40 tokens uniform on [-5, 5]^3, Q = K = I, V = diag(1, 1, -1/2) (Fig. 8).

    Every other instance has a random paranormal V instead (oblique F of dimension 2) and a random Q^T K > 0.
    """

    instances: int = 200
    seed: int = 0
    n: int = 40
    side: float = 5.0
    method: str = "tsit5"
    chunk: int = 2


def triple(params: Params, index: int) -> Triple:
    """Instance ``index``, drawn from the seed params.seed + index."""
    rng = np.random.default_rng([params.seed + index])
    tokens = rng.uniform(-params.side, params.side, (params.n, 3))
    if (params.seed + index) % 2 == 0:
        return Triple(np.eye(3), np.eye(3), FIGURE_8, tokens)
    Q, K = claim_instances.random_score(3, rng)
    return Triple(Q, K, paranormal(3, int(rng.integers(2**31))), tokens)


def run(params: Params, work: Work) -> Data:
    """Instances in chunks; the path of the first, for pictures."""
    return exact_pairs.with_pairs(work, CLAIM, params, triple, families=2, details=("vertices",), measure=_measure)


def check(params: Params) -> dict[str, Check]:
    """The first two instances, one of each family, from the start to t = 1/2."""
    return claim_instances.check(CLAIM, [triple(params, i) for i in (0, 1)], method=params.method, chunk=params.chunk)


def _measure(case: Triple, run: Trajectory) -> dict[str, np.ndarray]:
    """The spread of the coordinate in G at the last valid time over that at the start, where V contracts in G."""
    zeta, values, _ = run.coordinates()
    last = int(np.flatnonzero(run.t <= certified_until(run))[-1])
    growth = zeta[last, :, 2].std() / zeta[0, :, 2].std()
    return {"spread": np.asarray(growth if values[2].real < 0.0 else np.nan)}


def judge(params: Params, data: Data) -> list[Verdict]:
    """Four verdicts, with the tolerances of `claim_instances` and of `exact_pairs`; lambda is V's eigenvalue on F.

    Distances are those of the projections on F along G from the boundary of their hull, or from 0. "Diverges along G"
    asks that the spread along the eigenvalue mu < 0 has grown tenfold by the end: tokens that follow leaders settled
    at finite distance grow like e^{|mu| t}, which is e^{6.9} for Fig. 8. A polygon of one vertex is trivial.
    """
    eligible, seeds = data["eligible"].tolist(), range(params.seed, params.seed + params.instances)
    kept = (data["outcome"] == claim_instances.HOLDS) & data["eligible"]
    vertices = data["details"][kept, 0]
    published = (params.seed + np.arange(params.instances)) % 2 == 0
    grown = [bool(s >= 10.0) for s in data["spread"][published]]
    counts = [(data["outcome"][m] == claim_instances.HOLDS).sum() for m in (published, ~published)]
    return [
        judge_share(
            "For paranormal V and Q^T K > 0 every rescaled token tends to (the boundary of a convex polytope in F, or "
            "0) x G.",
            SOURCE,
            claim_instances.outcomes(data),
            eligible=eligible,
            trivial=(data["details"][:, 0] <= 1).tolist(),
            seeds=seeds,
            notes=f"holding: Fig. 8 {counts[0]}/{published.sum()}, random {counts[1]}/{(~published).sum()}; "
            f"relative distances: {claim_instances.spread(data['residual'])}",
        ),
        judge_number(
            f"The polygon in F has far fewer vertices than the n = {params.n} tokens (share of n).",
            "second paper, Fig. 8",
            vertices / params.n,
            (0.0, 0.5),
            kind="observation",
            instances=params.instances,
            notes=f"{claim_instances.average(vertices):.2f} vertices on average",
        ),
        judge_share(
            "With V = diag(1, 1, -1/2) tokens diverge along the third coordinate.",
            "second paper, Fig. 8",
            grown,
            kind="observation",
            seeds=(params.seed + np.flatnonzero(published)).tolist(),
            notes=f"growth of the spread: {claim_instances.spread(data['spread'][published])}",
        ),
        exact_pairs.verdict(data, SOURCE, params.seed),
    ]


def finding(params: Params, data: Data) -> Finding:
    """How many starts reached the limit, and how far tokens spread along G."""
    settled = data["outcome"] == claim_instances.HOLDS
    vertices = claim_instances.average(data["details"][settled, 0])
    return Finding(
        "For paranormal V tokens tend to the boundary of a polytope in F times the subspace G (Theorem 5.1).",
        f"{int(settled.sum())} of {params.instances} instances did, with {vertices:.1f} corners in F on average, while "
        f"the spread along G grew {np.nanmedian(data['spread']):.0f}-fold where V is negative.",
        FIGURE_8_TITLE,
    )


def draw(params: Params, data: Data) -> Figures:
    """Fig. 8 in space, each panel with its own scale, and its shadow in F with the limiting polygon."""
    (k,) = claim_instances.shown(params, 2, 1)
    t, z = claim_instances.HORIZON * claim_instances.SHARES, data["path"][k]
    shadow = z @ _plane(triple(params, k).V).T  # (T, n, 2)
    times = [0, 1, 2, 5]
    corner = np.linalg.norm(shadow[-1][:, None] - shadow[-1][None], axis=-1) < 2e-3 * params.side
    labels = corner.argmax(axis=1)  # the first token at the same place
    colour = np.unique(labels, return_inverse=True)[1]
    kind = "V = diag(1, 1, -1/2), Q = K = I" if (params.seed + k) % 2 == 0 else "a random paranormal V, Q^T K > 0"
    setting = f"t = 0, 1, 2 and 5. n = {params.n}, d = 3, {kind}, beta = 1, seed {params.seed + k}"
    return {
        FIGURE_8_TITLE: captioned(
            plots.snapshots(z, t, times=times, color=colour, scale="own", geometry="rescaled", columns=2),
            f"Rescaled tokens in space, each panel with a scale of its own, {setting}.",
        ),
        "The same seen in the plane F": captioned(
            plots.polytope(shadow, t, times=times, color=colour, columns=4),
            f"Coordinates in F along G; orange: the limiting polygon. {setting}.",
        ),
    }


def _plane(V: np.ndarray) -> np.ndarray:
    splitting = paranormal_splitting(V)[1]
    assert splitting is not None
    return splitting.coordinates  # (2, 3)


EXPERIMENT = Experiment(
    name="polytope-times-subspace",
    title="A polytope in some directions, a subspace in the others",
    source=SOURCE,
    figures="8",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 40, "method": "rk4", "chunk": 10},
    full={"instances": 2000},
    text="V is a multiple of the identity on a plane F and smaller on the rest, G. Seen in F tokens gather at the "
    "corners of a polygon; along G, where V is negative, they spread for ever (mind the scales).",
    check=check,
    finding=finding,
    leaves_out="40 starts instead of 200, fixed steps instead of adaptive ones.",
)
