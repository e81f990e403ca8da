"""Eigenvalue structure controls clusters: how many there are and when, over the two eigenvalues of V on the circle.

Real pairs diag(a, b) and complex pairs a +- ib, full and causal attention. Known: the first causal token is
e^{tV} x / |e^{tV} x|; consensus on an eigenvector of eigenvalue a attracts at the rates a and a - b; with a complex
pair a token lags its leader by an angle that shrinks at the rate a times the attention it pays. The limits of rescaled
tokens in the plane, over the same eigenvalues, are in `eigenvalue_limits`.
"""

from dataclasses import dataclass

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import eigenvalue_limits
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.closing_rates import rates_of
from metastable.experiments.second_token import angle_to_first, judge_multiples
from metastable.initial import sphere
from metastable.observables import cluster_count
from metastable.plots import phase_diagram
from metastable.plots.style import captioned, panels, paper
from metastable.solve.simulate import simulate
from metastable.theory.verdicts import Verdict, judge_number, judge_share

SOURCE = "both papers: eigenvalues of V decide the limit"
LINK = 0.05  # radians
SOON = 3  # saved time at which the second token is looked at
MASKS, PAIRS = ("full", "causal"), ("real", "complex")
TITLES = {"real": "diag$(a, b)$", "complex": r"$a \pm ib$"}


@dataclass(frozen=True)
class Params:
    """Eigenvalues on even grids; a pair of rates below ``slow`` is too slow for the horizon to decide."""

    n: int = 16
    beta: float = 1.0
    a: tuple[float, ...] = (-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0)
    b: tuple[float, ...] = (0.25, 0.5, 1.0, 1.5, 2.0)
    t: float = 60.0
    dt: float = 0.1
    times: int = 61
    slow: float = 0.25
    instances: int = 6  # starts for every pair
    seed: int = 0


def pairs(params: Params, kind: str) -> list[tuple[float, float]]:
    """(a, b): the real eigenvalues in any order, or a +- ib."""
    return [(a, b) for a in params.a for b in (params.a if kind == "real" else params.b)]


def matrix(kind: str, a: float, b: float) -> np.ndarray:
    return np.diag([a, b]) if kind == "real" else np.array([[a, -b], [b, a]])


def first_token(kind: str, a: float, b: float, x: np.ndarray, times: np.ndarray) -> np.ndarray:
    """e^{tV} x / |e^{tV} x| at every time, (T, 2): two exponentials, or a rotation."""
    if kind == "real":
        grown = np.exp(np.outer(times, np.array([a, b]) - max(a, b))) * x
        return np.asarray(grown / np.linalg.norm(grown, axis=1, keepdims=True))
    turned = (x[0] + 1j * x[1]) * np.exp(1j * b * times)
    return np.stack([turned.real, turned.imag], axis=1)


def chunk(params: Params, kind: str, mask: str, first: int, last: int) -> Data:
    """Rows (pairs of the chunk, instances, ...)."""
    chosen = pairs(params, kind)[first:last]
    starts = np.stack([sphere(params.n, 2, seed=params.seed + k) for k in range(params.instances)])
    times = np.linspace(0.0, params.t, params.times)
    dynamics = [Dynamics(Weights(V=matrix(kind, *p)), beta=params.beta, mask=mask) for p in chosen for _ in starts]
    tokens = np.concatenate([starts] * len(chosen))
    runs = simulate(dynamics, tokens, params.t, params.dt, save=times)
    x = np.stack([run.x for run in runs])  # (pairs instances, T, n, 2)
    counts = cluster_count(x, LINK)
    axis = np.array([0 if a >= b else 1 for a, b in chosen]).repeat(len(starts))
    leading = np.abs(np.take_along_axis(x[:, -1], axis[:, None, None], axis=2)[..., 0]).min(axis=1)
    turn = np.unwrap(np.arctan2(x[:, :, 0, 1], x[:, :, 0, 0]), axis=1)
    exact = np.stack([first_token(kind, *p, s[0], times) for p in chosen for s in starts])
    found = {
        "counts": counts,
        "aligned": leading,  # the least |cosine| with the leading eigenvector
        "speed": (turn[:, -1] - turn[:, -11]) / (times[-1] - times[-11]),
        "first off": np.abs(x[:, :, 0] - exact).max(axis=(1, 2)),
        "second": angle_to_first(x[:, [0, SOON]]),
        **rates_of(x, times, axis),
    }
    shape = (len(chosen), params.instances)
    return {name: np.asarray(values, dtype=float).reshape(*shape, *values.shape[1:]) for name, values in found.items()}


def run(params: Params, work: Work) -> Data:
    found: Data = {}
    for kind in PAIRS:
        for mask in MASKS:
            part = work.parts(
                f"{kind}-{mask}", len(pairs(params, kind)), 30,
                lambda a, b, kind=kind, mask=mask: chunk(params, kind, mask, a, b),  # type: ignore[misc]
            )  # fmt: skip
            found |= {f"{name} {kind} {mask}": values for name, values in part.items()}
    return found | eigenvalue_limits.run(params, work)


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    judges = (_first_token, _second_token, _real, _complex, _speed, _negative)
    return [*(one(params, data) for one in judges), *_rates(params, data), *eigenvalue_limits.judge(params, data)]


def _first_token(params: Params, data: Data) -> Verdict:
    """RK4's own error over the horizon: |V| <= 2.3 and dt = 0.1 give less than 1e-4 in the phase of a rotation."""
    off = np.concatenate([data[f"first off {kind} causal"].ravel() for kind in PAIRS])
    return judge_share(
        "The first causal token is e^{tV} x / |e^{tV} x| for every pair of eigenvalues.",
        "closed form of the first token",
        [bool(value <= 1e-3) for value in off],
        notes=f"largest difference {off.max():.1e}, over all times",
    )


def _second_token(params: Params, data: Data) -> Verdict:
    same = [k for k, (a, b) in enumerate(pairs(params, "real")) if a == b]
    t = float(np.linspace(0.0, params.t, params.times)[SOON])
    return judge_multiples(params.a, data["second real causal"][same], t, params.beta)


def _decided(params: Params, kind: str) -> np.ndarray:
    """Pairs whose rates towards consensus are at least ``slow``: a and a - b (real, a the larger), a (complex)."""
    rates = [(max(p), abs(p[0] - p[1])) if kind == "real" else (p[0],) for p in pairs(params, kind)]
    return np.array([min(r) >= params.slow - 1e-12 for r in rates])


def _real(params: Params, data: Data) -> Verdict:
    """Tokens within LINK of plus or minus the leading eigenvector at the horizon; causal."""
    chosen = _decided(params, "real")
    aligned = data["aligned real causal"][chosen].ravel()
    return judge_share(
        "A simple positive leading eigenvalue: every causal token ends at plus or minus its eigenvector.",
        SOURCE,
        [bool(value >= np.cos(LINK)) for value in aligned],
        kind="observation",
        required=0.9,
        notes=f"{int(chosen.sum())} pairs with a, a - b >= {params.slow:g}, {params.instances} starts",
    )


def _complex(params: Params, data: Data) -> Verdict:
    """a > 0: the lag phi behind a token obeys phi' = P (-a sin phi - b (1 - cos phi)) for two tokens, 0 attracts."""
    chosen = _decided(params, "complex")
    counts = data["counts complex causal"][chosen][..., -1].ravel()
    return judge_share(
        "A complex pair a +- ib with a > 0: causal tokens gather in one cluster, which turns.",
        SOURCE,
        [bool(value == 1) for value in counts],
        kind="observation",
        required=0.9,
        notes=f"{int(chosen.sum())} pairs with a >= {params.slow:g}; mean clusters {counts.mean():.2f}",
    )


def _speed(params: Params, data: Data) -> Verdict:
    """The speed of the first token over the last times, divided by b."""
    b = np.array([p[1] for p in pairs(params, "complex")])[:, None]
    ratio = (data["speed complex causal"] / b)[_decided(params, "complex")].ravel()
    return judge_number(
        "The cluster of a complex pair a +- ib turns with the speed b.", SOURCE, ratio, (0.999, 1.001), exact=True
    )


def _negative(params: Params, data: Data) -> Verdict:
    """Both eigenvalues at most -slow, full attention; "opposite sides" is read as two clusters."""
    chosen = np.array([max(p) <= -params.slow + 1e-12 for p in pairs(params, "real")])
    counts = data["counts real full"][chosen][..., -1].ravel()
    return judge_share(
        "Negative eigenvalues: tokens end in two clusters at opposite sides of the circle.",
        "first paper, sec. 4.2.3 and Fig. 5, read as both eigenvalues negative",
        [bool(value == 2) for value in counts],
        kind="reading",
        required=0.5,
        notes=f"full attention, {int(chosen.sum())} pairs; clusters and lone tokens left: {counts.mean():.2f}",
    )


def _rates(params: Params, data: Data) -> list[Verdict]:
    """Full attention that has ended in one cluster on the leading eigenvector; a tenth is left for the fit.

    The linearisation there has the rate a for every displacement of tokens against each other, and a - b for one of all
    tokens together.
    """
    chosen = [(k, max(p), abs(p[0] - p[1])) for k, p in enumerate(pairs(params, "real")) if _decided(params, "real")[k]]
    found = []
    for name, place, words in (("closing", 1, "closes at the rate a"), ("turning", 2, "turns to it at the rate a - b")):
        ratio = np.concatenate([data[f"{name} real full"][row[0]] / row[place] for row in chosen])
        found.append(
            judge_number(
                f"A cluster near the eigenvector of the larger eigenvalue a {words}, b the smaller.",
                "linearisation at consensus",
                ratio[np.isfinite(ratio)],
                (0.9, 1.1),
                instances=len(ratio),
                notes="fitted rate over theory, runs that ended in one cluster",
            )
        )
    return found


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    times = np.linspace(0.0, params.t, params.times)
    figures = {}
    means = {
        "count": "Means over starts; lone tokens count.",
        "time": "Means over the starts that came to two clusters or one; hatched: none did.",
    }
    for measure, words in (("count", "clusters at the end"), ("time", "time to two clusters or one")):
        with paper():
            figure, axes = panels(None, 4, 2.9, 0.8, 0.25, columns=2)
            for (kind, mask), ax in zip([(k, m) for k in PAIRS for m in MASKS], axes):
                counts = data[f"counts {kind} {mask}"]  # (pairs, instances, T)
                few = counts <= 2
                when = np.where(few.any(axis=-1), times[few.argmax(axis=-1)], np.nan)
                values = counts[..., -1].mean(axis=1) if measure == "count" else _mean(when)
                other = params.a if kind == "real" else params.b
                shown = values.reshape(len(params.a), len(other)).T
                phase_diagram(
                    params.a, other, shown, xlabel="$a$", ylabel="$b$", bar=words, ax=ax,
                    title=f"{TITLES[kind]}, {mask}",
                    low=1.0 if measure == "count" else 0.0, high=float(params.n) if measure == "count" else params.t,
                )  # fmt: skip
        figures[words.capitalize()] = captioned(
            figure,
            f"{words.capitalize()} over the eigenvalues of V, circle, n = {params.n}, beta = {params.beta:g}, "
            f"Q = K = I, t = {params.t:g}, {params.instances} starts, seeds from {params.seed} on. {means[measure]}",
        )
    return figures | eigenvalue_limits.draw(params, data)


def _mean(when: np.ndarray) -> np.ndarray:
    """Mean over the starts that got there, nan where none did."""
    there = np.isfinite(when)
    total = np.where(there, when, 0.0).sum(axis=1)
    return np.where(there.any(axis=1), total / np.maximum(there.sum(axis=1), 1), np.nan)


def check(params: Params) -> dict[str, Check]:
    x, eye = sphere(5, 2, seed=4), np.eye(2)
    found: dict[str, Check] = {}
    for kind, mask in (("real", "full"), ("complex", "causal")):
        V = matrix(kind, 0.5, -0.75)
        own = simulate(Dynamics(Weights(V=V), beta=params.beta, mask=mask), x, 1.0, 0.01, save=[1.0]).x[-1]

        def field(t: float, y: np.ndarray, V: np.ndarray = V, causal: bool = mask == MASKS[1]) -> np.ndarray:
            return plain.projected(y, plain.pull(y, eye, eye, V, params.beta, causal))

        found[f"tokens, {kind} pair, {mask}"] = (own, plain.moved(field, x, 1.0, 200), 1e-7)
    return found | eigenvalue_limits.check(params)


def finding(params: Params, data: Data) -> Finding:
    up, down = (
        data["counts complex causal"][np.array([s * p[0] > 0 for p in pairs(params, "complex")])][..., -1].mean()
        for s in (1, -1)
    )
    return Finding(
        "The eigenvalues of V decide how many clusters there are.",
        f"Complex pairs a +- ib end in {up:.1f} clusters (or lone tokens) on average when a > 0 and in {down:.1f} "
        f"when a < 0 (causal, n = {params.n}).",
        "Clusters at the end",
    )


EXPERIMENT = Experiment(
    name="spectra",
    title="Clusters over the eigenvalues of V",
    source=SOURCE,
    figures="beyond the papers' figures",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 10, "a": (-1.0, -0.5, 0.5, 1.0), "b": (0.5, 1.0, 1.5), "n": 8, "slow": 0.5, "t": 40.0},
    full={"instances": 60},
    text="Tokens on the circle, V with two real eigenvalues or a complex pair. How many clusters are left at the end, "
    "and when there are at most two, over both eigenvalues, for full and causal attention. In the plane: the limit set "
    "that the second paper's theorems predict for rescaled tokens.",
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="most pairs of eigenvalues",
)
