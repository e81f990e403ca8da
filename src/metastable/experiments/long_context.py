"""Long contexts: beta = c log n, and the critical c at which attention turns from everybody to itself.

Where all other tokens are at cosine rho, the weight that a token keeps on itself is 1/(1 + (n-1) n^{-c(1-rho)}): with n
it tends to 0 for c < 1/(1-rho) and to 1 for c > 1/(1-rho). With y = c (1-rho), the logarithm of w/(1-w), w the weight,
is a line in log n of slope y - 1.

1. Equiangular tokens sqrt(rho) e_0 + sqrt(1-rho) e_i (n of them in R^{n+1}, n to 1e5): the weight of a token is that
   formula to 1e-9. This is an identity, and a test of the code.
2. Tokens drawn at random around one direction, sqrt(rho) e_0 + sqrt(1-rho) g_i with g_i uniform on a sphere of ``d``
   dimensions, are equiangular up to (1-rho)/sqrt(d). Does the law describe these? The weights of ``instances`` of
   them, with rho and y drawn for each, at n to 1e5: the slope in log n must be y - 1 to 0.1, and of the sign of y - 1.
   (Scatter adds (y log n)^2/(2 d) to the logarithm of what the others receive, about 0.03 to the slope. With n without
   end and d fixed the nearest token decides, and the law ends: d must stay above (y log n)^2.)
3. The critical c: for each of these tokens the y at which the slope is 0, found from slopes at y from 0.8 to 1.2. Their
   mean with Student's interval must be 1 to 0.02.
4. Equiangular tokens collapse by one scalar equation; runs of n tokens in R^n, n to 1,024, must be at cosine 0.9 at
   the time that its closed form says, to 1e-4.
5. By that closed form, to n = 1e5: below the critical c the collapse time stays bounded as n grows; above, it grows
   like n^{y-1}/beta, because a token sees each other one with weight n^{-y}, and n of them. The exponent between
   n = 1e4 and 1e5 must agree to 0.1, which is above the next correction, of order 1/log(n)^2.

Points 2 and 3 were at first a statement about n - 1 copies of one token, which is the identity again; they were made
one about random tokens after the first version had been run, and their criteria fixed before the new one was.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit, logsumexp

from metastable.engines.exact.sums import exact
from metastable.equation.dynamics import Dynamics
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.normalisation_schemes import cosine_and_norm, equiangular
from metastable.plots import series
from metastable.plots.style import captioned
from metastable.solve.simulate import simulate
from metastable.theory.equiangular import equiangular_time
from metastable.theory.verdicts import Verdict, judge_number, judge_share

SOURCE = "long contexts with equiangular tokens"
IDENTITY, MET, EXPONENT, SLOPE, CRITICAL = 1e-9, 1e-4, 0.1, 0.1, 0.02
END = 0.9  # cosine at which tokens count as collapsed
STEPS = 100  # of a run
NEAR = np.linspace(0.8, 1.2, 9)  # c(1-rho) at which slopes are measured
BLOCK = 5_000  # random tokens held at once
TITLE = "Weight on itself against c"


@dataclass(frozen=True)
class Params:
    """``instances`` drawn (rho, c); ``sizes`` of contexts, ``runs`` of simulated equiangular tokens."""

    sizes: tuple[int, ...] = (100, 1000, 10000, 100000)
    runs: tuple[int, ...] = (64, 256, 1024)
    rho: float = 0.3
    d: int = 2048
    instances: int = 60
    seed: int = 0

    def count(self, n: int) -> int:
        """Runs of n tokens: fewer of many."""
        return min(self.instances // 2, max(2, 1536 // n))


def law(n: float, c: float, rho: float) -> float:
    """1/(1 + (n-1) n^{-c(1-rho)})."""
    return float(1.0 / (1.0 + (n - 1) * n ** (-c * (1.0 - rho))))


def cosines(n: int, rho: float) -> np.ndarray:
    """Of the first of n tokens sqrt(rho) e_0 + sqrt(1-rho) e_i with all of them, itself first."""
    rows, columns = np.tile(np.arange(n), 2), np.append(np.zeros(n, int), np.arange(1, n + 1))
    x = csr_array((np.repeat(np.sqrt([rho, 1.0 - rho]), n), (rows, columns)), shape=(n, n + 1))
    return np.asarray((x @ x[[0]].T).todense()).ravel()


def log_odds(near: np.ndarray, beta: float) -> float:
    """log(w/(1-w)) of the weight w that a token keeps on itself, given its cosines with the others."""
    return float(beta - logsumexp(beta * near))


def weight(odds: np.ndarray) -> np.ndarray:
    """The weight behind `log_odds`."""
    return np.asarray(expit(odds))


def drawn(seed: int) -> tuple[float, float]:
    """rho, and c(1-rho), which stays away from 1 by a fifth."""
    rng = np.random.default_rng([seed, 37])
    rho, y = float(rng.uniform(0.2, 0.6)), float(rng.uniform(0.3, 0.8))
    return rho, y if rng.uniform() < 0.5 else y + 1.0


def around(params: Params) -> np.ndarray:
    """Cosines of ``instances`` random directions with as many others as the largest size asks for, (instances, n - 1).

    Uniform on the sphere of R^d; drawn in blocks of BLOCK, in float32: cosines are right to 1e-6.
    """
    rng = np.random.default_rng([params.seed, 41])

    def some(count: int) -> np.ndarray:
        g = rng.standard_normal((count, params.d), dtype=np.float32)
        return np.asarray(g / np.linalg.norm(g, axis=1, keepdims=True))

    asked, others = some(params.instances), params.sizes[-1] - 1
    blocks = [some(min(BLOCK, others - k)) @ asked.T for k in range(0, others, BLOCK)]
    return np.concatenate(blocks).T.astype(float)


def trend(near: np.ndarray, rho: float, y: float, sizes: Sequence[int]) -> np.ndarray:
    """log(w/(1-w)) of a token among the first n - 1 others, at each size; ``near`` are cosines of directions."""
    c = y / (1.0 - rho)
    return np.array([log_odds(rho + (1.0 - rho) * near[: n - 1], c * np.log(n)) for n in sizes])


def slope(values: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Least squares in log n, over the last axis."""
    L = np.log(sizes) - np.log(sizes).mean()
    return np.asarray(values @ L / (L @ L))


def crossing(ys: np.ndarray, slopes: np.ndarray) -> float:
    """Where slopes that grow with y are 0, by a line through all of them; nan where it is far from there."""
    b, a = np.polyfit(ys, slopes, 1)
    found = -a / b
    return float(found) if ys[0] <= found <= ys[-1] else np.nan


def one(params: Params, seed: int, near: np.ndarray) -> Data:
    """Weights of equiangular and of random tokens, critical y, and the collapse time's exponent, at one (rho, c)."""
    rho, y = drawn(seed)
    c = y / (1.0 - rho)
    equal = [log_odds(cosines(n, rho)[1:], c * np.log(n)) for n in params.sizes]
    slopes = np.array([slope(trend(near, rho, float(v), params.sizes), params.sizes) for v in NEAR])
    ends = [equiangular_time(END, m, c * np.log(m), rho) * (np.log(m) if y > 1.0 else 1.0) for m in (10_000, 100_000)]
    return {
        "rho": np.array([rho]), "y": np.array([y]), "weight": weight(np.array([equal])),
        "weight law": np.array([[law(m, c, rho) for m in params.sizes]]),
        "slope": slope(trend(near, rho, y, params.sizes)[None], params.sizes),
        "critical": np.array([crossing(NEAR, slopes)]), "exponent": np.array([np.log10(ends[1] / ends[0])]),
    }  # fmt: skip


def collapse(params: Params, n: int, seeds: range) -> Data:
    """The cosine of simulated equiangular tokens at the time at which the closed form says END."""
    found = []
    for seed in seeds:
        rho, y = drawn(seed)
        beta = y / (1.0 - rho) * np.log(n)
        t = equiangular_time(END, n, beta, rho)
        x = simulate(Dynamics(beta=beta), equiangular(n, np.array([rho]))[0], t, t / STEPS, save=[t]).x[-1]
        found.append(float(cosine_and_norm(x)[0]))
    return {"cosine": np.array(found)}


def run(params: Params, work: Work) -> Data:
    near = around(params)

    def chunk(first: int, last: int) -> Data:
        rows = [one(params, params.seed + k, near[k]) for k in range(first, last)]
        return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}

    data = work.parts("weights", params.instances, 20, chunk)
    for n in params.runs:
        make = lambda a, b, n=n: collapse(params, n, range(params.seed + a, params.seed + b))  # noqa: E731
        data[f"cosine {n}"] = work.parts(f"collapse-{n}", params.count(n), 10, make)["cosine"]
    ys = np.linspace(0.2, 2.0, 25)
    some = near[: min(10, len(near))]
    curves = np.array([[trend(row, params.rho, float(y), params.sizes) for y in ys] for row in some])  # (rows, y, size)
    return data | {"ys": ys, "curves": weight(curves)}


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    seeds = [params.seed + k for k in range(len(data["y"]))]
    away = data["y"] - 1.0
    off = np.abs(data["weight"] - data["weight law"]).max(axis=1)
    steep = np.abs(data["slope"] - away)
    n = f"{params.sizes[-1]:,}"
    return [
        judge_share(
            "A token's weight on itself among equiangular ones is 1/(1 + (n-1) n^(-c(1-rho))).", SOURCE,
            [bool(v <= IDENTITY) for v in off], seeds=seeds,
            notes=f"n from {params.sizes[0]} to {n}; largest difference {off.max():.1e}; an identity",
        ),
        judge_share(
            "Among random tokens of mean cosine rho it tends to 0 for c < 1/(1-rho) and to 1 for c > 1/(1-rho), like "
            "n^(c(1-rho)-1).", SOURCE,
            [bool(v <= SLOPE and s * a > 0) for v, s, a in zip(steep, data["slope"], away)], seeds=seeds,
            notes=f"{int((away > 0).sum())} draws above, {int((away < 0).sum())} below, n from {params.sizes[0]} to "
            f"{n} in {params.d:,} dimensions; exponents off by at most {steep.max():.3f}",
        ),
        judge_number(
            "The critical c is 1/(1-rho): there the weight of random tokens has no trend with n (c over 1/(1-rho)).",
            SOURCE, data["critical"], (1.0 - CRITICAL, 1.0 + CRITICAL),
            notes=f"n from {params.sizes[0]} to {n} in {params.d:,} dimensions",
        ),
        _collapsed(params, data),
        judge_share(
            "By the closed form the collapse time stays bounded below the critical c, and grows like "
            "n^(c(1-rho)-1)/beta above.", SOURCE,
            [bool(v <= EXPONENT) for v in np.abs(data["exponent"] - np.maximum(0.0, away))], seeds=seeds,
            notes=f"exponents off by at most {np.abs(data['exponent'] - np.maximum(0.0, away)).max():.3f}, from "
            f"n = 1e4 to 1e5; runs go to n = {params.runs[-1]:,}",
        ),
    ]  # fmt: skip


def _collapsed(params: Params, data: Data) -> Verdict:
    off = np.concatenate([np.abs(data[f"cosine {n}"] - END) for n in params.runs])
    sizes = ", ".join(f"{params.count(n)} of {n:,}" for n in params.runs)
    return judge_share(
        f"Equiangular tokens reach cosine {END:g} at the time of the closed form, at beta = c log n.",
        SOURCE,
        [bool(v <= MET) for v in off],
        notes=f"runs: {sizes} tokens; largest difference {off.max():.1e}",
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    ys, rho = data["ys"], params.rho
    lines = {f"n = {n:,}": data["curves"][:, :, k].mean(axis=0) for k, n in enumerate(params.sizes)}
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
    last = times[r"$c(1-\rho)$ = 1.5"][-1]
    slope = {r"$\sim n^{1/2}/\beta$": (n, 1.5 * last * np.sqrt(n / n[-1]) * np.log(n[-1]) / np.log(n))}
    collapsed = series(n, times, reference=slope, xlabel="tokens $n$", ylabel=f"time to cosine {END:g}", xscale="log",
                       yscale="log", outside=True)  # fmt: skip
    return {
        TITLE: captioned(
            weights,
            f"Dots: tokens drawn at random around one direction, mean cosine rho = {rho:g}, in {params.d:,} "
            f"dimensions, mean of {len(data['curves'])}; dashed: the law of equiangular ones, and the "
            "critical c. beta = c log n.",
        ),
        "Collapse time against context": captioned(
            collapsed, f"Equiangular tokens from cosine rho = {rho:g}, V = I, beta = c log n, closed form."
        ),
    }


def check(params: Params) -> dict[str, Check]:
    rho, c, n = 0.37, 1.4, 40
    x, eye = equiangular(n, np.array([rho]))[0], np.eye(n)
    beta = c * np.log(n)
    by_engine = np.exp(beta - exact(x[:1], x, beta=beta, symmetric=False).log_z[0])
    plainly = plain.attention(x, eye, eye, beta)[0, 0]
    y, many = equiangular(8, np.array([rho]))[0], np.eye(8)
    few = c * np.log(8)
    t = equiangular_time(END, 8, few, rho)
    there = plain.moved(lambda _, z: plain.projected(z, plain.pull(z, many, many, many, few)), y, t, 800)
    moved = simulate(Dynamics(beta=few), y, t, t / STEPS, save=[t]).x[-1]
    return {
        "weight on itself": (weight(np.array(log_odds(cosines(n, rho)[1:], beta))), plainly, 1e-12),
        "weight on itself by the exact engine": (by_engine, plainly, 1e-12),
        "collapsing tokens": (moved, there, 1e-6),
        "cosine at the time of the closed form": (there[0] @ there[1], END, 1e-5),
    }


def finding(params: Params, data: Data) -> Finding:
    off = np.abs(np.concatenate([data[f"cosine {n}"] for n in params.runs]) - END).max()
    return Finding(
        "With beta = c log n there is a critical c, 1/(1-rho), between attention to everybody and to oneself.",
        f"The weight on itself of random tokens in {params.d:,} dimensions has no trend with n, to "
        f"n = {params.sizes[-1]:,}, at {np.nanmean(data['critical']):.3f} of it (mean of {len(data['critical'])} "
        f"draws); runs of up to {params.runs[-1]:,} equiangular tokens collapse when the closed form says, to "
        f"{off:.0e}.",
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
    quick={"instances": 40, "sizes": (100, 1000, 10000), "runs": (64,), "d": 1024},
    full={"instances": 200, "sizes": (100, 1000, 10000, 100000), "runs": (64, 256, 1024, 2048)},
    text="If beta grows like c log n, attention of equiangular tokens changes sides at c = 1/(1-rho): below it "
    "everybody is seen and tokens collapse in a bounded time, above it each token sees itself alone and waits.",
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="contexts of 100,000 tokens, and runs of more than 64",
)
