"""How long a metastable state lasts, over beta and n: two clusters at a right angle, against the exact quadrature.

The angle phi between collapsed clusters of m1 and m2 tokens obeys one equation (`metastable.theory.two_clusters`); its
quadrature grows like e^{beta (1 - cos phi)}, that is e^beta from a right angle.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.plots import phase_diagram, series
from metastable.plots.style import captioned
from metastable.solve.simulate import simulate
from metastable.theory.intervals import bootstrap_interval
from metastable.theory.two_clusters import two_cluster_time
from metastable.theory.verdicts import Verdict, judge_number, judge_share

SOURCE = "first paper, sec. 4.2.2; quadrature of the two-cluster angle"
SPREAD = 0.01  # radians: standard deviation of the tokens of a cluster at the start
ANGLE, MERGED = np.pi / 2, 0.2  # radians: at the start, and past the bottleneck
STEEP = 4.0  # beta from which on the exponential law is fitted


@dataclass(frozen=True)
class Params:
    """Sizes n with the first cluster's share drawn for each instance; dt is small beside 1/beta."""

    ns: tuple[int, ...] = (4, 8, 16, 32)
    betas: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
    d: int = 3
    dt: float = 0.1
    saves: int = 400
    instances: int = 48
    seed: int = 0


def start(params: Params, n: int, seed: int) -> tuple[np.ndarray, int]:
    """Two clusters at a right angle, up to SPREAD: tokens, and how many the first has (half, or a drawn number)."""
    rng = np.random.default_rng([seed, n, 3])
    m = n // 2 if seed % 2 == 0 else int(rng.integers(1, n))
    x = np.zeros((n, params.d))
    x[:m, 0], x[m:, 1] = 1.0, 1.0
    x += SPREAD * rng.standard_normal(x.shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True), m


def horizon(n: int, beta: float) -> float:
    """A quarter longer than the longest of any shares of n tokens lasts."""
    return 1.25 * max(two_cluster_time(ANGLE, MERGED, beta, m, n - m) for m in {1, n // 2}) + 1.0


def lifetimes(params: Params, n: int, beta: float, first: int, last: int) -> Data:
    """Measured and exact time from the first angle to the last one above MERGED, and the whole lifetime."""
    starts = [start(params, n, params.seed + k) for k in range(first, last)]
    times = np.linspace(0.0, horizon(n, beta), params.saves)
    x = simulate(Dynamics(beta=beta), np.stack([s for s, _ in starts]), float(times[-1]), params.dt, save=times).x
    rows = []
    for k, (_, m) in enumerate(starts):
        phi = angle(x[:, k], m)
        merged = bool(phi[-1] < MERGED)
        at = max(1, int(np.argmax(phi < MERGED)) - 1) if merged else len(phi) - 1
        exact = two_cluster_time(float(phi[0]), float(phi[at]), beta, m, n - m)
        rest = two_cluster_time(float(phi[at]), MERGED, beta, m, n - m) if merged else np.nan
        rows.append((m, times[at], exact, times[at] + rest))
    return {name: np.array(column, dtype=float) for name, column in zip(("m", "time", "exact", "life"), zip(*rows))}


def angle(x: np.ndarray, m: int) -> np.ndarray:
    """The angle between the centres of the first m tokens and of the others, (T,)."""
    a, b = (c / np.linalg.norm(c, axis=-1, keepdims=True) for c in (x[:, :m].mean(axis=1), x[:, m:].mean(axis=1)))
    return np.asarray(2.0 * np.arcsin(np.linalg.norm(a - b, axis=-1) / 2.0))


def run(params: Params, work: Work) -> Data:
    """Arrays (ns, betas, instances)."""
    cells = [(n, beta) for n in params.ns for beta in params.betas]
    parts = []
    for n, beta in cells:
        make = partial(lifetimes, params, n, beta)
        parts.append(work.parts(f"n{n}-beta{beta:g}", params.instances, params.instances, make))
    shape = (len(params.ns), len(params.betas), params.instances)
    return {name: np.stack([part[name] for part in parts]).reshape(shape) for name in parts[0]}


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """Offsets of size SPREAD change the pull by a relative (beta SPREAD)^2 while they contract, the integrator dt^4."""
    betas = np.array(params.betas)[None, :, None]
    off = np.abs(data["time"] / data["exact"] - 1.0)
    allowed = np.broadcast_to((betas * SPREAD) ** 2 + params.dt**4, off.shape)
    exact = judge_share(
        "Two clusters live exactly as long as the quadrature of their angle says, for every n, share and beta.",
        SOURCE,
        [bool(a <= b) for a, b in zip(off.ravel(), allowed.ravel())],
        notes=f"largest relative error {off.max():.1e}; one outcome for each n, beta and start",
    )
    return [exact, _exponential(params, data), _sizes(params, data)]


def slopes(params: Params, data: Data) -> tuple[np.ndarray, float]:
    """d log(lifetime) / d beta of every even pair from STEEP on (nan: did not merge), and that of the quadrature."""
    chosen = np.array(params.betas) >= min(STEEP, sorted(params.betas)[-3])
    beta = np.array(params.betas)[chosen]
    logs = np.log(data["life"][:, chosen])[:, :, _even(params)]  # (ns, betas, even pairs)
    centred = beta - beta.mean()
    found = np.einsum("b,nbk->nk", centred, logs) / np.square(centred).sum()
    theory = np.log([two_cluster_time(ANGLE, MERGED, b) for b in beta])
    return found.ravel(), float(centred @ theory / np.square(centred).sum())


def _even(params: Params) -> np.ndarray:
    """Which instances have even clusters: those of an even seed, see `start`."""
    return np.asarray((params.seed + np.arange(params.instances)) % 2 == 0)


def _exponential(params: Params, data: Data) -> Verdict:
    """log T is beta (1 - cos phi) minus log(2 beta sin phi): a straight line but for the logarithm.

    The quadrature's own slope over the same betas is the prediction; a start that is off a right angle by SPREAD
    changes 1 - cos phi, and so the slope, by about SPREAD: 0.02 is allowed on the mean.
    """
    found, theory = slopes(params, data)
    off, known = found - theory, np.isfinite(found)
    return judge_number(
        "Lifetimes grow exponentially in beta, at the rate of the quadrature (1 from a right angle, less a logarithm).",
        SOURCE,
        off,
        (-0.02, 0.02),
        interval=bootstrap_interval(off[known], np.mean),
        instances=len(off),
        deciding=int(known.sum()),
        notes=f"fitted rate {np.nanmean(found):.4f}, quadrature {theory:.4f}; measured minus quadrature is judged",
    )


def _sizes(params: Params, data: Data) -> Verdict:
    """Even clusters: the equation has no n. Power of n fitted to every pair, mean over beta.

    One pair starts alike at every beta, so its powers are one number. (Changed after data had been seen: they counted
    as one for each beta, and the interval was too narrow; there are twice as many pairs since.)
    """
    logs = np.log(data["life"][:, :, _even(params)])
    centred = np.log(np.array(params.ns, dtype=float))
    centred = centred - centred.mean()
    powers = np.einsum("n,nbk->bk", centred, logs).mean(axis=0) / np.square(centred).sum()  # (even pairs,)
    return judge_number(
        "The lifetime of two even clusters does not depend on how many tokens they have.",
        SOURCE,
        powers,
        (-0.02, 0.02),
        notes="power of n, mean over beta; starts of different n differ by their spread",
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    life = np.exp(np.nanmean(np.log(data["life"][:, :, _even(params)]), axis=2))  # (ns, betas)
    beta = np.linspace(params.betas[0], params.betas[-1], 60)
    exact = [two_cluster_time(ANGLE, MERGED, b) for b in beta]
    lines = {f"n = {n}": row for n, row in zip(params.ns, life)}
    growth = series(
        params.betas, lines, reference={"quadrature": (beta, exact)}, xlabel=r"$\beta$",
        ylabel="lifetime", yscale="log", marks=True,
    )  # fmt: skip
    caption = (
        f"Two clusters at a right angle, V = I, d = {params.d}, even clusters, {int(_even(params).sum())} starts each."
    )
    diagram = phase_diagram(
        params.betas, params.ns, np.log10(life), xlabel=r"$\beta$", ylabel="tokens $n$", yscale="log",
        bar=r"$\log_{10}$ lifetime",
    )  # fmt: skip
    return {
        "Lifetimes over beta": captioned(growth, f"Geometric mean lifetime. {caption}"),
        "Lifetimes over beta and n": captioned(diagram, caption),
    }


def check(params: Params) -> dict[str, Check]:
    x, m = start(params, 6, 1)
    eye = np.eye(params.d)
    own = simulate(Dynamics(beta=5.0), x, 1.0, 0.01, save=[1.0]).x
    field = lambda t, y: plain.projected(y, plain.pull(y, eye, eye, eye, 5.0))  # noqa: E731
    there = plain.moved(field, x, 1.0, 200)
    return {"tokens": (own[-1], there, 1e-7), "angle of the clusters": (angle(own, m), angle(there[None], m), 1e-7)}


def finding(params: Params, data: Data) -> Finding:
    found, theory = slopes(params, data)
    return Finding(
        "Metastable clusters last a time that is exponential in beta.",
        f"From a right angle the logarithm of the lifetime grows by {np.nanmean(found):.3f} per unit of beta; the "
        f"quadrature says {theory:.3f}.",
        "Lifetimes over beta",
    )


EXPERIMENT = Experiment(
    name="lifetimes",
    title="Lifetimes of metastable clusters",
    source=SOURCE,
    figures="beyond the papers' figures",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"betas": (1.0, 3.0, 4.0, 5.0), "ns": (4, 8), "instances": 40, "saves": 200},
    full={"instances": 200, "betas": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)},
    text="Two clusters start at a right angle, each up to a small spread, and are run until they merge. How long that "
    "takes is known exactly for collapsed clusters, by a quadrature that grows like e^beta.",
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="beta above 5 and n above 8",
)
