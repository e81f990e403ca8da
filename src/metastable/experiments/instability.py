"""Which mode breaks the uniform law on the circle first.

A perturbation of the uniform law by mode k grows at the rate k^2 I_k(beta)/(beta I_0(beta)) under softmax attention
(without I_0: unnormalised); the largest rate says which number of clusters appears.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.experiments import plain_formulas as plain
from metastable.experiments import self_checks
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.initial import sphere
from metastable.plots import phase_diagram, series
from metastable.plots.style import INK, captioned, paper
from metastable.solve.simulate import simulate
from metastable.theory.sphere_forms import fastest_mode, mode_growth_rate
from metastable.theory.verdicts import Verdict, judge_share

SOURCE = "linear stability of the uniform law on the circle"
SMALL = 1e-5  # amplitude of every mode at the start
EXACT = 1e-3  # relative error of a rate; the next order of the perturbation is SMALL
BROKEN = 0.1  # amplitude at which the uniform law counts as broken
AHEAD = 1.5  # factor by which the fastest mode must lead its rival for an instance to decide


@dataclass(frozen=True)
class Params:
    """n points stand for the uniform law: modes far below n feel no grid (the error is I_{n-k})."""

    n: int = 96
    modes: int = 8
    lowest: float = 1.0
    highest: float = 16.0
    dt: float = 0.1
    instances: int = 40
    seed: int = 0


def start(params: Params, seed: int) -> tuple[float, np.ndarray]:
    """beta, drawn, and tokens with amplitude SMALL in each of the first modes, at drawn phases."""
    rng = np.random.default_rng([seed, 11])
    beta = float(rng.uniform(params.lowest, params.highest))
    theta = 2.0 * np.pi * np.arange(params.n) / params.n
    k = np.arange(1, params.modes + 1)
    shift = (2.0 * SMALL / k * np.sin(np.outer(theta, k) + rng.uniform(0.0, 2.0 * np.pi, params.modes))).sum(axis=1)
    return beta, np.stack([np.cos(theta + shift), np.sin(theta + shift)], axis=-1)


def amplitudes(x: np.ndarray, modes: int) -> np.ndarray:
    """|mean of e^{ik theta}| for k = 1..modes, (..., modes)."""
    theta = np.arctan2(x[..., 1], x[..., 0])
    return np.stack([np.abs(np.exp(1j * k * theta).mean(axis=-1)) for k in range(1, modes + 1)], axis=-1)


def one(params: Params, seed: int, normalise: str) -> Data:
    """Measured rates (modes,) while everything is small, and the mode that is largest when the law breaks."""
    beta, x0 = start(params, seed)
    rates = mode_growth_rate(np.arange(1, params.modes + 1), beta, normalise)
    early, late = 1.0 / rates.max(), 1.4 * np.log(BROKEN / SMALL) / rates.max()
    dt = min(params.dt, 0.1 / rates.max())
    times = np.concatenate([[0.0, early], np.linspace(early, late, 60)[1:]])
    x = simulate(Dynamics(beta=beta, normalise=normalise), x0, late, dt, save=times).x
    size = amplitudes(x, params.modes)  # (T, modes)
    broken = int(np.argmax(size.max(axis=1) >= BROKEN)) if (size >= BROKEN).any() else -1
    return {
        "beta": np.array([beta]),
        "rates": (np.log(size[1] / size[0]) / early)[None],
        "theory": rates[None],
        "first": np.array([1 + int(np.argmax(size[broken])) if broken >= 0 else 0]),
        "when": np.array([times[broken] if broken >= 0 else np.nan]),
    }


def run(params: Params, work: Work) -> Data:
    found: Data = {}
    for normalise in ("softmax", "unnormalised"):

        def chunk(first: int, last: int, normalise: str = normalise) -> Data:
            rows = [one(params, params.seed + k, normalise) for k in range(first, last)]
            return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}

        part = work.parts(normalise, params.instances, 10, chunk)
        found |= {f"{name} {normalise}": values for name, values in part.items()}
    return found


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    return [verdict(params, data, kind) for kind in ("softmax", "unnormalised") for verdict in (_rates, _first)]


def _rates(params: Params, data: Data, kind: str) -> Verdict:
    """The rate of every mode over one growth time of the fastest, relative to the fastest rate."""
    theory = data[f"theory {kind}"]
    off = np.abs(data[f"rates {kind}"] - theory).max(axis=1) / theory.max(axis=1)
    law = "k^2 I_k(beta)/(beta I_0(beta))" if kind == "softmax" else "k^2 I_k(beta)/beta"
    return judge_share(
        f"Mode k of a small perturbation grows at the rate {law} ({kind} attention).",
        SOURCE,
        [bool(value <= EXACT) for value in off],
        seeds=[params.seed + k for k in range(len(off))],
        notes=f"{params.modes} modes each, beta drawn from [{params.lowest:g}, {params.highest:g}]; largest error "
        f"{off.max():.1e} of the fastest rate",
    )


def _first(params: Params, data: Data, kind: str) -> Verdict:
    """All modes start alike, so the fastest leads its rival by e^{(r - r') t}; too small a lead is not judged."""
    ordered = np.sort(data[f"theory {kind}"], axis=1)
    lead = np.exp((ordered[:, -1] - ordered[:, -2]) * np.nan_to_num(data[f"when {kind}"]))
    predicted = np.array([fastest_mode(float(beta)) for beta in data[f"beta {kind}"]])
    first = data[f"first {kind}"]
    return judge_share(
        f"The fastest mode of the linear theory breaks the uniform law first ({kind} attention).",
        SOURCE,
        [None if k == 0 else bool(k == p) for k, p in zip(first, predicted)],
        eligible=[bool(value >= AHEAD) for value in lead],
        seeds=[params.seed + k for k in range(len(first))],
        notes=f"modes seen: {', '.join(map(str, sorted(set(first.astype(int).tolist()))))}; eligible where it leads "
        f"its rival by a factor of {AHEAD:g} when the amplitude reaches {BROKEN:g}",
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    beta = np.linspace(params.lowest, params.highest, 120)
    modes = np.arange(1, params.modes + 1)
    rates = np.stack([mode_growth_rate(modes, b) for b in beta], axis=1)  # (modes, betas)
    diagram = phase_diagram(
        beta, modes, rates, xlabel=r"$\beta$", ylabel="mode $k$", bar="growth rate",
        curves={"fastest mode": (beta, [fastest_mode(b) for b in beta])},
    )  # fmt: skip
    with paper():
        for kind, size, colour in (("softmax", 26, "white"), ("unnormalised", 5, INK)):
            place = data[f"beta {kind}"], data[f"first {kind}"]
            diagram.axes[0].scatter(*place, s=size, c=colour, ec=INK, lw=0.4, label=f"first, {kind}", zorder=5)
        diagram.axes[0].legend(loc="upper left", frameon=True, framealpha=0.9)
    order = np.argsort(data["beta softmax"])
    lines = {f"k = {k}": data["rates softmax"][order, k - 1] for k in modes[:6]}
    gaps = np.append(
        rates[: len(lines)], np.full((len(lines), 1), np.nan), axis=1
    ).ravel()  # one line, cut between modes
    laws = {"theory": (np.tile(np.append(beta, np.nan), len(lines)), gaps)}
    measured = series(
        data["beta softmax"][order], lines, reference=laws, xlabel=r"$\beta$", ylabel="growth rate", marks=True
    )
    with paper():
        for line in measured.axes[0].lines[: len(lines)]:
            line.set_linestyle("none")
        measured.axes[0].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    caption = f"Circle, n = {params.n}, V = I, full attention, {params.instances} drawn betas."
    return {
        "Which mode breaks the uniform law": captioned(
            diagram, f"Colour: softmax rates. Marks: the first mode. {caption}"
        ),
        "Growth rates, measured and exact": captioned(measured, f"Softmax attention. {caption}"),
    }


def check(params: Params) -> dict[str, Check]:
    """Tokens of no symmetry by the run's engine, under both kinds of attention; and amplitudes."""
    beta, _ = start(params, params.seed + 1)
    x, eye = sphere(params.n, 2, seed=params.seed), np.eye(2)
    found: dict[str, Check] = {}
    pulls: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
        "softmax": (lambda y: plain.pull(y, eye, eye, eye, beta), 0.05),
        "unnormalised": (lambda y: plain.unnormalised(y, beta), 0.05 * np.exp(-beta)),
    }
    for kind, (pull, dt) in pulls.items():
        found[f"tokens, {kind}"] = self_checks.first_steps(
            Dynamics(beta=beta, normalise=kind), x, [plain.on_sphere(pull)], t=100.0 * dt, dt=dt
        )
    sums = [abs(((x[:, 0] + 1j * x[:, 1]) ** k).mean()) for k in (1, 2, 3)]
    return {**found, "amplitudes": (amplitudes(x, 3), np.array(sums), 1e-12)}


def finding(params: Params, data: Data) -> Finding:
    predicted = np.array([fastest_mode(float(beta)) for beta in data["beta softmax"]])
    return Finding(
        "On the circle the Bessel functions say how many clusters the uniform law breaks into.",
        f"The first mode was the predicted one in {int((data['first softmax'] == predicted).sum())} of "
        f"{len(predicted)} runs with beta from {params.lowest:g} to {params.highest:g}.",
        "Which mode breaks the uniform law",
    )


EXPERIMENT = Experiment(
    name="instability",
    title="The first mode of the uniform law",
    source=SOURCE,
    figures="beyond the papers' figures",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 30, "n": 48, "modes": 6, "highest": 10.0},
    full={"instances": 400, "n": 192},
    text="Tokens evenly on the circle are disturbed by the same tiny amplitude in each of the first modes. While the "
    "disturbance is small every mode grows at its own rate, which is known exactly; the fastest one decides into how "
    "many clusters the circle falls.",
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="beta above 10",
)
