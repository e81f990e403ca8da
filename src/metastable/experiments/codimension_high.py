"""High-dimensional instances of `metastable.experiments.codimension`: Figs 7b and 15, in the true time and eigenvalues.

The caption of Fig. 7b says random Q and K; the published script has Q = K = I. They behave differently. Random Q and K
with entries of variance 1/d give scores of order 1 to tokens in [-1/2, 1/2]^128, attention is nearly uniform, and all
tokens gather on one subspace while t is of order 1: a limit that says little. With larger entries (variance
1/sqrt(d)), or with Q = K = I, where a token attends to itself first, several subspaces remain; but until
e^{(lambda_1 - lambda_2) t} is large tokens see two leading directions, which takes a horizon of some hundred. Those
instances are smaller (tokens as long as in Fig. 7b), and V is drawn until lambda_1 - lambda_2 >= GAP: with less,
coordinates that V makes diverge leave the range of floats, at t = 709/|lambda|, before the end.

Criterion, fixed beforehand: that of `claim_instances`, in the true time. Settled tokens close in like e^{-rate t}, so
the horizon is T = 2 ln(1000)/rate; every token within 1e-3 of one of at most three subspaces at T, or at 2 T or 4 T,
holds; a distance that at 4 T is still 0.9 of what it was at 2 T breaks; anything else is undecided. An instance
whose tokens all end on one subspace is trivial.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from metastable import plots
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights, sparse_symmetric
from metastable.experiments import claim_instances
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Figures, judged_by_validity
from metastable.plots.style import captioned, panels, paper
from metastable.solve.simulate import simulate
from metastable.theory.theorems import Claim, Triple, certified_until, settled_tokens
from metastable.trajectory import Trajectory

SCORES = ("random Q, K", "larger random Q, K", "Q = K = I")
DRAWN = 8  # directions of each sign
LONGEST = 400.0  # a horizon beyond this is not tried: undecided
GAP = 0.15


@dataclass(frozen=True)
class Size:
    """Tokens, dimension, side of the cube of the start, and step of one high-dimensional setting."""

    n: int
    d: int
    side: float
    dt: float


def triple(size: Size, seed: int, scores: str) -> Triple:
    """V symmetric and sparse, eigenvalues of modulus at least 1; Q and K normal (variance 1/d, 1/sqrt(d)), or I."""
    rng = np.random.default_rng([seed, 2])
    tokens = rng.uniform(-size.side, size.side, (size.n, size.d))
    while True:
        V = sparse_symmetric(size.d, int(rng.integers(2**31)))
        second, first = np.linalg.eigvalsh(V)[-2:]
        if scores == SCORES[0] or first - second >= GAP:
            break
    Q, K = np.eye(size.d), np.eye(size.d)
    if scores != SCORES[2]:
        Q, K = rng.standard_normal((2, size.d, size.d)) / size.d ** (0.5 if scores == SCORES[0] else 0.25)
    return Triple(Q, K, (V + V.T) / 2.0, tokens)


def moved(case: Triple, dt: float, times: np.ndarray) -> Trajectory:
    """The rescaled flow in its own time, at ``times``."""
    dynamics = Dynamics(Weights(case.Q, case.K, case.V), geometry="rescaled")
    with judged_by_validity():
        return simulate(dynamics, case.tokens, t=float(times[-1]), dt=dt, save=times)


def samples(horizon: float, dt: float) -> np.ndarray:
    """Times of a run, whole steps: every other step of the transient (t up to 16), then some to the end."""
    last = round(horizon / dt)
    early = min(last, round(16.0 / dt))
    steps = [*range(0, early, 2), *np.linspace(early, last, 17).astype(int), last // 2, last]
    return np.asarray(np.unique(steps) * dt)


def measured(claim: Claim, size: Size, seed: int, scores: str, rate: Callable[[Triple], float]) -> Data:
    """One instance run until it is judged; coordinates along some eigenvectors over the first horizon."""
    case = triple(size, seed, scores)
    first = np.ceil(claim_instances.HORIZON / rate(case) / size.dt) * size.dt
    row: Data = {}
    for doubling in range(claim_instances.DOUBLINGS + 1):
        horizon = first * 2**doubling
        if doubling and horizon > LONGEST:
            break
        run = moved(case, size.dt, samples(horizon, size.dt))
        row |= _row(claim, case, run, last=doubling == claim_instances.DOUBLINGS)
        if doubling == 0:
            row |= _coordinates(run)
        if row["outcome"] != claim_instances.UNDECIDED or certified_until(run) < horizon:
            break
    return row | {"rate": np.array(rate(case))}


def _no_attention() -> np.ndarray:
    """The conjecture is about places; its measurement asks for no attention."""
    return np.zeros((0, 0))


def _row(claim: Claim, case: Triple, run: Trajectory, last: bool) -> Data:
    end = int(np.flatnonzero(run.t <= certified_until(run))[-1])
    half = min(end, int(np.abs(run.t - run.t[-1] / 2.0).argmin()))
    now, before = (claim.measure(case, settled_tokens(run, k)[0], _no_attention) for k in (end, half))
    outcome = claim_instances.UNDECIDED
    if now.residual <= claim_instances.RESOLUTION:
        outcome = claim_instances.HOLDS
    elif last and end == len(run.t) - 1 and now.residual >= 0.9 * before.residual:
        outcome = claim_instances.BREAKS
    found = now.details()
    z = settled_tokens(run, end)[0]
    return {
        "outcome": np.array(outcome),
        "residual": np.array(now.residual),
        "reached": np.array(run.t[end]),
        "codimension": np.array(found["codimension"]),
        "trivial": np.array(one_place(z)),
    }


def one_place(z: np.ndarray) -> bool:
    """Whether all tokens (n, d) are in one place, up to the resolution, relative to how far out they are."""
    centre = z.mean(axis=0)
    size = float(np.linalg.norm(z, axis=1).max())
    return bool(np.linalg.norm(z - centre, axis=1).max() <= 2.0 * claim_instances.RESOLUTION * size)


def _coordinates(run: Trajectory) -> Data:
    """Coordinates along growing and along shrinking directions, over all of the spectrum, (T, n, DRAWN) each."""
    zeta, values, _ = run.coordinates()  # (T, n, d), largest eigenvalue first
    k = int((values.real > 0).sum())
    grown, fallen = (
        np.unique(np.linspace(a, b - 1, min(DRAWN, b - a)).astype(int)) for a, b in ((0, k), (k, len(values)))
    )
    return {
        "growing": zeta[..., grown],
        "growing_values": values.real[grown],
        "shrinking": np.abs(zeta[..., fallen]),
        "shrinking_values": values.real[fallen],
        "t": np.asarray(run.t),
    }


def many(
    claim: Claim, size: Size, seeds: Sequence[int], scores: str, rate: Callable[[Triple], float], keep: bool
) -> Data:
    """Rows of several instances; with ``keep`` the coordinates of the first as well (leading axis 1)."""
    rows = [measured(claim, size, seed, scores, rate) for seed in seeds]
    drawn = {key: rows[0][key][None] for key in ("growing", "growing_values", "shrinking", "shrinking_values", "t")}
    out = {key: np.stack([row[key] for row in rows]) for key in rows[0] if key not in drawn}
    return out | drawn if keep else out


def check(size: Size, seed: int) -> dict[str, Check]:
    """Rescaled tokens at t = 1/2 in both settings, beside the plain formulas with a step half as long."""
    out: dict[str, Check] = {}
    for scores in SCORES:
        case = triple(size, seed, scores)
        own = moved(case, size.dt / 4.0, np.array([0.0, 0.5])).x[-1]
        field = lambda t, z, p=case: plain.rescaled(t, z, p.Q, p.K, p.V)  # noqa: E731
        theirs = plain.moved(field, case.tokens, 0.5, round(4.0 / size.dt))
        out[f"rescaled tokens, {scores}"] = (own, theirs, 1e-5)
    return out


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(size: Size, data: Data, prefix: str, scores: str, seed: int) -> Figures:
    """Fig. 7b for one setting, and Fig. 15 for the caption's."""
    t, growing, values = (data[f"{prefix}{key}"][0] for key in ("t", "growing", "growing_values"))
    setting = (
        f"n = {size.n} tokens uniform on [-{size.side:g}, {size.side:g}]^{size.d}, {scores}, V symmetric and sparse "
        f"with eigenvalues of modulus at least 1, rescaled flow in its own time, seed {seed}."
    )
    after = "" if scores == SCORES[0] else f" with {scores}"
    figures = {
        f"figure 7b{after}": captioned(
            _converging(t, growing, values),
            "Coordinates along eigenvectors of V with positive eigenvalues: mean over tokens (line) and one standard "
            "deviation (shade), for each group of tokens where there are two; in two panels where there is one group, "
            f"limits above zero and below. {setting}",
        )
    }
    if scores == SCORES[0]:
        figures["figure 15"] = captioned(
            _diverging(t, data[f"{prefix}shrinking"][0], data[f"{prefix}shrinking_values"][0]),
            "Coordinates along eigenvectors of V with negative eigenvalues: mean of the modulus over tokens (line), "
            f"and from the 10th to the 90th percentile (shade). {setting}",
        )
    return figures


def _converging(t: np.ndarray, growing: np.ndarray, values: np.ndarray) -> Figure:
    lead = growing[-1, :, 0]
    two = np.ptp(lead) > 0.1 * np.abs(lead).max()  # two subspaces: a line for each, of fewer directions
    side = (lead > lead.mean()).astype(int) if two else np.zeros(len(lead), dtype=int)
    chosen = np.linspace(0, len(values) - 1, min(len(values), 3 if two else 6)).astype(int)
    shown = t <= max(16.0 if two else 8.0, _settled(t, growing[..., chosen], side))
    names = [f"$\\lambda$ = {v:.2f}" for v in values[chosen]]
    with paper():
        figure, axes = panels(None, 1 if two else 2, 5.6, 0.4, 0.3, columns=1)
        plots.projections(
            t[shown],
            growing[shown][..., chosen],
            split=not two,
            groups=side if two else None,
            names=names,
            ax=axes,
        )
        for panel in axes:
            if panel.get_legend():
                panel.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
    return figure


def _settled(t: np.ndarray, growing: np.ndarray, side: np.ndarray) -> float:
    """The second of the times t from which on tokens of a group differ by a hundredth of how far out they are at most.

    >>> line = np.array([[[0.0], [2.0]], [[1.0], [1.5]], [[1.0], [1.0]], [[1.0], [1.0]]])  # (T, n, directions)
    >>> _settled(np.array([0.0, 4.0, 8.0, 9.0]), line, np.zeros(2, dtype=int))
    9.0
    """
    spread = np.max([np.ptp(growing[:, side == s], axis=1).max(axis=-1) for s in np.unique(side)], axis=0)  # (T,)
    wide = np.flatnonzero(spread > 0.01 * np.abs(growing[-1]).max())
    return float(t[min(len(t) - 1, wide.max(initial=-1) + 2)])


def _diverging(t: np.ndarray, sizes: np.ndarray, values: np.ndarray) -> Figure:
    chosen = np.linspace(0, len(values) - 1, 4).astype(int)
    names = {k: f"$\\lambda$ = {values[k]:.2f}" for k in chosen}
    with paper():
        figure, (panel,) = panels(None, 1, 3.4, 0.72)
        plots.series(
            t,
            {name: sizes[..., k].mean(axis=1) for k, name in names.items()},
            band={name: tuple(np.quantile(sizes[..., k], [0.1, 0.9], axis=1)) for k, name in names.items()},
            yscale="log",
            ylabel=r"$|\varphi_j^*(z_i)|$",
            ax=panel,
        )
    return figure
