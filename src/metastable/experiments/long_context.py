"""Long contexts: beta = c log n, and the critical c at which attention turns from everybody to itself.

Where all other tokens are at cosine rho, the weight that a token keeps on itself is 1/(1 + (n-1) n^{-c(1-rho)}): with n
it tends to 0 for c < 1/(1-rho) and to 1 for c > 1/(1-rho).

1. The weight, measured for one query among n - 1 others at cosine rho, n to 1e5, is that formula to 1e-9 (an identity).
2. The c at which it is 1/2, found by bisection, is 1/(1-rho) to 1/n: exactly it is log(n-1)/log(n) of it.
3. Equiangular tokens collapse by one scalar equation; runs of n tokens must be at cosine 0.9 at the time that its
   closed form says, to 1e-4.
4. By that closed form, to n = 1e5: below the critical c the collapse time stays bounded as n grows; above, it grows
   like n^{c(1-rho)-1}/beta, because a token sees each other one with weight n^{-c(1-rho)}, and n of them. The exponent
   between n = 1e4 and 1e5 must agree to 0.1, which is above the next correction, of order 1/log(n)^2.

Tokens drawn at random around one direction are not quite equiangular: in d dimensions cosines scatter by
(1-rho)/sqrt(d), and e^{beta cos} makes the largest count. They are drawn beside the law, not judged.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from metastable.engines.exact.sums import exact
from metastable.equation.dynamics import Dynamics
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.normalisation_schemes import cosine_and_norm, equiangular
from metastable.plots import series
from metastable.plots.style import captioned
from metastable.solve.simulate import simulate
from metastable.theory.equiangular import equiangular_time
from metastable.theory.verdicts import Verdict, judge_share

SOURCE = "long contexts with equiangular tokens"
IDENTITY, MET, EXPONENT = 1e-9, 1e-4, 0.1
END = 0.9  # cosine at which tokens count as collapsed
TITLE = "Weight on itself against c"


@dataclass(frozen=True)
class Params:
    """``instances`` drawn (rho, c); ``sizes`` of contexts, ``runs`` of simulated equiangular tokens."""

    sizes: tuple[int, ...] = (100, 1000, 10000, 100000)
    runs: tuple[int, ...] = (16, 64)
    rho: float = 0.3
    d: int = 256
    cloud: int = 2048
    instances: int = 60
    seed: int = 0


def law(n: float, c: float, rho: float) -> float:
    """1/(1 + (n-1) n^{-c(1-rho)})."""
    return float(1.0 / (1.0 + (n - 1) * n ** (-c * (1.0 - rho))))


def self_weight(n: int, c: float, rho: float) -> float:
    """The attention of one token to itself among n - 1 others at cosine rho, by the sums of the exact engine."""
    x = np.tile([rho, np.sqrt(1.0 - rho**2)], (n, 1))
    x[0] = 1.0, 0.0
    beta = c * np.log(n)
    return float(np.exp(beta - exact(x[:1], x, beta=beta, symmetric=False).log_z[0]))


def drawn(seed: int) -> tuple[float, float]:
    """rho, and c(1-rho), which stays away from 1 by a fifth."""
    rng = np.random.default_rng([seed, 37])
    rho, y = float(rng.uniform(0.2, 0.6)), float(rng.uniform(0.3, 0.8))
    return rho, y if rng.uniform() < 0.5 else y + 1.0


def one(params: Params, seed: int) -> Data:
    """Weights, critical c, and the exponent of the collapse time of one drawn (rho, c)."""
    rho, y = drawn(seed)
    c = y / (1.0 - rho)
    weights = [self_weight(n, c, rho) for n in params.sizes]
    n = params.sizes[-1]
    critical = brentq(lambda a: self_weight(n, a, rho) - 0.5, 0.5 / (1.0 - rho), 2.0 / (1.0 - rho), xtol=1e-10)
    ends = [equiangular_time(END, m, c * np.log(m), rho) * (np.log(m) if y > 1.0 else 1.0) for m in (10_000, 100_000)]
    return {
        "rho": np.array([rho]), "y": np.array([y]), "weight": np.array([weights]),
        "weight law": np.array([[law(m, c, rho) for m in params.sizes]]),
        "critical": np.array([critical * (1.0 - rho)]), "exponent": np.array([np.log10(ends[1] / ends[0])]),
    }  # fmt: skip


def collapse(params: Params, n: int, seeds: range) -> Data:
    """The cosine of simulated equiangular tokens at the time at which the closed form says END."""
    found = []
    for seed in seeds:
        rho, y = drawn(seed)
        beta = y / (1.0 - rho) * np.log(n)
        t = equiangular_time(END, n, beta, rho)
        x = simulate(Dynamics(beta=beta), equiangular(n, np.array([rho]))[0], t, t / 400.0, save=[t]).x[-1]
        found.append(float(cosine_and_norm(x)[0]))
    return {"cosine": np.array(found)}


def random_weights(params: Params, ys: np.ndarray) -> np.ndarray:
    """Mean weight on itself of random tokens around one direction, mean cosine rho, at each c(1-rho)."""
    rng = np.random.default_rng(params.seed)
    g = rng.standard_normal((params.cloud, params.d))
    g[:, 0] = 0.0
    x = np.sqrt(1.0 - params.rho) * g / np.linalg.norm(g, axis=1, keepdims=True)
    x[:, 0] = np.sqrt(params.rho)
    betas = ys / (1.0 - params.rho) * np.log(params.cloud)
    return np.array([np.exp(b - exact(x, x, beta=float(b)).log_z).mean() for b in betas])


def run(params: Params, work: Work) -> Data:
    def chunk(first: int, last: int) -> Data:
        rows = [one(params, params.seed + k) for k in range(first, last)]
        return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}

    data = work.parts("weights", params.instances, 20, chunk)
    for n in params.runs:
        make = lambda a, b, n=n: collapse(params, n, range(params.seed + a, params.seed + b))  # noqa: E731
        data[f"cosine {n}"] = work.parts(f"collapse-{n}", params.instances // 2, 10, make)["cosine"]
    ys = np.linspace(0.2, 2.0, 25)
    data |= {"ys": ys, "random": random_weights(params, ys)}
    data["curves"] = np.array([[self_weight(n, y / (1.0 - params.rho), params.rho) for y in ys] for n in params.sizes])
    return data


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    seeds = [params.seed + k for k in range(len(data["y"]))]
    above = data["y"] > 1.0
    off = np.abs(data["weight"] - data["weight law"]).max(axis=1)
    steps = np.diff(data["weight"], axis=1) * np.where(above, 1.0, -1.0)[:, None]
    grows = np.where(above[:, None], data["weight"][:, :-1] > 1.0 - 1e-12, False)  # 1 cannot grow
    gap = np.abs(data["critical"] - 1.0) * params.sizes[-1]
    wanted = np.maximum(0.0, data["y"] - 1.0)
    n = f"{params.sizes[-1]:,}"
    return [
        judge_share(
            "A token's weight on itself is 1/(1 + (n-1) n^(-c(1-rho))).", SOURCE, [bool(v <= IDENTITY) for v in off],
            seeds=seeds, notes=f"n from {params.sizes[0]} to {n}; largest difference {off.max():.1e}",
        ),
        judge_share(
            "With n it tends to 0 for c < 1/(1-rho) and to 1 for c > 1/(1-rho).", SOURCE,
            [bool(row.all()) for row in (steps > 0) | grows], seeds=seeds,
            notes=f"{int(above.sum())} draws above, {int((~above).sum())} below; monotone in n at every size",
        ),
        judge_share(
            "The critical c is 1/(1-rho).", SOURCE, [bool(v <= 1.0) for v in gap], seeds=seeds,
            notes=f"weight 1/2 at n = {n}; c(1-rho) is 1 to {gap.max() / params.sizes[-1]:.1e}, allowed 1/n",
        ),
        _collapsed(params, data),
        judge_share(
            "The collapse time stays bounded below the critical c, and grows like n^(c(1-rho)-1)/beta above.", SOURCE,
            [bool(v <= EXPONENT) for v in np.abs(data["exponent"] - wanted)], seeds=seeds,
            notes=f"exponents off by at most {np.abs(data['exponent'] - wanted).max():.3f}, from n = 1e4 to 1e5",
        ),
    ]  # fmt: skip


def _collapsed(params: Params, data: Data) -> Verdict:
    off = np.concatenate([np.abs(data[f"cosine {n}"] - END) for n in params.runs])
    sizes = " and ".join(map(str, params.runs))
    return judge_share(
        f"Equiangular tokens reach cosine {END:g} at the time of the closed form, at beta = c log n.",
        SOURCE,
        [bool(v <= MET) for v in off],
        notes=f"runs of {sizes} tokens; largest difference {off.max():.1e}",
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    ys, rho = data["ys"], params.rho
    lines = {f"n = {n:,}": data["curves"][k] for k, n in enumerate(params.sizes)}
    lines[f"random, d = {params.d}"] = data["random"]
    fine = np.linspace(ys[0], ys[-1], 200)
    laws = np.concatenate([[*(law(n, y / (1 - rho), rho) for y in fine), np.nan] for n in params.sizes])
    step = {"law": (np.tile(np.append(fine, np.nan), len(params.sizes)), laws)}
    step["critical"] = np.ones(2), np.array([0.0, 1.0])
    weights = series(ys, lines, reference=step, xlabel=r"$c\,(1-\rho)$", ylabel="weight on itself", marks=True,
                     outside=True)  # fmt: skip
    n = np.logspace(1, 5, 60)
    times = {
        rf"$c(1-\rho)$ = {y:g}": [equiangular_time(END, int(m), y / (1 - rho) * np.log(int(m)), rho) for m in n]
        for y in (0.5, 0.8, 1.0, 1.2, 1.5)
    }
    slope = {r"slope $n^{1/2}$": (n, 0.3 * np.sqrt(n))}
    collapsed = series(n, times, reference=slope, xlabel="tokens $n$", ylabel=f"time to cosine {END:g}", xscale="log",
                       yscale="log", outside=True)  # fmt: skip
    return {
        TITLE: captioned(
            weights,
            f"Dots: measured, all other tokens at cosine rho = {rho:g}; dashed: the law. The random ones are "
            f"{params.cloud:,} tokens of mean cosine rho in {params.d} dimensions, beta = c log n.",
        ),
        "Collapse time against context": captioned(
            collapsed, f"Equiangular tokens from cosine rho = {rho:g}, V = I, beta = c log n, closed form."
        ),
    }


def check(params: Params) -> dict[str, Check]:
    rho, c, n = 0.37, 1.4, 40
    x = np.tile([rho, np.sqrt(1.0 - rho**2)], (n, 1))
    x[0], eye = (1.0, 0.0), np.eye(2)
    own = self_weight(n, c, rho)
    y, many = equiangular(8, np.array([rho]))[0], np.eye(8)
    beta = c * np.log(8)
    t = equiangular_time(END, 8, beta, rho)
    there = plain.moved(lambda _, z: plain.projected(z, plain.pull(z, many, many, many, beta)), y, t, 800)
    moved = simulate(Dynamics(beta=beta), y, t, t / 400.0, save=[t]).x[-1]
    return {
        "weight on itself": (own, plain.attention(x, eye, eye, c * np.log(n))[0, 0], 1e-12),
        "collapsing tokens": (moved, there, 1e-6),
        "cosine at the time of the closed form": (there[0] @ there[1], END, 1e-5),
    }


def finding(params: Params, data: Data) -> Finding:
    return Finding(
        "With beta = c log n there is a critical c, 1/(1-rho), between attention to everybody and to oneself.",
        f"At n = {params.sizes[-1]:,} the weight on itself passes 1/2 at {data['critical'].mean():.6f} of it, in all "
        f"{len(data['critical'])} draws of rho.",
        TITLE,
    )


EXPERIMENT = Experiment(
    name="long-context",
    title="Long contexts: beta = c log n",
    source=SOURCE,
    figures="beyond the papers' figures",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 40, "sizes": (100, 1000, 10000), "runs": (16,), "cloud": 512},
    full={"instances": 1000, "sizes": (100, 1000, 10000, 100000, 1000000), "runs": (16, 64, 256)},
    text="If beta grows like c log n, attention of equiangular tokens changes sides at c = 1/(1-rho): below it "
    "everybody is seen and tokens collapse in a bounded time, above it each token sees itself alone and waits.",
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="contexts of 100,000 tokens, and runs of 64",
)
