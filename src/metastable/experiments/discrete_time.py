"""Remarks 1 and 4 of the second paper: layers instead of time.

The forward Euler iteration (3) is a transformer whose layers share their weights. With R = I + dt V, the tokens
z^[k] = R^{-k} x^[k] follow a rescaled recursion exactly, and the limits of the theorems are said to be the same.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import claim_instances, exact_pairs
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work, judged_by_validity
from metastable.experiments.layer_recursion import identity_errors
from metastable.observables import hull_growth
from metastable.plots import paper, polytope
from metastable.plots.style import captioned, panels
from metastable.solve.simulate import simulate
from metastable.theory.theorems import THEOREMS, Claim, Triple, certified_until, settled_tokens
from metastable.theory.verdicts import Verdict, judge_share
from metastable.trajectory import Trajectory

SOURCE = "second paper, Remarks 1 and 4"
CLAIMS: tuple[Claim, ...] = (THEOREMS[1], THEOREMS[2])  # a polytope for V = I, hyperplanes for good triples
SHARES = np.array([0.0, 0.125, 0.25, 0.5, 1.0])  # of the horizon, at which tokens are kept
PAIR = 16  # layers of two groups
TITLE = "Where the same tokens end in layers of different size"


@dataclass(frozen=True)
class Params:
    """Tokens uniform on [-5, 5]^3 as in the figures; dt = 1 is a transformer, dt = 0.1 the paper's simulations."""

    n: int = 40
    d: int = 3
    side: float = 5.0
    steps: tuple[float, ...] = (0.1, 1.0)
    shown: float = 0.01
    layers: int = 10
    instances: int = 200
    seed: int = 0
    chunk: int = 50


def instance(params: Params, case: int, seed: int) -> Triple:
    """V = I (case 0) or a positive matrix in units of its leading eigenvalue (case 1); random Q^T K > 0."""
    rng = np.random.default_rng([seed, case])
    tokens = rng.uniform(-params.side, params.side, (params.n, params.d))
    Q, K = claim_instances.random_score(params.d, rng)
    V = np.eye(params.d) if case == 0 else rng.uniform(0.0, 1.0, (params.d, params.d))
    triple = Triple(Q, K, V, tokens)
    return Triple(Q, K, V / CLAIMS[case].rate(triple), tokens)


# --- runs ---------------------------------------------------------------------------------------------------------


def run(params: Params, work: Work) -> Data:
    def chunk(first: int, last: int) -> Data:
        seeds = [params.seed + i for i in range(first, last)]
        found: Data = {"identity": np.array([_identities(params, seed) for seed in seeds])}
        for dt in params.steps:
            triples = [[instance(params, case, seed) for seed in seeds] for case in (0, 1)]
            runs = _simulated(params, triples[0] + triples[1], dt)
            for case in (0, 1):
                mine = runs[case * len(seeds) : (case + 1) * len(seeds)]
                rows = [_measured(case, p, one) for p, one in zip(triples[case], mine)]
                found |= {f"{key}-{case}-{dt:g}": np.array([row[key] for row in rows]) for key in rows[0]}
        return found

    data = work.parts("instances", params.instances, params.chunk, chunk)
    shown = work.part("shown", lambda: _shown(params))
    return data | shown | work.part("pairs", lambda: _pairs(params))


def _pairs(params: Params) -> Data:
    """Two groups of tokens under V = I after PAIR layers of every size, and their two equations by hand.

    Rescaled lengths are |y|/(1 + dt)^k.
    """
    cases = [instance(params, 0, params.seed + k) for k in range(min(params.instances, exact_pairs.COUNT))]
    made = [exact_pairs.two_groups(case, params.seed + k) for k, case in enumerate(cases)]
    b, start, more = (np.array([row[k] for row in made]) for k in (1, 2, 3))
    found, exact = [], []
    for dt in params.steps:
        runs: list[Trajectory] = []
        for at in range(0, len(made), 2 * params.chunk):
            runs += _layers(params, [p for p, *_ in made[at : at + 2 * params.chunk]], dt, PAIR)
        found.append([float(np.linalg.norm(one.x[-1, 0])) for one in runs])
        exact.append(_lengths(b, start, more, dt))
    return {"pair": np.array(found).T, "pair_exact": np.array(exact).T}  # (instances, steps)


def _lengths(b: np.ndarray, start: np.ndarray, more: np.ndarray, dt: float) -> np.ndarray:
    y = np.stack([start, exact_pairs.OTHER * start])
    for _ in range(PAIR):
        y = y + dt * exact_pairs.pull(y, b, more)
    return np.asarray(np.abs(y[0]) / (1.0 + dt) ** PAIR)


def check(params: Params) -> dict[str, Check]:
    """Eight layers of the first instance of both cases."""
    found: dict[str, Check] = {}
    for dt in params.steps:
        cases = [instance(params, case, params.seed) for case in (0, 1)]
        for case, (p, own) in enumerate(zip(cases, _layers(params, cases, dt, 8))):
            R, x = np.eye(params.d) + dt * p.V, p.tokens
            for _ in range(8):
                x = plain.layer(x, p.Q, p.K, p.V, dt=dt)
            z = np.linalg.solve(np.linalg.matrix_power(R, 8), x.T).T
            found[f"V {case}, 8 layers of dt = {dt:g}"] = (own.x[-1], z, 1e-7 * float(np.abs(z).max()))
    return found


def _identities(params: Params, seed: int) -> list[tuple[float, float]]:
    return [identity_errors(instance(params, 1, seed), dt, params.layers) for dt in params.steps]


def _simulated(params: Params, triples: list[Triple], dt: float) -> list[Trajectory]:
    """Layers until settled attention has closed in, e^{-T/2} or less of the way being left at T/2 and T.

    A settled token closes in by 1/(1 + dt) per layer, so the horizon of continuous time, doubled, takes
    2 HORIZON/log(1 + dt) layers; rounded up to where tokens are kept.
    """
    return _layers(params, triples, dt, 8 * int(np.ceil(2.0 * claim_instances.HORIZON / np.log1p(dt) / 8.0)))


def _layers(params: Params, triples: list[Triple], dt: float, depth: int) -> list[Trajectory]:
    """So many layers (a multiple of 8) of every triple."""
    members = [Dynamics(Weights(p.Q, p.K, p.V), geometry="rescaled") for p in triples]
    spare = 2 * params.chunk - len(members)  # one shape, so that nothing is compiled twice
    tokens = np.stack([p.tokens for p in triples] + [triples[-1].tokens] * spare)
    times = depth * dt * SHARES
    with judged_by_validity():
        runs = simulate(members + members[-1:] * spare, tokens, depth * dt, dt, "layers", save=times)
    return runs[: len(triples)]


def _measured(case: int, p: Triple, run: Trajectory) -> dict[str, Any]:
    """Outcome, relative distance, and growth of the hull (V = I) of one run."""
    now, before = (_distance(case, p, run, index) for index in (-1, -2))
    known = certified_until(run) >= run.t[-1] and len(run.t) == len(SHARES)
    outcome = (
        claim_instances.HOLDS
        if now <= claim_instances.RESOLUTION
        else claim_instances.BREAKS
        if now >= 0.9 * before
        else claim_instances.UNDECIDED
    )
    growth = float(hull_growth(run.x).max()) / float(np.abs(p.tokens).max()) if case == 0 else 0.0
    eligible = all(f.holds is True for f in CLAIMS[case].hypotheses(p))
    return {
        "outcome": outcome if known else claim_instances.UNDECIDED,
        "residual": now,
        "growth": growth,
        "eligible": eligible,
    }


def _distance(case: int, p: Triple, run: Trajectory, index: int) -> float:
    z, _ = settled_tokens(run, index)
    found = CLAIMS[case].measure(p, z, lambda: np.asarray(run.attention(index))[0])
    return 0.0 if found.extent <= claim_instances.RESOLUTION * found.first_extent else found.residual


def _shown(params: Params) -> Data:
    """The first instance with V = I, in layers of every size, at the end."""
    p = instance(params, 0, params.seed)
    steps = sorted({*params.steps, params.shown}, reverse=True)
    ends = [_simulated(params, [p], dt)[0].x[-1] for dt in steps]
    return {"shown-steps": np.array(steps), "shown": np.stack(ends)}


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """The recursion by `identity_errors`, limits by the criterion of `claim_instances`, and the hull.

    For V = I a layer is a convex combination of tokens, so that the hull can only grow by rounding: some hundred
    averages of n terms, 1e-12 of the extent; the linear programs that measure it are solved to 1e-9. Allowed: 1e-8.
    """
    seeds = range(params.seed, params.seed + params.instances)
    exact, printed = data["identity"].max(axis=1).T  # (instances,) each, over step sizes
    steps = ", ".join(f"{dt:g}" for dt in params.steps)
    verdicts = [
        judge_share(
            "z = R^{-k} x follows the rescaled recursion of Remark 4 exactly, the denominator read as sum over l of "
            "e^{<Q R^k z_i, K R^k z_l>}.",
            "second paper, Remark 4",
            [bool(e <= 1.0) for e in exact],
            seeds=seeds,
            notes=f"dt = {steps}, {params.layers} layers; largest error {exact.max():.2g} of what rounding may do",
        ),
        judge_share(
            "The denominator as printed (z_l on both sides) is a slip: that recursion gives other tokens.",
            "second paper, Remark 4, eq. for z",
            [bool(e > 1.0) for e in printed],
            kind="observation",
            seeds=seeds,
        ),
    ]
    verdicts += [_limit(params, data, case, dt) for case in (0, 1) for dt in params.steps]
    growth = np.max([data[f"growth-0-{dt:g}"] for dt in params.steps], axis=0)
    hull = judge_share(
        "With V = I the convex hull of the rescaled tokens never grows from layer to layer.",
        "second paper, Remark 4",
        [bool(g <= 1e-8) for g in growth],
        seeds=seeds,
        notes=f"relative growth: {claim_instances.spread(growth)}",
    )
    return [*verdicts, hull, _two_groups(params, data)]


def _two_groups(params: Params, data: Data) -> Verdict:
    """Both sides are the same arithmetic, but for sums over n equal tokens: 1e-9 is far above rounding."""
    off = np.abs(data["pair"] / data["pair_exact"] - 1.0).max(axis=1)
    return judge_share(
        f"Two groups of tokens on one line follow the two equations eq. (3) leaves of itself, V = I, {PAIR} layers.",
        "eq. (3) for two groups",
        [bool(v <= 1e-9) for v in off],
        seeds=range(params.seed, params.seed + len(off)),
        notes=f"largest relative difference {off.max():.1e}; unlike the limit this depends on beta",
    )


def finding(params: Params, data: Data) -> Finding:
    """Whether limits are the same in layers, and whether the polytope is."""
    dt = max(params.steps)
    found = [data[f"outcome-{case}-{dt:g}"] for case in (0, 1)]
    good, total = sum(int((f == claim_instances.HOLDS).sum()) for f in found), sum(map(len, found))
    return Finding(
        "The limits are said to be the same for a transformer's discrete layers (Remarks 1 and 4).",
        f"With layers of dt = {dt:g}, {good} of {total} instances reach the limit sets of Theorems 3.1 and 4.1; the "
        "polytope is another one for each dt, and the printed recursion has a slip in its denominator.",
        TITLE,
    )


def _limit(params: Params, data: Data, case: int, dt: float) -> Verdict:
    tag = f"{case}-{dt:g}"
    return judge_share(
        f"In layers of dt = {dt:g}, as in {CLAIMS[case].name}, {CLAIMS[case].sentence}.",
        SOURCE,
        claim_instances.outcomes({"outcome": data[f"outcome-{tag}"]}),
        kind="conjecture",  # the paper says that its proofs carry over, and sketches one
        eligible=data[f"eligible-{tag}"].tolist(),
        seeds=range(params.seed, params.seed + params.instances),
        notes=f"relative distances at the end: {claim_instances.spread(data[f'residual-{tag}'])}",
    )


def draw(params: Params, data: Data) -> Figures:
    with paper():
        figure, axes = panels(None, len(data["shown"]), 2.2, extra=0.4)
        for dt, end, axis in zip(data["shown-steps"], data["shown"], axes):
            polytope(end, ax=axis)
            axis.set_title(f"layers of dt = {dt:g}")
    caption = f"Rescaled tokens at the end, a polytope each time. n = {params.n}, d = {params.d}, V = I, a random "
    return {TITLE: captioned(figure, f"{caption}Q^T K > 0, beta = 1, seed {params.seed}.")}


EXPERIMENT = Experiment(
    name="discrete-time",
    title="Layers instead of time",
    source=SOURCE,
    figures="",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 24, "chunk": 24, "shown": 0.1},
    full={"instances": 2000},
    text="A transformer with shared weights is the Euler iteration of the flow, with layers of size dt. Its rescaling "
    "is written out by hand and compared layer by layer, and the limits of Theorems 3.1 and 4.1 are looked for at dt = "
    "0.1 and at dt = 1, a layer of practice. Larger layers choose other leaders, so the polytopes differ.",
    check=check,
    finding=finding,
    leaves_out="24 starts instead of 200, and the picture with dt = 0.01.",
)
