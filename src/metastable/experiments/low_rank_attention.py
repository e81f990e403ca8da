"""Theorem 2.1: on the line attention tends to a Boolean matrix of rank 1 or 2, doubly exponentially fast."""

from dataclasses import dataclass

import numpy as np

from metastable.experiments import boolean_attention, exact_pairs, low_rank_figures
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Finding, Work
from metastable.solve.methods import METHODS
from metastable.theory import hypotheses
from metastable.theory.theorems import THEOREMS, Triple
from metastable.theory.verdicts import Verdict, judge_number, judge_share

SOURCE = "second paper, Theorem 2.1"


@dataclass(frozen=True)
class Params:
    """d = 1: n = 40 tokens uniform on [-5, 5], Q = K = V = 1 (Fig. 3), and other n (Fig. 11).

    d = 2: n = 20 tokens uniform on [-1, 1]^2, V and Q = MM^T, K = 1 (Fig. 4). d = 80: n = 40 tokens uniform on
    [-1, 1]^80, V = MM^T, Q = K = 1 (Fig. 11). M uniform on [-1, 1].

    On the line V and QK only set the units of time and length, so other scalars would be other sides of the interval.
    In the plane and beyond time is in units of 1/lambda_1(V): the paper's T = 10 and 11 are 10 and 11 lambda_1 of them.
    In many dimensions fixed steps of 0.05 cost a seventh of adaptive ones; what is measured there (who leads at the
    end, and whether attention has become Boolean) does not depend on the eighth digit. Instances not Boolean by
    then are run on to ``high_later``, from the start and in steps of 0.1: the next eigenvalue may be close.
    """

    instances: int = 200
    seed: int = 0
    n: int = 40
    side: float = 5.0
    t: float = 15.0
    other_n: tuple[int, ...] = (10, 100)
    plane: int = 200
    plane_n: int = 20
    plane_t: float = 40.0
    high: int = 200
    high_n: int = 40
    high_d: int = 80
    high_method: str = "rk4"
    high_later: float = 300.0
    method: str = "tsit5"
    chunk: int = 10


def line_tokens(params: Params, n: int, index: int) -> np.ndarray:
    """Tokens of instance ``index`` with n tokens on the line."""
    rng = np.random.default_rng([params.seed + index, n])
    return rng.uniform(-params.side, params.side, (n, 1))


def weights(params: Params, d: int, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(Q, K, V, tokens) of instance ``index`` in dimension d > 1."""
    rng = np.random.default_rng([params.seed + index, d])
    n, eye = (params.plane_n if d == 2 else params.high_n), np.eye(d)
    M, N = rng.uniform(-1.0, 1.0, (2, d, d))
    V = M @ M.T
    return (N @ N.T if d == 2 else eye), eye, V / np.linalg.eigvalsh(V)[-1], rng.uniform(-1.0, 1.0, (n, d))


def run(params: Params, work: Work) -> Data:
    """Attention over time in all settings: distances from Boolean, and its first instance for the pictures."""
    data: Data = {}
    one = np.ones((1, 1))
    for n in (params.n, *params.other_n):
        count = params.instances

        def line(first: int, last: int, n: int = n) -> Data:
            cases = [(one, one, one, line_tokens(params, n, i)) for i in range(first, last)]
            return boolean_attention.attention_of(cases, params.t, params.method, params.chunk, keep=first == 0)

        data |= {f"line{n}_{k}": v for k, v in work.parts(f"line{n}", count, params.chunk, line).items()}
    spaces = ((2, "plane", params.plane, params.method), (params.high_d, "high", params.high, params.high_method))
    for d, name, count, method in spaces:

        def space(first: int, last: int, d: int = d, method: str = method) -> Data:
            cases = [weights(params, d, i) for i in range(first, last)]
            return boolean_attention.attention_of(cases, params.plane_t, method, params.chunk, keep=first == 0)

        made = work.parts(name, min(count, params.instances), params.chunk, space)
        data |= {f"{name}_{k}": v for k, v in made.items()}
    data |= work.part("pairs", lambda: _pairs(params)) | {"plane_maps": np.stack(weights(params, 2, 0)[:2])}
    return data | (_later(params, data, work) if params.high else {})


def _pairs(params: Params) -> Data:
    """Two groups of tokens on the line, put into space as `boolean_attention` does, one start for each instance."""
    one = np.ones((1, 1))
    count = min(params.instances, exact_pairs.COUNT)
    cases = [Triple(*boolean_attention.embedded(one, one, one, line_tokens(params, params.n, i))) for i in range(count)]
    return boolean_attention.pairs(THEOREMS[0], cases, params.seed, params.method, params.chunk)


def check(params: Params) -> dict[str, Check]:
    """Attention of the first instance in every setting, early on, as `attention_of` gives it.

    A horizon of 4.5 puts the first saved times on the grid of steps, at 0.1, 0.2 and 0.3.
    """
    one = np.ones((1, 1))
    line = {f"the line, n = {n}": (one, one, one, line_tokens(params, n, 0)) for n in (params.n, *params.other_n)}
    settings = {name: (case, params.method) for name, case in line.items()}
    settings["the plane"] = (weights(params, 2, 0), params.method)
    if params.high:
        settings[f"dimension {params.high_d}"] = (weights(params, params.high_d, 0), params.high_method)
    found: dict[str, Check] = {}
    for name, ((Q, K, V, x), method) in settings.items():
        own = boolean_attention.attention_of([(Q, K, V, x)], 4.5, method, params.chunk, keep=True)["attention"][0]
        steps, allowed = (600, 1e-4) if METHODS[method].adaptive else (6, 1e-8)
        z = plain.moved(lambda t, z, Q=Q, K=K, V=V: plain.rescaled(t, z, Q, K, V), x, 0.3, steps)  # type: ignore[misc]
        found[f"attention on {name} at t = 0.3"] = (
            own[3],
            plain.attention(z @ plain.flow_of(0.3, V).T, Q, K),
            allowed,
        )
    return found


def _later(params: Params, data: Data, work: Work) -> Data:
    """Measurements in high dimension, those of slow instances at the later horizon; and each one's horizon."""
    slow = [i for i, found in enumerate(boolean_attention.boolean(data, "high_", exempt=0)) if found is not True]

    def make(first: int, last: int) -> Data:
        cases = [weights(params, params.high_d, i) for i in slow[first:last]]
        made = boolean_attention.attention_of(
            cases, params.high_later, params.high_method, params.chunk, keep=False, dt=0.1
        )
        return {key: value for key, value in made.items() if key not in ("attention", "tokens", "depth")}

    made = work.parts("later", len(slow), params.chunk, make)
    out = {f"high_{key}": data[f"high_{key}"].copy() for key in made}
    for key, value in made.items():
        out[f"high_{key}"][slow] = value
    horizon = np.full(len(data["high_rank"]), params.plane_t)
    horizon[slow] = params.high_later
    return out | {"high_horizon": horizon}


def judge(params: Params, data: Data) -> list[Verdict]:
    """Verdicts on the theorem, its rank, its rate, n, and d > 1.

    Distance of a row from Boolean: its total variation distance from the nearest row that is 1 on one of two tokens
    (the two that receive most), which must be at most 1e-3. A row that settles does so doubly exponentially, so at the
    horizon it is either far below (1e-300 is usual) or has not settled: an instance with more such rows than the
    theorem allows is undecided while any of them is still moving, and breaks the claim when they are at rest (changed
    by less than a tenth since two thirds of the horizon), within the time at which rounding left the run valid.

    Rate: for a settled row x_i' = V x_lead, so the score gap g |x_i| has a constant g = |x_lead - x_second| and |x_i|
    follows e^{Vt} up to a relative e^{-Vt} of where it began; -log(1 - P_i,lead) is that gap up to log n. The slope of
    log(-log(1 - P)) in t is therefore V = 1 up to 2 e^{-4}/2 for windows from t = 4 on of length 2 or more, and up to
    log(n)/100 from values above 100 (up to 9,000): 0.02 + 0.04 < 0.1.

    Beyond the line rest proves less (`_in_space`). The last two have the tolerances of `exact_pairs`.
    """
    base = f"line{params.n}_"
    one = np.ones((1, 1))
    scalars = hypotheses.positive_scalars(one, one, one).holds is True
    distinct = [
        hypotheses.distinct_tokens(line_tokens(params, params.n, i)).holds is True for i in range(params.instances)
    ]
    eligible = [scalars and e for e in distinct]
    seeds = range(params.seed, params.seed + params.instances)
    ranks = data[base + "rank"]
    slope = data[base + "slope"]
    shown = [f"rank {r}: {int((ranks == r).sum())}" for r in np.unique(ranks)]
    verdicts = [
        judge_share(
            "On the line (V > 0, QK > 0) attention tends to a Boolean matrix with at most two columns in use, but "
            "for at most one row.",
            SOURCE,
            boolean_attention.boolean(data, base, exempt=1),
            eligible=eligible,
            seeds=seeds,
            notes=f"row distances but the largest: {boolean_attention.spread(data[base + 'second'][:, -1])}",
        ),
        judge_share(
            "For almost every start the limit has no exceptional row: it is Boolean of rank 1 or 2.",
            SOURCE,
            boolean_attention.boolean(data, base, exempt=0),
            eligible=eligible,
            seeds=seeds,
            notes=", ".join(shown),
        ),
        judge_number(
            "Convergence is doubly exponential: log(-log(1 - P)) grows with slope V = 1.",
            "second paper, after Theorem 2.1",
            slope,
            (0.9, 1.1),
            notes=f"each value is the mean over the rows of an instance; {boolean_attention.spread(slope)}",
        ),
    ]
    for n in params.other_n:
        key = f"line{n}_"
        verdicts.append(
            judge_share(
                f"The number of tokens changes nothing: the same limit with n = {n}.",
                "second paper, Figs 3 and 11",
                boolean_attention.boolean(data, key, exempt=0),
                kind="observation",
                seeds=seeds,
                notes=f"median slope {boolean_attention.middle(data[key + 'slope']):.4f}; time until Boolean, median "
                f"{boolean_attention.middle(data[key + 'settled']):.3g} (n = {params.n}: "
                f"{boolean_attention.middle(data[base + 'settled']):.3g})",
            )
        )
    for d, key in ((2, "plane_"), (params.high_d, "high_"))[: 2 if params.high else 1]:
        verdicts.append(
            judge_share(
                f"Beyond the line too (d = {d}, V > 0, Q > 0) attention tends to a Boolean matrix of rank at most 2.",
                "second paper, Section 2, Figs 4 and 11",
                _in_space(params, data, key, d),
                kind="observation",
                seeds=range(params.seed, params.seed + len(data[key + "rank"])),
                notes=f"largest row distances: {boolean_attention.spread(data[key + 'first'][:, -1])}; leaders: "
                + ", ".join(
                    f"{r} in {int((data[key + 'leaders'] == r).sum())}" for r in np.unique(data[key + "leaders"])
                ),
            )
        )
    return [*verdicts, *boolean_attention.judged_pairs(data, SOURCE, params.seed)]


def finding(params: Params, data: Data) -> Finding:
    """How many starts on the line ended with a Boolean matrix, of which rank, and how fast."""
    base = f"line{params.n}_"
    found = boolean_attention.boolean(data, base, exempt=0)
    two = int((data[base + "rank"] == 2).sum())
    return Finding(
        "On the line attention tends to a Boolean matrix of rank 1 or 2, doubly exponentially fast (Theorem 2.1).",
        f"{found.count(True)} of {len(found)} starts did, {two} of them with rank 2; log(-log(1 - P)) grows with slope "
        f"{boolean_attention.middle(data[base + 'slope']):.3f} where V = 1 is predicted.",
        low_rank_figures.FIGURE_3,
    )


def _in_space(params: Params, data: Data, key: str, d: int) -> list[bool | None]:
    """Outcomes for d > 1, where V's second eigenvalue must have fallen behind before rest counts against the claim.

    Until e^{(lambda_1 - lambda_2) t} is large tokens see two leading directions and gather as if V were a multiple of
    the identity on both: more than two leaders look at rest, and are not. They count as such when in the last third,
    over which rest is measured, the first direction gained a factor 1/BOOLEAN on the second; else they are undecided.
    """
    found = boolean_attention.boolean(data, key, exempt=0)
    horizon = data.get(f"{key}horizon", np.full(len(found), params.plane_t))
    for i, outcome in enumerate(found):
        if outcome is False:
            second, first = np.linalg.eigvalsh(weights(params, d, i)[2])[-2:]
            if (first - second) * horizon[i] / 3.0 < np.log(1.0 / boolean_attention.BOOLEAN):
                found[i] = None
    return found


EXPERIMENT = Experiment(
    name="low-rank-attention",
    title="Attention tends to a Boolean matrix of low rank",
    source=SOURCE,
    figures="2, 3, 4, 11",
    params=Params,
    run=run,
    judge=judge,
    draw=low_rank_figures.draw,
    quick={"instances": 24, "n": 20, "other_n": (10,), "plane": 24, "high": 0, "method": "rk4", "chunk": 12},
    full={"instances": 2000, "plane": 2000},
    text="Attention of tokens on the line, in the plane and in many dimensions. On the line the left-most and "
    "right-most tokens end up with everybody's attention. The clouds show keys (green) and queries (purple), "
    "joined by lines as wide as the attention between them.",
    check=check,
    finding=finding,
    leaves_out="d = 80, n = 40 and 100; 24 starts of 20 tokens instead of 200, fixed steps instead of adaptive ones.",
)
