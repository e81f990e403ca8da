"""Causal attention: the clusters of the plateau over beta, beside Renyi centres, in d = 2 and 3.

A Renyi centre is farther than delta from every earlier centre, a strong one from every earlier token. The theory's
scale is delta = c beta^{-1/2}: centres hardly move while the others gather around them. Centres are drawn and counted
at c = 3; beside it delta is fitted at each beta, so that there are as many centres as clusters, and c with it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.initial import sphere
from metastable.observables import cluster_labels, renyi_centers, sizes_of, strong_renyi_centers
from metastable.plots import series
from metastable.plots.style import captioned
from metastable.solve.simulate import simulate
from metastable.theory.intervals import bootstrap_interval, mean_half_width
from metastable.theory.sphere_forms import parked_centers_circle, strong_centers
from metastable.theory.verdicts import Verdict, judge_number, judge_share

SOURCE = "causal clustering: strong Renyi centres"
SCALE = 3.0  # delta = SCALE beta^{-1/2}
DELTAS = np.geomspace(0.1, np.pi, 48)  # among which the spacing is fitted
DRAWS = 2000  # of the bootstrap over instances
LINK = 0.5  # clusters are linked up to LINK beta^{-1/2}, far below the spacing of centres


@dataclass(frozen=True)
class Params:
    """Enough tokens to fill the sphere with centres; the plateau is read at t."""

    n: int = 128
    dims: tuple[int, ...] = (2, 3)
    betas: tuple[float, ...] = (4.0, 8.0, 16.0, 32.0, 64.0)
    t: float = 20.0
    dt: float = 0.1
    instances: int = 40
    seed: int = 0


def delta(beta: float) -> float:
    return float(SCALE / np.sqrt(beta))


def measured(params: Params, d: int, first: int, last: int) -> Data:
    """Counts (instances, betas): clusters of two or more, centres, strong ones; and how far tokens have moved.

    ``spaced`` (instances, DELTAS) counts the centres at other spacings.
    """
    betas = np.array(params.betas)
    x0 = np.stack([sphere(params.n, d, seed=params.seed + k) for k in range(first, last)])
    tokens = np.repeat(x0, len(betas), axis=0)
    dynamics = Dynamics(beta=np.tile(betas, len(x0)), mask="causal")
    x = simulate(dynamics, tokens, params.t, params.dt, save=[params.t]).x[0].reshape(len(x0), len(betas), params.n, d)
    found: dict[str, list[np.ndarray]] = {name: [] for name in ("clusters", "centres", "strong", "still", "others")}
    for k, beta in enumerate(params.betas):
        sizes = sizes_of(cluster_labels(x[:, k], LINK / np.sqrt(beta)))
        strong = strong_renyi_centers(x0, delta(beta))  # (instances, n)
        moved = np.arccos(np.clip((x[:, k] * x0).sum(axis=-1), -1.0, 1.0))
        found["clusters"].append((sizes > 1).sum(axis=-1))
        found["centres"].append(renyi_centers(x0, delta(beta)).sum(axis=-1))
        found["strong"].append(strong.sum(axis=-1))
        found["still"].append(_mean(moved, strong) / delta(beta))
        found["others"].append(_mean(moved, ~strong) / delta(beta))
    found["spaced"] = [renyi_centers(x0, spacing).sum(axis=-1) for spacing in DELTAS]
    return {name: np.stack(columns, axis=1).astype(float) for name, columns in found.items()}


def _mean(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Means over the chosen tokens of each instance; there is always one of either."""
    return np.asarray((values * chosen).sum(axis=-1) / np.maximum(chosen.sum(axis=-1), 1))


def run(params: Params, work: Work) -> Data:
    found: Data = {}
    for d in params.dims:
        part = work.parts(f"d{d}", params.instances, 20, lambda a, b, d=d: measured(params, d, a, b))  # type: ignore[misc]
        found |= {f"{name} {d}": values for name, values in part.items()}
    return found


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    verdicts = []
    for d in params.dims:
        verdicts += [one(params, data, d) for one in (_expected, _still, _power, _scale)]
    return [*verdicts, _same_scale(params, data)]


def _expected(params: Params, data: Data, d: int) -> Verdict:
    """Counts at all betas of an instance, divided by the sum of their expectations: the mean ratio is 1."""
    expected = sum(strong_centers(params.n, delta(b), d) for b in params.betas)
    ratio = data[f"strong {d}"].sum(axis=1) / expected
    return judge_number(
        f"Strong Renyi centres are as many as (1 - (1-c)^n)/c says, c the mass of a cap (d = {d}).",
        "expected number of strong Renyi centres",
        ratio,
        (0.93, 1.07),
        notes=f"{params.n} tokens, delta = {SCALE:g} beta^(-1/2), beta = {params.betas[0]:g} to {params.betas[-1]:g}",
    )


def _still(params: Params, data: Data, d: int) -> Verdict:
    """The mean way of strong centres, in units of delta, is shorter than that of the other tokens."""
    still, others = data[f"still {d}"], data[f"others {d}"]
    return judge_share(
        f"Strong centres move less than the other tokens (d = {d}).",
        SOURCE,
        [bool(a < b) for a, b in zip(still.mean(axis=1), others.mean(axis=1))],
        kind="observation",
        required=0.9,
        seeds=[params.seed + k for k in range(len(still))],
        notes=f"mean way by t = {params.t:g}: {still.mean():.2f} delta against {others.mean():.2f} delta",
    )


def _drawn(counts: np.ndarray) -> np.ndarray:
    """Mean counts of as many instances drawn with replacement, (DRAWS, ...): the same instances at every call."""
    chosen = np.random.default_rng(0).integers(0, len(counts), (DRAWS, len(counts)))
    return np.stack([counts[row].mean(axis=0) for row in chosen])


def _fitted_power(params: Params, values: np.ndarray) -> np.ndarray:
    """Power of beta fitted to each row of values (draws, betas)."""
    beta = np.log(np.array(params.betas))
    centred = beta - beta.mean()
    return np.asarray(np.log(values) @ centred / np.square(centred).sum())


def powers(params: Params, data: Data, name: str) -> np.ndarray:
    """Power of beta fitted to the counts of many instances: bootstrap over instances needs their mean counts."""
    return _fitted_power(params, _drawn(data[name]))


def spacings(data: Data, d: int) -> np.ndarray:
    """Spacings at which there are as many Renyi centres as clusters, on average, (draws, betas).

    Centres of the same n tokens are counted, so that what n tokens leave uncovered is on both sides.
    """
    centres = np.maximum.accumulate(_drawn(data[f"spaced {d}"])[:, ::-1], axis=1)  # more at smaller spacings
    clusters, logs = _drawn(data[f"clusters {d}"]), np.log(DELTAS)[::-1]
    return np.asarray(np.exp([np.interp(np.log(c), np.log(m), logs) for c, m in zip(clusters, centres)]))


def _scale(params: Params, data: Data, d: int) -> Verdict:
    """The fitted power of the spacing; a fifth is left for finite n and beta, as for the counts."""
    found = spacings(data, d)
    slopes = _fitted_power(params, found)
    low, high = np.quantile(slopes, [0.025, 0.975])
    scaled = found * np.sqrt(np.array(params.betas))
    ends = np.quantile(scaled, [0.025, 0.975], axis=0).T
    return judge_number(
        f"The spacing at which centres are as many as clusters falls like beta^(-1/2) (d = {d}).",
        SOURCE,
        [slopes.mean()],
        (-0.6, -0.4),
        kind="observation",
        interval=(float(low), float(high)),
        deciding=len(data[f"clusters {d}"]),
        notes="fitted c = delta beta^(1/2), with 95% intervals: "
        + ", ".join(
            f"beta {b:g}: {c:.2f} ({l:.2f} to {h:.2f})" for b, c, (l, h) in zip(params.betas, scaled.mean(axis=0), ends)
        ),
    )


def _power(params: Params, data: Data, d: int) -> Verdict:
    """Caps of radius beta^{-1/2} fill the sphere by about beta^{(d-1)/2}; a fifth is left for finite n."""
    found = powers(params, data, f"clusters {d}")
    low, high = np.quantile(found, [0.025, 0.975])
    theory = (d - 1) / 2
    return judge_number(
        f"The clusters of the plateau grow like beta^({theory:g}) (d = {d}).",
        SOURCE,
        [found.mean()],
        (0.8 * theory, 1.2 * theory),
        kind="observation",
        interval=(float(low), float(high)),
        deciding=len(data[f"clusters {d}"]),
        notes="mean clusters of two or more tokens: "
        + ", ".join(f"{b:g}: {c:.2f}" for b, c in zip(params.betas, data[f"clusters {d}"].mean(axis=0))),
    )


def _same_scale(params: Params, data: Data) -> Verdict:
    """Centres at delta = SCALE beta^{-1/2} over clusters, all betas and dimensions: within a factor of two."""
    ratios = np.stack([data[f"centres {d}"].sum(axis=1) / data[f"clusters {d}"].sum(axis=1) for d in params.dims])
    ratio = np.exp(np.log(ratios).mean(axis=0))
    return judge_number(
        f"Renyi centres at delta = {SCALE:g} beta^(-1/2) are as many as the clusters, up to a factor of two.",
        SOURCE,
        ratio,
        (0.5, 2.0),
        kind="observation",
        interval=bootstrap_interval(ratio, np.mean),
        deciding=len(ratio),
        notes="ratio for each dimension: "
        + ", ".join(f"d = {d}: {row.mean():.2f}" for d, row in zip(params.dims, ratios)),
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    figures = {}
    for d in params.dims:
        lines, bands = {}, {}
        for name, words in (("clusters", "clusters"), ("centres", "Renyi centres"), ("strong", "strong centres")):
            values = data[f"{name} {d}"]
            half = mean_half_width(values)
            lines[words] = values.mean(axis=0)
            bands[words] = (lines[words] - half, lines[words] + half)
        beta = np.geomspace(params.betas[0], params.betas[-1], 50)
        laws = {"strong centres, exact": (beta, [strong_centers(params.n, delta(b), d) for b in beta])}
        if d == 2:
            laws["Renyi's parking"] = (beta, [parked_centers_circle(delta(b)) for b in beta])
        figure = series(
            params.betas, lines, band=bands, reference=laws, xlabel=r"$\beta$", ylabel="count", xscale="log",
            yscale="log", marks=True,
        )  # fmt: skip
        figures[f"Clusters and centres, d = {d}"] = captioned(
            figure,
            f"Causal attention, Q = K = V = I, n = {params.n}, d = {d}, t = {params.t:g}; means of {params.instances} "
            f"starts with 95% bands, seeds from {params.seed} on; clusters of two or more tokens, centres at delta = "
            f"{SCALE:g} beta^(-1/2).",
        )
    return {**figures, "The fitted c": _draw_scale(params, data)}


def _draw_scale(params: Params, data: Data) -> Any:
    lines, bands = {}, {}
    for d in params.dims:
        scaled = spacings(data, d) * np.sqrt(np.array(params.betas))
        low, high = np.quantile(scaled, [0.025, 0.975], axis=0)
        lines[f"$d = {d}$"], bands[f"$d = {d}$"] = scaled.mean(axis=0), (low, high)
    figure = series(
        params.betas, lines, band=bands, reference={f"c = {SCALE:g}": (params.betas, [SCALE] * len(params.betas))},
        xlabel=r"$\beta$", ylabel=r"$c = \delta \beta^{1/2}$", xscale="log", marks=True,
    )  # fmt: skip
    figure.axes[0].set_ylim(bottom=0.0)
    return captioned(
        figure,
        f"The spacing at which Renyi centres are as many as clusters, times beta^(1/2); causal attention, "
        f"Q = K = V = I, n = {params.n}, t = {params.t:g}; 95% intervals over {params.instances} starts, seeds from "
        f"{params.seed} on.",
    )


def check(params: Params) -> dict[str, Check]:
    x, eye = sphere(7, 3, seed=2), np.eye(3)
    own = simulate(Dynamics(beta=9.0, mask="causal"), x, 0.5, 0.005, save=[0.5]).x[-1]
    field = lambda t, y: plain.projected(y, plain.pull(y, eye, eye, eye, 9.0, True))  # noqa: E731
    far, strong = np.arccos(np.clip(x @ x.T, -1.0, 1.0)) > 0.9, []
    for k in range(len(x)):
        strong.append(bool(far[k, :k].all()))
    return {
        "tokens": (own, plain.moved(field, x, 0.5, 400), 1e-7),
        "strong centres": (strong_renyi_centers(x, 0.9), np.array(strong), 0.0),
    }


def finding(params: Params, data: Data) -> Finding:
    d = params.dims[-1]
    power = powers(params, data, f"clusters {d}").mean()
    return Finding(
        "Under a causal mask, tokens that are far from all their predecessors lead the clusters.",
        f"In d = {d} the clusters grow like beta^{power:.2f} (theory {(d - 1) / 2:g}), and strong centres move "
        f"{data[f'still {d}'].mean():.2f} delta where other tokens move {data[f'others {d}'].mean():.2f}.",
        f"Clusters and centres, d = {d}",
    )


EXPERIMENT = Experiment(
    name="causal-leaders",
    title="Leaders of causal clusters",
    source=SOURCE,
    figures="beyond the papers' figures",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 50, "n": 64, "betas": (4.0, 16.0, 32.0), "t": 12.0},
    full={"instances": 400, "n": 256},
    text="Tokens under a causal mask, V = I. The plateau's clusters are counted over beta beside Renyi centres of the "
    "start, tokens that are farther than delta from every earlier centre, and strong ones, farther from every earlier "
    "token, whose expected number is known exactly.",
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="half of the tokens and the largest beta",
)
