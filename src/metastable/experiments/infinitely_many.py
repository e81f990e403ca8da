"""Infinitely many tokens as one run: the density of the mean-field equation, and how tokens approach it.

`metastable.density` solves d rho/dt + div(rho v[rho]) = (sigma^2/2) Laplace rho on the circle and on S^2.

1. Is it right? Modes of the uniform law grow at rates known in closed form (`mode_growth_rate`), noise included. The
   solver's rates must agree to 1e-8 of the fastest rate: a perturbation of 1e-5 changes rates by its square, 1e-10.
2. Do tokens approach it like n^(-1/2)? n tokens are drawn from the first law and move by themselves. Their distance
   from the density at the horizon is measured by moments, D^2 = sum_k |c_k(tokens) - c_k(rho)|^2 / k^2 over the first
   modes. If the flow of measures is stable, D is the sampling error, which falls like n^(-1/2), times a constant. As in
   `mean_field` the exponent may be off by 1/12, half the way to the next rate of sampling, n^(-1/3).
3. Is every law a law? Mass must be 1 to 1e-12, for the equation is tested with mode 0 too. Positivity is no identity:
   nothing in the expansion keeps it, and a law that is resolved dips below 0 by the size of its highest modes alone.
   The solver takes a step again with more modes where it dips below -1e3 rtol of the largest density, 1e-6 by default.
   Drawn laws e^{<a, x>} (1 + b x_1 x_2), far from uniform, must stay above LEAST = -1e-7 of it, a tenth of that, at all
   saved times; the perturbed uniform laws of the first question, too.

Two groups of tokens, moved as the samples are, must follow their exact angle (`sphere_pairs`; added after data had been
seen: an exponent of -1/2 has no beta in it).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np
from numpy.polynomial.legendre import leggauss

from metastable.continuum.density import density
from metastable.continuum.law_pull import law_velocity
from metastable.continuum.laws import Density
from metastable.continuum.surfaces import legendre, surface
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import plain_formulas as plain
from metastable.experiments import sphere_pairs
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.drawn_laws import one_law, one_rate
from metastable.plots import agreement, series
from metastable.plots.density_plots import density_picture
from metastable.plots.style import captioned
from metastable.solve.simulate import simulate
from metastable.theory.intervals import power_interval
from metastable.theory.verdicts import Verdict, judge_number, judge_share

SOURCE = "mean field on the circle and on S^2"
EXACT = 1e-8  # of the fastest rate
LEAST = -1e-7  # of the largest density
NEAREST = 1.0 / 12.0  # of the exponent, as in `mean_field`
PLACES = {2: "the circle", 3: "S^2"}
SIGNS = {2: "circle", 3: "$S^2$"}  # the same in legends
TITLE = "Distance of tokens from the density against their number"


@dataclass(frozen=True)
class Params:
    """``instances`` drawn modes, ``laws`` with structure; samples of each size, at least ``least`` of the largest."""

    instances: int = 60
    laws: int = 40
    sizes: tuple[int, ...] = (64, 256, 1024, 4096, 16384)
    samples: int = 40
    least: int = 8
    beta: float = 2.0
    horizon: float = 2.0
    dt: float = 0.05
    compared: int = 6
    drawn: int = 300
    seed: int = 0

    def count(self, n: int) -> int:
        """Samples of n tokens."""
        return min(self.samples, max(self.least, self.samples * 1024 // n))

    def together(self, n: int) -> int:
        """Samples that are run at once: their attention stays in the processor's cache; even parts share a shape."""
        parts = -(-self.count(n) * n**2 // 2**20)
        return -(-self.count(n) // parts)


def first_law(x: np.ndarray) -> np.ndarray:
    """A smooth law without symmetry: e^{x_1} (1 + x_1 x_2 / 2)."""
    return np.asarray(np.exp(x[:, 0]) * (1.0 + 0.5 * x[:, 0] * x[:, 1]))


def moments(x: np.ndarray, degree: int) -> np.ndarray:
    """Moments of equal tokens (n, d) up to a degree, with those of `surfaces`, by the surface's own functions."""
    if x.shape[1] == 2:
        z = x[:, 0] + 1j * x[:, 1]
        return np.array([(z.conj() ** k).mean() for k in range(degree + 1)])
    P = legendre(degree, np.clip(x[:, 2], -1.0, 1.0))  # (m, l, n)
    turned = np.exp(-1j * np.outer(np.arange(degree + 1), np.arctan2(x[:, 1], x[:, 0])))  # (m, n)
    return np.asarray(np.einsum("mln,mn->ml", P, turned) / len(x))


def distance(x: np.ndarray, law: Density, index: int, degree: int) -> float:
    """D of the module's first lines; on S^2 over l, and all orders of each."""
    off = np.abs(moments(x, degree) - law.moments[index][tuple([slice(0, degree + 1)] * (x.shape[1] - 1))]) ** 2
    if x.shape[1] == 2:
        return float(np.sqrt((off[1:] / np.arange(1, degree + 1) ** 2).sum()))
    l = np.maximum(np.arange(degree + 1), 1)
    twice = np.where(np.arange(degree + 1) == 0, 1.0, 2.0)[:, None]
    return float(np.sqrt((4.0 * np.pi * twice * off / ((2 * l + 1) * l**2))[:, 1:].sum()))


def run(params: Params, work: Work) -> Data:
    def rows(make: Callable[[int], Data], first: int, last: int) -> Data:
        each = [make(params.seed + k) for k in range(first, last)]
        return {name: np.concatenate([row[name] for row in each]) for name in each[0]}

    data = work.parts("rates", params.instances, 10, partial(rows, one_rate))
    data |= work.parts("laws", params.laws, 10, partial(rows, one_law))
    for d in PLACES:
        law = density(Dynamics(beta=params.beta), first_law, params.horizon, d=d, save=41)
        data |= {f"t {d}": law.t, f"law {d}": law.moments, f"degree {d}": np.array([law.surface.degree])}
        for n in params.sizes:

            def chunk(first: int, last: int, n: int = n, law: Density = law, d: int = d) -> Data:
                x0 = np.stack([law.sample(n, params.seed + k) for k in range(first, last)])
                x = _moved(params, x0, [params.horizon])[-1]
                off = [[distance(a, law, 0, params.compared), distance(b, law, -1, params.compared)]
                       for a, b in zip(x0, x)]  # fmt: skip
                return {"D": np.array(off)}

            data[f"D {d}-{n}"] = work.parts(f"{d}-{n}", params.count(n), params.together(n), chunk)["D"]
            data |= work.part(f"groups-{d}-{n}", partial(_groups, params, d, n))
        data[f"tokens {d}"] = _moved(params, law.sample(params.drawn, params.seed), law.t)
    return data


def _groups(params: Params, d: int, n: int) -> Data:
    """Two groups of n tokens, as many runs as samples are made at once."""
    x0, angle = sphere_pairs.tokens(n, d, min(params.together(n), params.count(n)), params.seed, params.beta)
    x = _moved(params, x0, [params.horizon])[-1]
    return sphere_pairs.measured(x, angle, params.beta, params.horizon, key=f"groups {d}-{n}")


def _moved(params: Params, x0: np.ndarray, times: object) -> np.ndarray:
    return np.asarray(simulate(Dynamics(beta=params.beta), x0, params.horizon, params.dt, save=times).x)


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    return [
        *(_rates(params, data, d) for d in PLACES),
        _kept(params, data),
        *(_approach(params, data, d) for d in PLACES),
        *(sphere_pairs.verdict(data, f"{PLACES[d]}, as sampled", [f"groups {d}-{n}" for n in params.sizes])
          for d in PLACES),
    ]  # fmt: skip


def _rates(params: Params, data: Data, d: int) -> Verdict:
    """Within EXACT of the fastest rate; softmax and unnormalised, with noise from 0 to 1.3 of the threshold."""
    here = data["place"] == d
    off = (np.abs(data["rate"] - data["theory"]) / data["fastest"])[here]
    return judge_share(
        f"Modes of the uniform law on {PLACES[d]} grow at their exact rates, noise included.",
        SOURCE,
        [bool(value <= EXACT) for value in off],
        seeds=(params.seed + np.flatnonzero(here)).tolist(),
        notes=f"modes 1 to 6, beta in [0.5, 9]; largest error {off.max(initial=0.0):.1e} of the fastest rate",
    )


def _kept(params: Params, data: Data) -> Verdict:
    """Mass to 1e-12, an identity of the weak form; and no density below 0 by more than LEAST of the largest.

    At first only the perturbed uniform laws were judged, at -1e-10: those cannot come near 0.
    """
    mass, least = (np.append(data[key], data[f"law {key}"]) for key in ("mass", "least"))
    fine = (mass <= 1e-12) & (least >= LEAST)
    ended = np.append(np.ones(len(data["mass"]), bool), data["law done"])
    seeds = [params.seed + k for count in (len(data["mass"]), params.laws) for k in range(count)]
    return judge_share(
        "Every density keeps its mass to rounding and stays positive.",
        SOURCE,
        [bool(value) if whole or not value else None for value, whole in zip(fine, ended)],
        seeds=seeds,
        notes=f"{len(data['mass'])} near the uniform law, {params.laws} up to {data['law sharp'].max():.0f} times as "
        f"dense; largest change of mass {mass.max():.1e}, least density {least.min():.1e} of the largest",
    )


def _approach(params: Params, data: Data, d: int) -> Verdict:
    off = {n: data[f"D {d}-{n}"] for n in params.sizes}
    start, end = (power_interval({n: D[:, k] for n, D in off.items()}) for k in (0, 1))
    return judge_number(
        f"At t = {params.horizon:g} the distance of n tokens on {PLACES[d]} from the density falls like n^(-1/2).",
        SOURCE,
        end[:1],
        (-0.5 - NEAREST, -0.5 + NEAREST),
        interval=end[1:],
        deciding=sum(len(D) for D in off.values()),
        notes=f"exponent of the sampling error at t = 0: {start[0]:.3f}",
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    figures = {}
    for d, place in PLACES.items():
        on = surface(d, int(data[f"degree {d}"][0]))
        law = Density(data[f"t {d}"], data[f"law {d}"], on, Dynamics(beta=params.beta), "done", params.horizon)
        picture = density_picture(law, SimpleNamespace(t=law.t, x=data[f"tokens {d}"]))
        figures[f"Density over time on {place}, tokens over it"] = captioned(
            picture,
            f"Infinitely many tokens from the law e^(x_1) (1 + x_1 x_2/2), and {params.drawn} drawn from it, seed "
            f"{params.seed}; beta = {params.beta:g}, Q = K = V = I.",
        )
    n = np.array(params.sizes, dtype=float)
    lines = {SIGNS[d]: np.array([data[f"D {d}-{k}"][:, 1].mean() for k in params.sizes]) for d in PLACES}
    first = next(iter(lines.values()))[0]
    slope = {r"slope $n^{-1/2}$": (n, 0.6 * first * np.sqrt(n[0] / n))}
    approach = series(n, lines, reference=slope, xlabel="tokens $n$", ylabel="distance $D$ from the density",
                      xscale="log", yscale="log", marks=True)  # fmt: skip
    figures[TITLE] = captioned(
        approach,
        f"Mean over samples at t = {params.horizon:g} ({params.count(params.sizes[-1])} of the largest), "
        f"first {params.compared} modes; beta = {params.beta:g}, Q = K = V = I.",
    )
    rates = {SIGNS[d]: tuple((data[name] / data["fastest"])[data["place"] == d] for name in ("theory", "rate"))
             for d in PLACES}  # fmt: skip
    figures["Growth rates of the density, measured and exact"] = captioned(
        agreement(rates, xlabel="exact rate / fastest", ylabel="measured rate / fastest"),
        f"{len(data['rate'])} drawn modes, betas and noises, circle and S^2, softmax and unnormalised.",
    )
    return figures


def check(params: Params) -> dict[str, Check]:
    """On the circle, tokens at quantiles of a law are an even grid in another variable: their moments are those of the
    law to rounding, and stay so. They are moved by the plain formulas. On S^2 the velocity of a law is compared with a
    quadrature of its own, V no identity. Two groups of tokens are moved by every engine that moves the samples."""
    angle = 2.0 * np.pi * np.arange(96) / 96
    for _ in range(60):  # F(theta) = theta + sin(theta)/2, whose density is (1 + cos(theta)/2)/(2 pi)
        angle = 2.0 * np.pi * np.arange(96) / 96 - 0.5 * np.sin(angle)
    x, eye = np.stack([np.cos(angle), np.sin(angle)], axis=-1), np.eye(2)
    law = density(Dynamics(beta=params.beta), lambda y: 1.0 + 0.5 * y[:, 0], 1.0, d=2, save=2)
    there = plain.moved(lambda t, y: plain.projected(y, plain.pull(y, eye, eye, eye, params.beta)), x, 1.0, 100)
    z = (there[:, 0] - 1j * there[:, 1])[:, None] ** np.arange(4)
    groups = [_groups(params, d, n) for d in PLACES for n in params.sizes]
    own, plainly = (np.concatenate([list(one.values())[k] for one in groups]) for k in (0, 1))
    return {
        "moments of the law": (law.moments[-1, :4].view(float), z.mean(axis=0).view(float), 1e-7),
        "velocity on S^2": _velocities(params),
        "angles of two groups of tokens": (own, plainly, sphere_pairs.ALLOWED),
    }


def _velocities(params: Params) -> Check:
    """The velocity of the first law on S^2 at some points, and by a product rule of its own."""
    on, (height, own) = surface(3, 16), leggauss(48)
    sine, turn = np.sqrt(1.0 - height**2), 2.0 * np.pi * np.arange(96) / 96
    around = np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    y = np.concatenate([(sine[:, None, None] * around), np.broadcast_to(height[:, None, None], (48, 96, 1))], axis=2)
    y, w = y.reshape(-1, 3), np.repeat(own * 2.0 * np.pi / 96, 96)
    seen = np.exp(params.beta * on.points[:50] @ y.T) * (w * first_law(y))
    V = np.array([[1.0, 0.5, 0.0], [0.0, -0.5, 0.2], [0.3, 0.0, 0.7]])
    mean = (seen @ y) / seen.sum(axis=1, keepdims=True) @ V.T
    _, v = law_velocity(Dynamics(Weights(V=V), params.beta), on)(on.moments(first_law(on.points)))
    return v[:, :50], (on.frame[:, :50] * mean).sum(axis=-1), 1e-7


def finding(params: Params, data: Data) -> Finding:
    far, near = (
        float(np.mean([data[f"D {d}-{n}"][:, 1].mean() for d in PLACES]))
        for n in params.sizes[:: len(params.sizes) - 1]
    )
    off = (np.abs(data["rate"] - data["theory"]) / data["fastest"]).max()
    expected = np.sqrt(params.sizes[-1] / params.sizes[0])
    return Finding(
        "Infinitely many tokens follow one equation for their density.",
        f"Its growth rates are right to {off:.0e}, and {params.sizes[-1]:,} tokens are {far / near:.0f} times "
        f"nearer than {params.sizes[0]} at t = {params.horizon:g} (n^(-1/2) says {expected:.0f}).",
        TITLE,
    )


EXPERIMENT = Experiment(
    name="density",
    title="Infinitely many tokens",
    source=SOURCE,
    figures="beyond the papers' figures",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 50, "laws": 20, "sizes": (24, 72, 216), "samples": 160, "dt": 0.1},
    full={"instances": 400, "laws": 200, "sizes": (64, 256, 1024, 4096, 16384, 65536, 262144), "samples": 200},
    text="The law of infinitely many tokens is one solution of the mean-field equation. Modes of the uniform law must "
    "grow at their exact rates; tokens drawn from the first law must come near it like n^(-1/2).",
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="more than 216 tokens, and half of the steps",
)
