"""The Wasserstein-gradient-flow reading: with Q = K = V = I, full attention climbs an energy at a known rate.

E = (1/(2 beta n^2)) sum_ij e^{beta <x_i, x_j>}; dE/dt = (1/n) sum |x_i'|^2 for un-normalised attention (USA) and
(1/n^2) sum Z_i |x_i'|^2 for softmax attention (SA). The paper takes the same view of causal attention; that
is run too. USA moves up to e^beta times faster than SA, so its time unit is e^{-beta}.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.backend import Tokens, jax
from metastable.equation.dynamics import Dynamics
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.second_token import SAID, angle_to_first, judge_angle
from metastable.experiments.self_checks import first_steps
from metastable.initial import sphere
from metastable.observables import dissipation, energy_maximum, energy_rate, interaction_energy
from metastable.plots import series
from metastable.plots.style import captioned, panels, paper
from metastable.solve.simulate import simulate
from metastable.theory.verdicts import Kind, Verdict, judge_share

MODES: dict[str, tuple[str, str]] = {  # name: (normalise, mask)
    "SA": ("softmax", "full"),
    "USA": ("unnormalised", "full"),
    "causal SA": ("softmax", "causal"),
}
SOURCE = "first paper, abstract and sec. 1 (Wasserstein gradient flows)"
TITLE = "Energy, and how far its rate is from the stated one"
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Params:
    """The baseline setting of sec. 3.2; ``saves`` is 1 more than a multiple of 4, for Simpson's rule."""

    n: int = 64
    d: int = 3
    betas: tuple[float, ...] = (1.0, 9.0)
    dt: float = 0.1
    t: float = 15.0
    saves: int = 61
    instances: int = 200
    seed: int = 0


def instance(params: Params, seed: int, mode: str, beta: float) -> tuple[Dynamics, np.ndarray, float]:
    """Dynamics, tokens and time unit of one instance."""
    normalise, mask = MODES[mode]
    unit = float(np.exp(-beta)) if normalise == "unnormalised" else 1.0
    return Dynamics(beta=beta, normalise=normalise, mask=mask), sphere(params.n, params.d, seed=seed), unit


def _starts(params: Params, first: int, last: int) -> np.ndarray:
    return np.stack([sphere(params.n, params.d, seed=params.seed + k) for k in range(first, last)])


def _settings(params: Params, unit: float) -> dict[str, Any]:
    return {"t": params.t * unit, "dt": params.dt * unit, "save": params.saves}


def _size(params: Params) -> int:
    return min(50, params.instances)


def check(params: Params) -> dict[str, Check]:
    """The first instance in every mode and at every beta: its first steps, and the velocity at its start."""
    x0, one, found = _starts(params, 0, _size(params)), np.eye(params.d), {}
    for mode, (normalise, mask) in MODES.items():
        for beta in params.betas:

            def pull(x: np.ndarray, beta: float = beta, rows: str = normalise, mask: str = mask) -> np.ndarray:
                whole = rows == "unnormalised"
                return plain.unnormalised(x, beta) if whole else plain.pull(x, one, one, one, beta, mask == "causal")

            dynamics, _, unit = instance(params, params.seed, mode, beta)
            made = first_steps(dynamics, x0, [plain.on_sphere(pull)], **_settings(params, unit))
            velocity = plain.projected(x0[0], pull(x0[0]))
            size = float(np.abs(velocity).max())
            found[f"{mode}, beta = {beta:g}: tokens after the first steps"] = made
            found[f"{mode}, beta = {beta:g}: velocity"] = (
                np.asarray(_velocity(dynamics, x0[:1]))[0], velocity, 1e-10 * size,
            )  # fmt: skip
    return found


def run(params: Params, work: Work) -> Data:
    def chunk(first: int, last: int) -> Data:
        x0 = _starts(params, first, last)
        rows = [[_measured(params, x0, mode, beta) for beta in params.betas] for mode in MODES]
        return {
            name: np.stack([np.stack([cell[name] for cell in row], axis=1) for row in rows], axis=1)
            for name in ("energy", "second", "rate", "dissipation", "rounding")
        }  # (b, modes, betas, T)

    data = work.parts("runs", params.instances, _size(params), chunk)
    return {**data, **_placed(params), "t": np.linspace(0.0, params.t, params.saves)}


def _placed(params: Params) -> Data:
    """dE/dt and its rounding where token 2 stands alone on a great circle between token 1, at 0, and all the others.

    Both angles over a grid, (modes, betas, grid). Under the causal mask token 2 follows token 1 only, away from the
    others, which costs energy.
    """
    angle = np.linspace(0.0, np.pi, 25)[1:]
    second, others = (a.ravel() for a in np.meshgrid(angle, angle))
    place = np.stack([np.zeros_like(second), second, *[others] * (params.n - 2)], axis=1)  # (grid, n)
    x = np.zeros((*place.shape, params.d))
    x[..., 0], x[..., 1] = np.cos(place), np.sin(place)
    rows = [
        [_rates(x, instance(params, params.seed, mode, beta)[0], mode, beta) for beta in params.betas] for mode in MODES
    ]
    return {f"placed_{name}": np.array([[cell[name] for cell in row] for row in rows]) for name in ("rate", "rounding")}


def _measured(params: Params, x0: np.ndarray, mode: str, beta: float) -> Data:
    """Energy, its rate by the chain rule, the stated rate, and the rounding both may carry: (b, T) each."""
    dynamics, _, unit = instance(params, params.seed, mode, beta)
    x = simulate(dynamics, x0, **_settings(params, unit)).x  # (T, b, n, d)
    rows = {"energy": interaction_energy(x, beta), "second": angle_to_first(x), **_rates(x, dynamics, mode, beta)}
    return {name: np.moveaxis(row, 0, 1) for name, row in rows.items()}


def _rates(x: np.ndarray, dynamics: Dynamics, mode: str, beta: float) -> Data:
    """The energy's rate by the chain rule, the stated rate, and the rounding both may carry, (...) of x (..., n, d)."""
    v, normalise = np.asarray(_velocity(dynamics, x)), MODES[mode][0]
    size = np.exp(beta * (x @ np.swapaxes(x, -1, -2))).mean(axis=-1)  # Z_i / n, (..., n)
    pull = size if normalise == "unnormalised" else 1.0
    return {
        "rate": energy_rate(x, v, beta),
        "dissipation": dissipation(x, v, beta, normalise),
        "rounding": 4.0 * x.shape[-2] * _EPS * (size * (np.linalg.norm(v, axis=-1) + pull)).mean(axis=-1),
    }


@jax.jit
def _velocity(dynamics: Dynamics, x: Tokens) -> Tokens:
    return dynamics.velocity(0.0, x)


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    verdicts = []
    for m, mode in enumerate(MODES):
        kind: Kind = "observation" if "causal" in mode else "theorem"
        for b, beta in enumerate(params.betas):
            where = f"{mode}, beta = {beta:g}"
            cut = {name: data[name][:, m, b] for name in ("energy", "rate", "dissipation", "rounding")}
            cut |= {f"placed_{name}": data[f"placed_{name}"][m, b] for name in ("rate", "rounding")}
            seeds = [params.seed + k for k in range(len(cut["energy"]))]
            verdicts += [_same_rate(cut, where, kind, seeds), _monotone(params, cut, where, kind, seeds)]
            if kind == "theorem":
                unit = instance(params, params.seed, mode, beta)[2]
                verdicts.append(_integrated(cut, data["t"] * unit, where, seeds))
            else:  # added when a run without its mask moved no other verdict
                at = int(np.abs(data["t"] - 2.0).argmin())
                start, end = (data["second"][:, m, b, k] for k in (0, at))
                verdicts.append(judge_angle(start, end, float(data["t"][at]), beta, 1.0, seeds, where))
    return verdicts


def _same_rate(cut: Data, where: str, kind: Kind, seeds: list[int]) -> Verdict:
    """The chain rule's dE/dt against the stated rate, at every saved state.

    Both are sums of n terms over n terms; a sum of n terms is right to n eps of its absolute values (4 n eps: velocity,
    two sums and an exponential). The terms are at most (Z_i/n) |x_i'|, and a rounding of the pull, of size 1 (SA) or
    Z_i/n (USA), enters once more with weight Z_i/n. So they may differ by
    4 n eps mean_i (Z_i/n)(|x_i'| + pull), and by no more if the law holds.
    """
    off = np.abs(cut["rate"] - cut["dissipation"])
    relative = (off / np.abs(cut["dissipation"]).max(axis=-1, keepdims=True)).max()
    return judge_share(
        f"Energy rises at exactly the stated rate ({where}).",
        SOURCE,
        [bool((a <= b).all()) for a, b in zip(off, cut["rounding"])],
        kind=kind,
        seeds=seeds,
        notes=f"largest difference {relative:.1e} of the run's largest rate, at {off.shape[1]} states per run; "
        "allowed is the rounding bound",
    )


def _monotone(params: Params, cut: Data, where: str, kind: Kind, seeds: list[int]) -> Verdict:
    """E never falls between saves, beyond the rounding 4 n eps E of its own sum; nor from any of the places of
    `_placed`, which are part of every instance.

    Those places were added after data had been seen: one random start in ten, or in forty, is a counterexample under
    the causal mask, so that two dozen starts found one with some seeds and none with others.
    """
    E = cut["energy"]
    falls = np.asarray(((E[:, :-1] - E[:, 1:]) > 4.0 * params.n * _EPS * E[:, :-1]).any(axis=1))  # (b,)
    placed = bool((cut["placed_rate"] < -cut["placed_rounding"]).any())
    return judge_share(
        f"Energy never decreases ({where}).",
        SOURCE,
        [not (placed or bool(fell)) for fell in falls],
        kind=kind,
        seeds=seeds,
        notes=f"it falls in {int(falls.sum())} of {len(falls)} random starts, and "
        f"{'at once in some' if placed else 'in none'} where token 2 stands apart between token 1 and all others",
    )


def _integrated(cut: Data, t: np.ndarray, where: str, seeds: list[int]) -> Verdict:
    """E(T) - E(0) against the integral of the stated rate along the run.

    Simpson's rule twice in every panel of four intervals, with the saves' spacing and with double that. If refining at
    least halves a panel's error, that error is at most the difference of the two; summed without signs, so that
    panels cannot cancel. RK4 at a shorter step adds less; rounding 1e-12 E.
    """
    fine, doubt = _simpson(cut["dissipation"], t[1] - t[0])
    off = np.abs(cut["energy"][:, -1] - cut["energy"][:, 0] - fine)
    allowed = doubt + 1e-12 * cut["energy"][:, -1]
    return judge_share(
        f"The energy gained over a run is the integral of the stated rate ({where}).",
        SOURCE,
        [bool(a <= b) for a, b in zip(off, allowed)],
        seeds=seeds,
        notes=f"largest relative difference {(off / fine).max():.1e}",
    )


def _simpson(values: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """The integral over the last axis, and the sum over panels of the difference of two Simpson rules."""
    panel = np.stack([values[:, k : values.shape[1] - 4 + k : 4] for k in range(4)] + [values[:, 4::4]], axis=-1)
    fine = panel @ np.array([1.0, 4.0, 2.0, 4.0, 1.0]) * h / 3.0  # (b, panels)
    coarse = panel @ np.array([1.0, 0.0, 4.0, 0.0, 1.0]) * 2.0 * h / 3.0
    return fine.sum(axis=-1), np.abs(fine - coarse).sum(axis=-1)


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    with paper():
        figure, axes = panels(None, 2 * len(params.betas), 2.6, 0.8, 0.2, columns=len(params.betas))
        for b, beta in enumerate(params.betas):
            share = data["energy"][:, :, b] / energy_maximum(beta)  # (b, modes, T)
            series(
                data["t"],
                {mode: share[:, m].mean(axis=0) for m, mode in enumerate(MODES)},
                ylabel="E over its maximum",
                title=rf"$\beta = {beta:g}$",
                ax=axes[b],
            )
            off, stated = np.abs(data["rate"] - data["dissipation"])[:, :, b], data["dissipation"][:, :, b]
            off = off / stated.max(axis=-1, keepdims=True)
            series(
                data["t"],
                {mode: np.maximum(np.median(off[:, m], axis=0), 1e-17) for m, mode in enumerate(MODES)},
                ylabel="difference over largest rate",
                yscale="log",
                ax=axes[len(params.betas) + b],
            )
        for panel in axes:
            panel.set_xlabel(r"time (USA: in units of $e^{-\beta}$)")
    caption = f"Mean energy (above) and median difference (below) of {params.instances} starts from seed {params.seed} "
    caption += f"on. n = {params.n}, d = {params.d}, Q = K = V = I; SA: softmax, USA: un-normalised attention."
    return {TITLE: captioned(figure, caption)}


def finding(params: Params, data: Data) -> Finding:
    """How far rates are from the stated ones, with and without the mask."""
    off = np.abs(data["rate"] - data["dissipation"]) / data["dissipation"].max(axis=-1, keepdims=True)
    full, causal = off[:, :2].max(), np.median(off[:, 2].max(axis=-1))
    falls = bool((data["placed_rate"][2] < -data["placed_rounding"][2]).any())
    return Finding(
        "Attention is read as the gradient flow of an interaction energy.",
        f"With full attention the energy rises at the stated rate to {full:.0e} of it at every state; under the causal "
        f"mask the rate is off by {causal:.0%}, so that it is not the gradient flow of this energy"
        f"{', which falls from some places' if falls else ''}.",
        TITLE,
    )


EXPERIMENT = Experiment(
    name="gradient-flow",
    title="Attention climbs an energy",
    source=SOURCE,
    figures="none; energy plots",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 24, "n": 24, "saves": 41},
    full={"instances": 2000},
    text="With Q = K = V = I and full attention the energy rises at exactly the rate of a gradient flow, for softmax "
    "and for un-normalised attention: equal to rounding at every state. Causal attention, run beside them, is not a "
    "gradient flow of this energy: its rate differs in the first digit. " + SAID,
    check=check,
    finding=finding,
    leaves_out="24 tokens instead of 64, 24 starts instead of 200.",
)
