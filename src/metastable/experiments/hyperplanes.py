"""Theorem 4.1: for a good triple, rescaled tokens tend to at most three parallel hyperplanes."""

from dataclasses import dataclass

import numpy as np

from metastable import plots
from metastable.experiments import claim_instances, exact_pairs
from metastable.experiments.base import Check, Data, Experiment, Figures, Films, Finding, Work
from metastable.plots.style import captioned
from metastable.theory.hypotheses import good_triple
from metastable.theory.leading import leading
from metastable.theory.theorems import THEOREMS, Triple, certified_until
from metastable.theory.verdicts import Verdict, judge_share
from metastable.trajectory import Trajectory

CLAIM = THEOREMS[2]
SOURCE = "second paper, Theorem 4.1"
FIGURE_6 = np.array([[0.64709742, 0.81911926], [0.61210449, 0.63263484]])
FIGURE_13 = np.array(
    [
        [0.2362413, 0.0599536, 0.40506019],
        [0.81321448, 0.49948705, 0.33754772],
        [0.2160645, 0.38505272, 0.14588075],
    ]
)
FIGURE_14 = np.array(
    [
        [0.18608476, 0.34391026, 0.13905949],
        [0.35244288, 0.6694859, 0.39992145],
        [0.46685606, 0.17094454, 0.42092308],
    ]
)
FIGURE_TITLES = (
    "Fig. 6: two hyperplanes in the plane",
    "Fig. 13: an eigenvalue with negative real part",
    "Fig. 14: all eigenvalues with positive real part",
    "Tokens of a random V with positive entries",
    "Tokens of a random good triple",
)
FAMILIES = ("Fig. 6", "Fig. 13", "Fig. 14", "positive entries", "Ginibre")


@dataclass(frozen=True)
class Params:
    """n = 40 tokens uniform on [-5, 5]^d, Q = K = I.

    Instances take turns: the published V of Figs 6, 13 and 14, a random V with positive entries (as those seem to be),
    and Q, K, V with normal entries of variance 1/d, drawn until they form a good
    triple.
    """

    instances: int = 200
    seed: int = 0
    n: int = 40
    side: float = 5.0
    method: str = "tsit5"
    chunk: int = 1


def triple(params: Params, index: int) -> Triple:
    """Instance ``index``, all of it drawn from the seed params.seed + index; its family is that number mod 5.

    Fig. 6 is planar. It runs in space with a third coordinate that is 0 and on which V is 0, which changes nothing
    and spares a compilation.
    """
    rng = np.random.default_rng([params.seed + index])
    tokens = rng.uniform(-params.side, params.side, (params.n, 3))
    kind, eye = (params.seed + index) % len(FAMILIES), np.eye(3)
    if kind == 0:
        tokens[:, 2] = 0.0
        return Triple(eye, eye, np.pad(FIGURE_6, ((0, 1), (0, 1))), tokens)
    if kind < 4:
        V = (FIGURE_13, FIGURE_14)[kind - 1] if kind < 3 else rng.uniform(0.0, 1.0, (3, 3))
        return Triple(eye, eye, V, tokens)
    while True:  # about one in six is good
        Q, K, V = rng.standard_normal((3, 3, 3)) / np.sqrt(3.0)
        if good_triple(Q, K, V).holds:
            return Triple(Q, K, V, tokens)


def run(params: Params, work: Work) -> Data:
    """Instances in chunks; the paths of the first of each family, for pictures."""
    details = ("hyperplanes with tokens",)
    return exact_pairs.with_pairs(
        work, CLAIM, params, triple, families=len(FAMILIES), details=details, measure=_measure
    )


def check(params: Params) -> dict[str, Check]:
    """The first instance of each family, from the start to t = 1/2 in units of 1/lambda_1."""
    cases = [triple(params, i) for i in range(len(FAMILIES))]
    return claim_instances.check(CLAIM, cases, method=params.method, chunk=params.chunk)


def _measure(case: Triple, run: Trajectory) -> dict[str, np.ndarray]:
    """By how much max_i phi_k*(z_i) ever rises, or the minimum falls, relative to where it began."""
    zeta, values, _ = run.coordinates()  # (T, n, d)
    real = np.flatnonzero((values.imag == 0.0) & (values.real > 0.0))
    kept = zeta[run.t <= certified_until(run)][..., real]  # (T, n, k)
    top = np.stack([kept.max(axis=1), -kept.min(axis=1)])  # (2, T, k)
    rise = (top[:, 1:] - np.minimum.accumulate(top, axis=1)[:, :-1]).max(axis=(0, 1), initial=0.0)  # (k,)
    return {"rise": np.asarray((rise / np.abs(kept[0]).max(axis=0)).max(initial=0.0))}


def judge(params: Params, data: Data) -> list[Verdict]:
    """Four verdicts, with the tolerances of `claim_instances` and of `exact_pairs`.

    The predicted levels of phi1* are the only ones the proof leaves: its largest value if positive, its smallest if
    negative, and 0. "Typically two" is read as: in at least 90% of instances. max phi_k*(z_i) never increases and
    min phi_k*(z_i) never decreases; errors are not amplified, so it may gain `GROWTH`. A limit on one hyperplane
    only is trivial.
    """
    seeds, eligible = range(params.seed, params.seed + params.instances), data["eligible"].tolist()
    planes = data["details"][:, 0]
    settled = data["outcome"] == claim_instances.HOLDS
    two = np.where(settled, planes <= 2, claim_instances.UNDECIDED)
    kind = (params.seed + np.arange(params.instances)) % len(FAMILIES)
    counts = [
        f"{name} {(data['outcome'][kind == k] == claim_instances.HOLDS).sum()}/{(kind == k).sum()}"
        for k, name in enumerate(FAMILIES)
    ]
    used = ", ".join(f"{int((planes[settled] == m).sum())} with {m}" for m in (1, 2, 3))
    return [
        judge_share(
            "For a good triple every rescaled token tends to one of at most three parallel hyperplanes.",
            SOURCE,
            claim_instances.outcomes(data),
            eligible=eligible,
            trivial=(planes <= 1).tolist(),
            seeds=seeds,
            notes=f"holding: {', '.join(counts)}; relative distances: {claim_instances.spread(data['residual'])}",
        ),
        judge_share(
            "Tokens typically gather on at most two of the hyperplanes; the third, through 0, needs a special start.",
            "second paper, Fig. 6",
            claim_instances.outcomes({"outcome": two}),
            kind="observation",
            required=0.9,
            eligible=eligible,
            seeds=seeds,
            notes=f"hyperplanes with tokens: {used}",
        ),
        judge_share(
            "Along every real eigenvalue >= 0 the largest coordinate never increases, the smallest never decreases.",
            "second paper, Appendix D",
            [bool(r <= claim_instances.GROWTH) for r in data["rise"]],
            seeds=seeds,
            notes=f"relative rise: {claim_instances.spread(data['rise'])}",
        ),
        exact_pairs.verdict(data, SOURCE, params.seed),
    ]


def finding(params: Params, data: Data) -> Finding:
    """How many good triples ended on at most three hyperplanes, and on how many."""
    settled = data["outcome"] == claim_instances.HOLDS
    planes = data["details"][settled, 0]
    two = int((planes == 2).sum())
    return Finding(
        "For a good triple tokens tend to at most three parallel hyperplanes (Theorem 4.1).",
        f"{int(settled.sum())} of {params.instances} instances did, {two} of them on exactly two; "
        f"{int((planes == 3).sum())} used the third.",
        FIGURE_TITLES[0],
    )


def draw(params: Params, data: Data) -> Figures:
    """Figs 6, 13 and 14: tokens, hyperplanes and their normal; and the coordinate along it."""
    figures: Figures = {}
    for k in claim_instances.shown(params, len(FAMILIES), 3):
        kind = (params.seed + k) % len(FAMILIES)
        case = triple(params, k)
        t = claim_instances.HORIZON * claim_instances.SHARES / data["rate"][k]
        d = 2 if kind == 0 else 3
        z, normal = data["path"][k][:, :, :d], leading(case.V).left[:d]
        normal = normal / np.linalg.norm(normal)
        along = z[-1] @ normal
        values = ", ".join(f"{v:.3g}" for v in np.linalg.eigvals(case.V)[:d])
        setting = f"n = {params.n}, d = {d}, beta = 1, eigenvalues of V: {values}; seed {params.seed + k}"
        figures[FIGURE_TITLES[kind]] = captioned(
            plots.snapshots(
                z,
                t,
                times=t[[0, 7, 14, 24]],
                color=(along > 0).astype(int),
                direction=normal,
                levels=(float(along.min()), float(along.max())),
                geometry="rescaled",
                columns=4 if d == 2 else 2,
            ),
            f"Rescaled tokens, the leading left eigenvector of V (arrow) and the hyperplanes they tend to. {setting}.",
        )
        if not k or not kind:
            lines = plots.projections(
                t[: claim_instances.HALF],
                (z @ normal)[: claim_instances.HALF],
                spread="range",
                groups=(along > 0).astype(int),
                ylabel=r"$\varphi_1^*(z_i)$",
                levels=(float(along.min()), float(along.max())),
            )
            what = "The coordinate along the arrow, of tokens that end on either hyperplane: mean and range."
            figures["The coordinate across the hyperplanes"] = captioned(lines, f"{what} {setting}.")
    return figures


def films(params: Params, data: Data) -> Films:
    """Fig. 14's instance, whose eigenvalues all have positive real part, until nothing moves."""
    k = claim_instances.shown(params, len(FAMILIES), 3)[-1]
    t = claim_instances.HORIZON * claim_instances.SHARES / data["rate"][k]
    run = Trajectory(t[: claim_instances.HALF], data["path"][k][: claim_instances.HALF])
    kind = FAMILIES[(params.seed + k) % len(FAMILIES)]
    caption = f"n = {params.n}, d = 3, V: {kind}, beta = 1, seed {params.seed + k}, t = 0 to {run.t[-1]:.3g}."
    return {"Tokens gather on two hyperplanes": {"tokens": run, "caption": caption}}


EXPERIMENT = Experiment(
    name="hyperplanes",
    title="Tokens tend to at most three parallel hyperplanes",
    source=SOURCE,
    figures="6, 13, 14",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 40, "method": "rk4", "chunk": 8},  # 36 decide a share of 90%
    full={"instances": 2000},
    films=films,
    text="A good triple: V's leading eigenvalue is real, positive and simple. Rescaled tokens gather on hyperplanes "
    "normal to the leading left eigenvector (the arrow), while other directions may spread. The published matrices "
    "and random ones take turns.",
    check=check,
    finding=finding,
    leaves_out="40 starts instead of 200, fixed steps instead of adaptive ones.",
)
