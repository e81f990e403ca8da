"""Table 1 of the second paper, measured: which limit follows from which V, Q and K, on random instances."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights, paranormal
from metastable.experiments import (
    claim_instances as parts,
)
from metastable.experiments import (
    collapse,
    exact_pairs,
    hyperplanes,
    polytope,
    polytope_times_subspace,
)
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.self_checks import first_steps
from metastable.plots.style import FAINT, INK, captioned, new_figure, paper
from metastable.solve.simulate import simulate
from metastable.theory.theorems import Claim, Triple, collapse_hypotheses
from metastable.theory.verdicts import Verdict, judge_share

CASES = ("V = cI, c > 0", "lambda_1(V) > 0 simple", "V paranormal", "V = -cI, c > 0")
SCORES = ("Q^T K > 0", "<Q phi1, K phi1> > 0", "Q^T K > 0", "Q^T K = aI")
LETTERS = (  # the same as a typeset table has it
    ("$V = cI$, $c > 0$", r"$Q^\top K > 0$"),
    (r"$\lambda_1(V) > 0$, simple", r"$\langle Q\varphi_1, K\varphi_1 \rangle > 0$"),
    ("$V$ paranormal", r"$Q^\top K > 0$"),
    ("$V = -cI$, $c > 0$", r"$Q^\top K = aI$"),
)
LIMITS = ("vertices of a polytope", "at most 3 hyperplanes", "polytope x subspace", "one cluster at 0")
SOURCES = ("Theorem 3.1", "Theorem 4.1", "Theorem 5.1", "Theorem C.5")
CLAIMS = (polytope.CLAIM, hyperplanes.CLAIM, polytope_times_subspace.CLAIM)
DETAILS = ("vertices", "hyperplanes with tokens", "vertices")
TITLE = "Table 1, measured"


@dataclass(frozen=True)
class Params:
    """``instances`` of every row: n = 40 tokens uniform on [-5, 5]^3, all matrices random.

    Unlike the experiments on single theorems, which start from the published matrices, every instance here has its own
    Q, K and V (V = cI with c in [1/2, 2] in the first row, V = -cI and Q^T K = aI in the last).
    """

    instances: int = 50
    seed: int = 0
    n: int = 40
    side: float = 5.0
    method: str = "tsit5"
    chunk: int = 2


def triple(params: Params, row: int, index: int) -> Triple:
    """Instance ``index`` of a row, drawn from the seed (params.seed + index, row)."""
    rng = np.random.default_rng([params.seed + index, row])
    Q, K = parts.random_score(3, rng)
    tokens = rng.uniform(-params.side, params.side, (params.n, 3))
    if row == 0:
        return Triple(Q, K, rng.uniform(0.5, 2.0) * np.eye(3), tokens)
    if row == 1:  # Q^T K > 0 makes every leading eigenvector a good one
        return Triple(Q, K, rng.uniform(0.0, 1.0, (3, 3)), tokens)
    if row == 2:
        return Triple(Q, K, paranormal(3, int(rng.integers(2**31))), tokens)
    a, c = rng.uniform(0.5, 2.0, 2)
    return Triple(np.sqrt(a) * np.eye(3), np.sqrt(a) * np.eye(3), -c * np.eye(3), tokens)


def run(params: Params, work: Work) -> Data:
    """Rows 1 to 3 by the rescaled flow; row 4 by the flow itself, in the units in which a = c = 1."""
    data: Data = {}
    for row, claim in enumerate(CLAIMS):

        def make(first: int, last: int, row: int = row, claim: Claim = claim) -> Data:
            cases = [triple(params, row, i) for i in range(first, last)]
            return parts.instances(claim, cases, method=params.method, chunk=params.chunk, details=(DETAILS[row],))

        made = work.parts(f"row{row}", params.instances, params.chunk, make)
        data |= {f"row{row}_{key}": value for key, value in made.items()}

    def last_row(first: int, last: int) -> Data:
        return _collapse(params, [triple(params, 3, i) for i in range(first, last)])

    made = work.parts("row3", params.instances, params.chunk, last_row)
    return data | {f"row3_{key}": value for key, value in made.items()} | work.part("pairs", lambda: _pairs(params))


def _pairs(params: Params) -> Data:
    """Two groups of tokens for each of the first three rows."""
    found: Data = {}
    for row, claim in enumerate(CLAIMS):
        cases = [triple(params, row, i) for i in range(min(params.instances, exact_pairs.COUNT))]
        made = exact_pairs.pairs(claim, cases, params.seed, params.method, params.chunk)
        found |= {f"row{row}_{key}": value for key, value in made.items()}
    return found


def check(params: Params) -> dict[str, Check]:
    """The first instance of every row."""
    found: dict[str, Check] = {}
    for row, claim in enumerate(CLAIMS):
        made = parts.check(claim, [triple(params, row, 0)], method=params.method, chunk=params.chunk)
        found |= {f"row {row + 1}: {name}": value for name, value in made.items()}
    dynamics, tokens, settings = _collapsing(params, [triple(params, 3, 0)])
    eye = np.eye(3)
    field = lambda t, x: plain.pull(x, eye, eye, -eye)  # noqa: E731
    return found | {"row 4: tokens after the first steps": first_steps(dynamics, tokens, [field], **settings)}


def _collapsing(params: Params, cases: list[Triple]) -> tuple[Dynamics, np.ndarray, dict[str, Any]]:
    """Theorem C.5's instances: y = sqrt(a) x in time ct obeys the case a = c = 1, so all run in one call."""
    eye = np.eye(3)
    dynamics = Dynamics(Weights(eye, eye, -eye), geometry="euclidean")
    spare = [cases[-1]] * (params.chunk - len(cases))
    tokens = np.stack([np.sqrt(p.form[0, 0]) * p.tokens for p in [*cases, *spare]])
    return dynamics, tokens, collapse.settings(collapse.Params(method=params.method, n=params.n))


def _collapse(params: Params, cases: list[Triple]) -> Data:
    dynamics, tokens, settings = _collapsing(params, cases)
    made = simulate(dynamics, tokens, **settings)
    measured = collapse.measured(made.x[:, : len(cases)])
    eligible = [all(f.holds is True for f in collapse_hypotheses(p)) for p in cases]
    return {key: value for key, value in measured.items() if key != "path"} | {"eligible": np.array(eligible)}


def judge(params: Params, data: Data) -> list[Verdict]:
    """One verdict per row, each with its experiment's criterion (`claim_instances`, `collapse.judge`, `exact_pairs`).

    A polytope of one vertex, or one hyperplane only, is a trivial limit.
    """
    rows = [
        judge_share(
            f"{CASES[row]}, {SCORES[row]}: {LIMITS[row]}.",
            f"second paper, Table 1, {SOURCES[row]}",
            _outcomes(params, data, row),
            eligible=data[f"row{row}_eligible"].tolist(),
            trivial=(data[f"row{row}_details"][:, 0] <= 1).tolist() if row < 3 else None,
            seeds=range(params.seed, params.seed + params.instances),
            notes=_found(params, data, row),
        )
        for row in range(4)
    ]
    pairs = [
        exact_pairs.verdict(data, f"second paper, Table 1, {SOURCES[row]}", params.seed, f"row{row}_")
        for row in range(3)
    ]
    shrinking = collapse.Params(method=params.method, n=params.n)
    return [*rows, *pairs, collapse.by_averages(data["row3_step"], collapse.times(shrinking)[1], params.seed)]


def finding(params: Params, data: Data) -> Finding:
    """How many instances of each row reach its limit."""
    seen = [f"{row[4]} ({row[3]})" for row in table(params, data)]
    return Finding(
        "Table 1 says which limit follows from which Q, K and V.",
        f"Instances that reach their row's limit: {', '.join(seen)}.",
        TITLE,
    )


def _outcomes(params: Params, data: Data, row: int) -> list[bool | None]:
    if row < 3:
        return parts.outcomes(data, f"row{row}_outcome")
    return collapse.collapsed(
        collapse.Params(n=params.n), {k: data[f"row3_{k}"] for k in ("covariance", "largest", "mean")}
    )


def _found(params: Params, data: Data, row: int) -> str:
    if row == 3:
        largest = data["row3_largest"]
        return f"largest |x| falls from {largest[:, 0].mean():.3g} to {largest[:, -1].mean():.2g}"
    found = data[f"row{row}_details"][:, 0]
    return f"{DETAILS[row]}: {found.mean():.2f}; distance: {parts.spread(data[f'row{row}_residual'])}"


def table(params: Params, data: Data) -> list[tuple[str, ...]]:
    """The rows of Table 1 with what was measured: value, score, limit, theorem, share that holds, undecided, found."""
    rows: list[tuple[str, ...]] = []
    for row, verdict in enumerate(judge(params, data)[:4]):
        outcomes = _outcomes(params, data, row)
        holds, open_ = sum(o is True for o in outcomes), sum(o is None for o in outcomes)
        measured = _found(params, data, row).split(";")[0]
        share = f"{holds}/{verdict.eligible}" + (f" ({open_} undecided)" if open_ else "")
        rows.append((CASES[row], SCORES[row], LIMITS[row], SOURCES[row], share, measured))
    return rows


def draw(params: Params, data: Data) -> Figures:
    """Table 1 as a picture."""
    head = ("value", "key and query", "limit", "source", "seen in", "measured")
    rows = [(*letters, *row[2:]) for letters, row in zip(LETTERS, table(params, data))]
    with paper():
        figure = new_figure(7.0, 1.75)
        axes = figure.add_subplot()
        axes.axis("off")
        widths = (0.15, 0.17, 0.18, 0.11, 0.13, 0.26)
        drawn = axes.table([head, *rows], cellLoc="left", colWidths=widths, loc="center", edges="horizontal")
        drawn.auto_set_font_size(False)
        drawn.set_fontsize(6.5)
        drawn.scale(1.0, 1.35)
        for (line, _), cell in drawn.get_celld().items():
            cell.set_edgecolor(FAINT if line else INK)
            cell.set_text_props(weight="bold" if line == 0 else "normal")
    caption = f"n = {params.n}, d = 3, beta = 1, random Q, K and V; {params.instances} instances of each row from seed "
    return {TITLE: captioned(figure, f"{caption}{params.seed} on.")}


EXPERIMENT = Experiment(
    name="limit-geometry",
    title="The limits at a glance",
    source="second paper, Table 1",
    figures="Table 1",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 24, "method": "rk4", "chunk": 24},
    full={"instances": 1000},
    text="Every row of the paper's Table 1 on random matrices that satisfy its hypotheses, with the share of "
    "instances in which the limit was seen.",
    check=check,
    finding=finding,
    leaves_out="24 starts of each row instead of 50, fixed steps instead of adaptive ones.",
)
