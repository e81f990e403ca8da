"""The experiment spectra in R^d: which limit set two eigenvalues choose, V = diag(a, b), Q = K = I.

Rescaled tokens, full attention, the limits of the second paper:

    a simple positive leading eigenvalue    at most three lines <phi*, z> = level (Theorem 4.1)
    two equal positive ones, V = aI         the boundary of a polytope, or 0 (Theorem 3.1 with the time a t)

How many levels, or vertices, there are is counted. Complex pairs have no such limit and are left out. Two groups of
tokens on the leading eigenvector move by two equations (`exact_pairs`; added after data were seen: limits look alike
with half the beta).
"""

from typing import Any, Protocol

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import exact_pairs
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Figures, Work
from metastable.plots import phase_diagram
from metastable.plots.style import captioned
from metastable.solve.simulate import simulate
from metastable.theory.limits import hyperplanes_of, polytope_of
from metastable.theory.theorems import certified_until
from metastable.theory.verdicts import Verdict, judge_share

SIDE = 5.0  # tokens start uniformly on [-SIDE, SIDE]^2, as in the paper's figures
NEAR = 0.01  # of the extent: a token is in the limit set
REACH = 8.0  # time in units of 1/a that a run must be certified for: e^-8 is far below NEAR
SAVES = 33
TOGETHER = 6  # pairs of eigenvalues at once


class Grid(Protocol):
    """What is needed of the experiment's parameters, `eigenvalue_maps.Params`."""

    @property
    def n(self) -> int: ...
    @property
    def beta(self) -> float: ...
    @property
    def a(self) -> tuple[float, ...]: ...
    @property
    def t(self) -> float: ...
    @property
    def dt(self) -> float: ...
    @property
    def slow(self) -> float: ...
    @property
    def instances(self) -> int: ...
    @property
    def seed(self) -> int: ...


def pairs(params: Grid) -> list[tuple[float, float]]:
    """Eigenvalues whose larger one, and difference unless it is 0, are at least ``slow``."""
    gaps = [(a, b) for a in params.a for b in params.a if max(a, b) >= params.slow - 1e-12]
    return [(a, b) for a, b in gaps if a == b or abs(a - b) >= params.slow - 1e-12]


def tokens(params: Grid, instance: int) -> np.ndarray:
    return np.random.default_rng([params.seed + instance, 13]).uniform(-SIDE, SIDE, (params.n, 2))


def measured(a: float, b: float, z: np.ndarray) -> tuple[float, int]:
    """The largest distance from the predicted set over the extent, and how many levels or vertices there are."""
    if a == b:
        extent = float(np.linalg.norm(z, axis=1).max())
        hull = polytope_of(z, np.eye(2))
        return float(hull.distance(z).max()) / extent, len(hull.vertices(2 * NEAR * extent))
    normal = np.array([1.0, 0.0] if a > b else [0.0, 1.0])
    planes = hyperplanes_of(z, normal)
    return float(planes.distance(z).max() / np.abs(z @ normal).max()), planes.occupied(z)


def chunk(params: Grid, first: int, last: int) -> Data:
    """Rows (pairs of the chunk, instances): residuals at the last certified save and at three quarters of it."""
    chosen = [(a, b, k) for a, b in pairs(params)[first:last] for k in range(params.instances)]
    members = [Dynamics(Weights(V=np.diag([a, b])), beta=params.beta, geometry="rescaled") for a, b, _ in chosen]
    starts = np.stack([tokens(params, k) for _, _, k in chosen])
    runs: Any = simulate(members, starts, params.t, params.dt, save=np.linspace(0.0, params.t, SAVES))
    found: dict[str, list[float]] = {name: [] for name in ("residual", "before", "reach", "levels")}
    for (a, b, _), run in zip(chosen, runs):
        end = int(np.searchsorted(run.t, certified_until(run), side="right")) - 1
        residual, levels = measured(a, b, run.x[end])
        found["residual"].append(residual)
        found["levels"].append(levels)
        found["before"].append(measured(a, b, run.x[3 * end // 4])[0])
        found["reach"].append(max(a, b) * run.t[end])
    return {f"limit {name}": np.reshape(values, (-1, params.instances)) for name, values in found.items()}


def run(params: Grid, work: Work) -> Data:
    found = work.parts("limits", len(pairs(params)), TOGETHER, lambda a, b: chunk(params, a, b))
    return found | work.part("limit-groups", lambda: groups(params))


def groups(params: Grid) -> Data:
    """Two groups of tokens on the leading eigenvector, in runs like those of the limits, at t = exact_pairs.TIME."""
    chosen = [pair for pair in pairs(params)[:TOGETHER] for _ in range(params.instances)]
    members = [Dynamics(Weights(V=np.diag(pair)), beta=params.beta, geometry="rescaled") for pair in chosen]
    rates = np.array([max(pair) for pair in chosen])
    start = np.random.default_rng([params.seed, 6]).uniform(0.5, 1.4, len(chosen)) / np.sqrt(params.beta)
    along = np.eye(2)[[int(b > a) for a, b in chosen]]
    starts, more = zip(*(exact_pairs.grouped(r * u, params.n) for r, u in zip(start, along)))
    times = exact_pairs.TIME / np.unique(rates)[::-1]
    runs: Any = simulate(members, np.stack(starts), params.t, params.dt, save=[*times, params.t])
    at = np.searchsorted(times, exact_pairs.TIME / rates)
    own = np.array([np.linalg.norm(run.x[k][0]) for run, k in zip(runs, at)])
    y = exact_pairs.places(np.full(len(chosen), params.beta), start, np.array(more), exact_pairs.TIME)
    return {"pair": own / start, "pair_exact": np.abs(y[0]) * np.exp(-exact_pairs.TIME) / start}


def judge(params: Grid, data: Data) -> list[Verdict]:
    """A run speaks against a theorem where it is outside the limit set by NEAR and no longer comes closer.

    Where it is certified for less than REACH, or its distance halves in the last quarter, it is left open.
    """
    equal = np.array([a == b for a, b in pairs(params)])
    return [
        _limit(
            data, ~equal, "A simple positive leading eigenvalue: rescaled tokens tend to at most three lines.", "4.1"
        ),
        _limit(
            data, equal, "Two equal positive eigenvalues: rescaled tokens tend to a polytope's boundary or 0.", "3.1"
        ),
        exact_pairs.verdict(data, "second paper, eq. (4)", params.seed, allowed=exact_pairs.COARSE),
    ]


def _limit(data: Data, chosen: np.ndarray, claim: str, theorem: str) -> Verdict:
    residual, before, reach, levels = (
        data[f"limit {name}"][chosen].ravel() for name in ("residual", "before", "reach", "levels")
    )
    outcomes: list[bool | None] = []
    for now, then, far in zip(residual, before, reach):
        moving = far < REACH or now < 0.5 * then
        outcomes.append(True if now <= NEAR and far >= REACH else None if moving else False)
    words = "lines" if theorem == "4.1" else "vertices"
    counts = ", ".join(f"{int(k)}: {int((levels == k).sum())}" for k in np.unique(levels))
    return judge_share(
        claim,
        f"second paper, Theorem {theorem}",
        outcomes,
        decided=0.9,
        notes=f"V = diag(a, b), Q = K = I; runs by their number of {words}: {counts}",
    )


def draw(params: Grid, data: Data) -> Figures:
    shown = np.full((len(params.a), len(params.a)), np.nan)
    for (a, b), levels in zip(pairs(params), data["limit levels"]):
        shown[params.a.index(b), params.a.index(a)] = levels.mean()
    figure = phase_diagram(
        params.a, params.a, shown, xlabel="$a$", ylabel="$b$", bar="lines, or vertices where a = b", low=1.0
    )
    return {
        "Limit sets in the plane": captioned(
            figure,
            f"Rescaled tokens in R^2, V = diag(a, b), Q = K = I, full attention, n = {params.n}, t = {params.t:g}, "
            f"{params.instances} starts: mean number of lines on which tokens end, and of vertices of their "
            "polytope where a = b; "
            "hatched: no limit is predicted, or t is too short.",
        )
    }


def check(params: Grid) -> dict[str, Check]:
    """A simple and a double eigenvalue from the start to t = 1/2."""
    found: dict[str, Check] = {}
    for a, b in ((0.5, -0.75), (0.5, 0.5)):
        V, z = np.diag([a, b]), tokens(params, 0)[:5] / SIDE
        dynamics = Dynamics(Weights(V=V), beta=params.beta, geometry="rescaled")
        own = simulate(dynamics, z, 0.5, 0.005, save=[0.5]).x[-1]

        def field(t: float, y: np.ndarray, V: np.ndarray = V) -> np.ndarray:
            return plain.rescaled(t, y, np.eye(2), np.eye(2), V, params.beta)

        found[f"rescaled tokens, diag({a:g}, {b:g})"] = (own, plain.moved(field, z, 0.5, 200), 1e-7)
    return found
