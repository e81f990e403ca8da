"""Remark 2 of the second paper: do the limits of Theorems 3.1, 4.1 and 5.1 persist where Q^T K is not positive?

Each theorem's V is kept, and its assumption on Q^T K is broken in four ways (`FAMILIES`). For Theorem 4.1 only the
sign of <Q phi, K phi> on the leading eigenvector counts, so that matrices of every family are drawn until it is not
positive.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from scipy.spatial import ConvexHull, QhullError

from metastable.experiments import claim_instances, exact_pairs
from metastable.experiments.base import Check, Data, Experiment, Figures, Work
from metastable.experiments.base import Finding as Found
from metastable.experiments.scores_not_positive import FAMILIES, Rng
from metastable.plots import paper
from metastable.plots.style import FAINT, PALETTE, captioned, panels
from metastable.theory import hypotheses
from metastable.theory.intervals import exact_interval
from metastable.theory.leading import leading, paranormal_splitting
from metastable.theory.residuals import Finding
from metastable.theory.theorems import THEOREMS, Claim, Measurement, Triple
from metastable.theory.verdicts import Verdict, judge_share
from metastable.trajectory import Trajectory

SOURCE = "second paper, Remark 2"
SHARES_TITLE = "Limits that persist without a positive Q^T K"


@dataclass(frozen=True)
class Params:
    """40 tokens uniform on [-5, 5]^3, as in the paper's figures; ``instances`` for each theorem, families in turn."""

    n: int = 40
    d: int = 3
    side: float = 5.0
    instances: int = 200
    seed: int = 0
    method: str = "rk4"
    chunk: int = 50


# --- the three cases ----------------------------------------------------------------------------------------------


def _not_positive(p: Triple) -> Finding:
    found = hypotheses.score_positive_definite(p.Q, p.K)
    return replace(found, name="Q^T K not positive definite", holds=found.holds is not True)


def _not_positive_along(p: Triple) -> Finding:
    found = hypotheses.positive_along_leading(p.Q, p.K, p.V)
    return replace(found, name="<Q phi, K phi> <= 0", holds=found.holds is not True)


def boundary_distance(z: np.ndarray) -> np.ndarray:
    """Distance of each point (n, m) from the boundary of the hull of all, or from 0 where that is nearer.

    No form enters: it is a distance from *some* polytope, as in the theorem's statement. A hull flat to rounding is its
    own boundary; then how far points are from the flat bounds their distance.
    """
    size = np.linalg.norm(z, axis=1)
    try:
        facets = ConvexHull(z).equations  # rows (normal, offset), normal . z + offset <= 0 inside
        edge = np.abs(z @ facets[:, :-1].T + facets[:, -1]).min(axis=1)
    except (QhullError, ValueError):
        centred = z - z.mean(axis=0)
        edge = np.abs(centred @ np.linalg.svd(centred)[2][-1])
    return np.asarray(np.minimum(size, edge))


def _on_boundary(p: Triple, z: np.ndarray, attention: Callable[[], np.ndarray]) -> Measurement:
    coordinates = _coordinates(p)
    now, first = z @ coordinates.T, p.tokens @ coordinates.T  # (n, m)
    extents = [float(np.linalg.norm(tokens, axis=1).max()) for tokens in (now, first)]
    return Measurement(
        boundary_distance(now), extents[0], extents[1], "the boundary of a convex polytope, or the origin"
    )


CLAIMS: tuple[tuple[Claim, Callable[[int, Rng], np.ndarray]], ...] = (
    (
        replace(THEOREMS[1], hypotheses=lambda p: (_not_positive(p),), measure=_on_boundary),
        lambda d, rng: np.eye(d),
    ),
    (
        replace(
            THEOREMS[2],
            hypotheses=lambda p: (hypotheses.simple_leading_eigenvalue(p.V), _not_positive_along(p)),
        ),
        lambda d, rng: rng.uniform(0.0, 1.0, (d, d)),
    ),
    (
        replace(THEOREMS[3], hypotheses=lambda p: (hypotheses.paranormal(p.V), _not_positive(p)), measure=_on_boundary),
        lambda d, rng: np.diag([*np.ones(d - 1), -0.5]),
    ),
)


def instance(params: Params, case: int, seed: int) -> Triple:
    """One triple and its tokens; family and everything random come from the seed."""
    rng = np.random.default_rng([seed, case])
    tokens = rng.uniform(-params.side, params.side, (params.n, params.d))
    V = CLAIMS[case][1](params.d, rng)
    draw_scores = list(FAMILIES.values())[seed % len(FAMILIES)]
    phi = leading(V).right
    while True:
        B = draw_scores(params.d, rng)
        if (phi @ B @ phi if case == 1 else np.linalg.eigvalsh(B + B.T)[0]) <= 0.0:
            return Triple(np.eye(params.d), B, V, tokens)


def run(params: Params, work: Work) -> Data:
    data: Data = {}
    for case, (claim, _) in enumerate(CLAIMS):

        def chunk(first: int, last: int, case: int = case, claim: Claim = claim) -> Data:
            triples = [instance(params, case, params.seed + i) for i in range(first, last)]
            found = claim_instances.instances(claim, triples, method=params.method, chunk=params.chunk, measure=_moved)
            start = [claim.measure(p, p.tokens, lambda: np.eye(params.n)).extent for p in triples]
            found["shrunk"] = found["extent"] / np.array(start)
            return {key: found[key] for key in ("outcome", "residual", "shrunk", "eligible", "moved", "end")}

        made = work.parts(f"case{case}", params.instances, params.chunk, chunk)
        data |= {f"{key}-{case}": value for key, value in made.items()}
    return data | work.part("pairs", lambda: _pairs(params))


def _pairs(params: Params) -> Data:
    """Opposite groups of tokens under V = I, whose r' = r tanh(b r^2) has every sign of b."""
    cases = [instance(params, 0, params.seed + k) for k in range(min(params.instances, exact_pairs.COUNT))]
    return exact_pairs.pairs(CLAIMS[0][0], cases, params.seed, params.method, params.chunk)


def check(params: Params) -> dict[str, Check]:
    """The first instance of every theorem, from the start to t = 1/2."""
    found: dict[str, Check] = {}
    for case, (claim, _) in enumerate(CLAIMS):
        made = claim_instances.check(
            claim, [instance(params, case, params.seed)], method=params.method, chunk=params.chunk
        )
        found |= {f"{claim.name}: {name}": value for name, value in made.items()}
    return found


def _moved(p: Triple, run: Trajectory) -> dict[str, np.ndarray]:
    """How far any token went in the second half of the first run, among coordinates that do not contract."""
    zeta, values, _ = run.coordinates()
    kept = zeta[..., values.real >= 0.0]
    half = min(claim_instances.HALF, len(kept) - 1)
    return {"moved": np.abs(kept[-1] - kept[half]).max() / max(float(np.abs(kept[0]).max()), 1e-300)}


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """A verdict for each theorem and family by the criterion of `claim_instances`, and one by that of `exact_pairs`.

    Theorems 3.1 and 5.1 say more than that tokens come to the boundary: each tends to a point of it. A token settled by
    a quarter of the horizon T goes no farther than e^{-T/4} = sqrt(resolution) in its second half; an instance with a
    token that does is left undecided.

    A cloud that shrinks to a point (or a flat part, which is its own boundary; or to one hyperplane) is in the limit
    set whatever is claimed: such an instance is trivial, and where nothing else was decided the verdict is "trivial
    only". (Changed after a first look at data, in which each family had a second verdict without them.)
    """
    made = []
    for case in range(len(CLAIMS)):
        trivial = _trivial(params, data, case)
        made += [_verdict(params, data, case, k, trivial) for k in range(len(FAMILIES))]
    return [*made, exact_pairs.verdict(data, SOURCE, params.seed)]


def _verdict(params: Params, data: Data, case: int, k: int, thin: np.ndarray) -> Verdict:
    claim, family, seeds = CLAIMS[case][0], list(FAMILIES)[k], _seeds(params)
    mine = seeds % len(FAMILIES) == k
    found = claim_instances.outcomes({"outcome": _settled(data, case)[mine]})
    trivial = thin[mine]
    eligible = data[f"eligible-{case}"][mine]
    holding = trivial & np.array([o is True for o in found], dtype=bool)
    what = ("flat or a point", "one hyperplane", "flat or a point")[case]
    residuals = claim_instances.spread(data[f"residual-{case}"][mine][~trivial])
    return judge_share(
        f"The limit of {claim.name} persists with Q^T K {family}.",
        SOURCE,
        found,
        kind="observation",
        eligible=eligible.tolist(),
        trivial=trivial.tolist(),
        seeds=seeds[mine].tolist(),
        notes=f"the limit: {claim.sentence}; trivial ({what}) in {int(holding.sum())} of the {found.count(True)} that "
        f"hold; relative distances of the others: {residuals}",
    )


def finding(params: Params, data: Data) -> Found:
    """How often limits persist, and how often they are trivial."""
    good, trivial, total = 0, 0, 0
    for case in range(len(CLAIMS)):
        holds = _settled(data, case) == claim_instances.HOLDS
        good, total = good + int(holds.sum()), total + len(holds)
        trivial += int((holds & _trivial(params, data, case)).sum())
    return Found(
        "Clusters are said to persist where Q^T K is not positive (Remark 2).",
        f"{good} of {total} instances reach the theorems' limit sets, but {trivial} of them trivially: at a point, on "
        "a flat part or on one hyperplane.",
        SHARES_TITLE,
    )


def _coordinates(p: Triple) -> np.ndarray:
    """The coordinates (m, d) in which the limit of a theorem lives: all, the leading one, or those of F."""
    if np.allclose(p.V, p.V[0, 0] * np.eye(len(p.V))):
        return np.eye(len(p.V))
    splitting = paranormal_splitting(p.V)[1]
    return leading(p.V).left[None] if splitting is None else splitting.coordinates


def _trivial(params: Params, data: Data, case: int) -> np.ndarray:
    """Whether the cloud ends without width in some direction: below the resolution, relative to the start, (count,)."""
    thin = []
    for seed, end in zip(_seeds(params), data[f"end-{case}"]):
        p = instance(params, case, int(seed))
        rows = _coordinates(p).T  # (d, m)
        widths = [np.linalg.svd((z - z.mean(axis=0)) @ rows, compute_uv=False)[-1] for z in (end, p.tokens)]
        thin.append(widths[0] <= claim_instances.RESOLUTION * widths[1])
    return np.array(thin, dtype=bool)


def _seeds(params: Params) -> np.ndarray:
    return params.seed + np.arange(params.instances)


def _settled(data: Data, case: int) -> np.ndarray:
    found = data[f"outcome-{case}"]
    restless = (data[f"moved-{case}"] > np.sqrt(claim_instances.RESOLUTION)) & (case != 1)
    return np.where(restless & (found == claim_instances.HOLDS), claim_instances.UNDECIDED, found)


def start_and_end(axis: Axes, start: np.ndarray, end: np.ndarray) -> None:
    """Two coordinates of tokens (n, d): where they began, small and grey, and where they ended."""
    axis.scatter(start[:, 0], start[:, 1], s=8, color=FAINT)
    axis.scatter(end[:, 0], end[:, 1], s=16, color=PALETTE[0], edgecolor="white", linewidth=0.4, zorder=3)
    axis.set(aspect="equal", xlabel="$z_1$", ylabel="$z_2$")


def draw(params: Params, data: Data) -> Figures:
    family_of = _seeds(params) % len(FAMILIES)
    with paper():
        figure, axes = panels(None, len(CLAIMS), 2.3, ratio=0.0, extra=1.8)
        for case, axis in enumerate(axes):
            trivial = _trivial(params, data, case)
            for k in range(len(FAMILIES)):
                found = _settled(data, case)[(family_of == k) & data[f"eligible-{case}"]]
                kept = found[~trivial[(family_of == k) & data[f"eligible-{case}"]]]
                for part, place, mark in ((found, k - 0.12, "o"), (kept, k + 0.12, "D")):
                    good, total = int((part == claim_instances.HOLDS).sum()), len(part)
                    if total:
                        axis.plot(exact_interval(good, total), [place, place], color=PALETTE[k], lw=1.5)
                        axis.plot([good / total], [place], mark, color=PALETTE[k], ms=4)
            axis.set(title=CLAIMS[case][0].name, xlim=(-0.03, 1.03), ylim=(len(FAMILIES) - 0.5, -0.5))
            axis.set(xlabel="share that reaches it")
            axis.set_yticks(range(len(FAMILIES)), list(FAMILIES) if case == 0 else [""] * len(FAMILIES))
            axis.grid(True, axis="x")
        shown = [int(np.argmax(family_of == k)) for k in range(len(FAMILIES)) if (family_of == k).any()]
        ends, row = panels(None, len(shown), 1.75, extra=0.35)
        for index, axis in zip(shown, row):
            start = instance(params, 0, params.seed + index).tokens
            start_and_end(axis, start, data["end-0"][index])
            axis.set_title(list(FAMILIES)[family_of[index]])
    setting = f"n = {params.n}, d = {params.d}, beta = 1"
    return {
        SHARES_TITLE: captioned(
            figure,
            "Share of instances that reach the limit set, with 95% intervals: all (discs), and those whose limit is "
            f"not flat, a point or one hyperplane (diamonds). {setting}, {params.instances} instances of each theorem "
            f"from seed {params.seed} on, families in turn.",
        ),
        "Where tokens begin and end": captioned(
            ends,
            f"Two coordinates of the start (grey) and of the end (blue) with V = I, one instance of each family. "
            f"{setting}, seeds {params.seed} to {params.seed + len(shown) - 1}.",
        ),
    }


EXPERIMENT = Experiment(
    name="beyond-positive-definite",
    title="Without a positive Q^T K",
    source=SOURCE,
    figures="table",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 32, "chunk": 32, "n": 24},
    full={"instances": 2000},
    text="Theorems 3.1, 4.1 and 5.1 assume that Q^T K is positive (definite, or along V's leading eigenvector). Here "
    "that is broken in four ways and everything else kept. The limit sets persist, but often in a trivial form: with "
    "negative scores tokens look across the cloud instead of outwards, and the polytope shrinks towards one point. "
    "So each share is drawn twice, with and without limits that are flat, a point or one hyperplane.",
    check=check,
    finding=finding,
    topic="observation",
    leaves_out="8 starts of each family and theorem instead of 50, too few to say holds; 24 tokens instead of 40.",
)
