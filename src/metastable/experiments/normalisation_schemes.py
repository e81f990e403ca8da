"""Where norms are taken decides how fast tokens collapse: Post-LN, Pre-LN, Peri-LN, Mix-LN, nGPT, depth scaling.

Each scheme is a geometry (`metastable.equation.geometry`): attention sees directions; x = r theta, theta' = P u / r.

1. Equiangular tokens stay so, and cosine gamma and norm r obey two scalar equations (`theory.scheme_forms`). RK4 in
   steps of 0.05 errs by 1e-7 at these rates; the criterion is 1e-5, while another factor changes gamma by 1e-2.
2. Late: with rates tending to their limits, 1 - gamma falls like e^{-2t} where r is held (Post-LN, nGPT: |a| -> 1), and
   like r^{-2} where r grows, because d log(1-gamma)/d log r = -2 then: t^{-2} where r ~ t (Pre-LN, Peri-LN, Mix-LN),
   1/t under depth scaling, where r ~ 2 sqrt(t). Rate and exponent in r are measured between the last two saved times,
   and may be off by a tenth. (At first the exponent in t was judged; under depth scaling it tends to 1 like t^{-1/2}
   only, because r is 2 sqrt(t) plus a constant: 1.07 to 1.15 between t = 100 and 200. Then depth scaling was given ten
   times as long: rates are within (1+beta)(1-gamma) of their limits, and an instance counts where that is below 0.05.)
3. Who is fastest? |a| < 1 before collapse, so that normalised outputs (nGPT, Peri-LN) are faster than their
   counterparts (Post-LN, Pre-LN), always; and Post-LN is faster than Pre-LN once r > 1. Random tokens are asked too.
"""

from dataclasses import dataclass

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.experiments import plain_formulas as plain
from metastable.experiments import scheme_groups, sphere_pairs
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.initial import sphere
from metastable.plots import series
from metastable.plots.style import captioned
from metastable.solve.simulate import simulate
from metastable.theory.scheme_forms import SCHEMES, scheme_path
from metastable.theory.verdicts import Verdict, judge_share

SOURCE = "speed regulation by normalisation"
WORDS = {
    "post-ln": "Post-LN", "pre-ln": "Pre-LN", "peri-ln": "Peri-LN", "mix-ln": "Mix-LN", "ngpt": "nGPT",
    "depth-scaled": "depth-scaled",
}  # fmt: skip
EXACT = 1e-5
NEAR = 0.1  # of an exponent, or of the rate 2
POWERS = {"pre-ln": 2.0, "peri-ln": 2.0, "mix-ln": 2.0, "depth-scaled": 1.0}  # the others fall like e^{-2t}
TITLE = "Collapse under six normalisation schemes"


@dataclass(frozen=True)
class Params:
    """Equiangular starts of ``sizes`` tokens with drawn beta and cosine; random starts of ``n`` tokens in R^d."""

    sizes: tuple[int, ...] = (6, 16)
    t: float = 6.0
    dt: float = 0.05
    until: float = 1.5
    late: float = 400.0
    n: int = 32
    d: int = 8
    beta: float = 1.0
    instances: int = 40
    seed: int = 0

    @property
    def times(self) -> np.ndarray:
        """Saved times of the early runs."""
        return np.linspace(0.0, self.t, 25)


def name_of(params: Params, scheme: str) -> str:
    """The geometry of a scheme."""
    return f"mix-ln({params.until:g})" if scheme == "mix-ln" else scheme


def drawn(params: Params, n: int, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """beta and the first cosine of each instance."""
    draws = [np.random.default_rng([params.seed + k, n, 23]).uniform(size=2) for k in range(first, last)]
    return np.array([0.3 + 3.2 * a for a, _ in draws]), np.array([0.4 * b for _, b in draws])


def equiangular(n: int, gamma: np.ndarray) -> np.ndarray:
    """Unit tokens (b, n, n) at equal angles."""
    gram = gamma[:, None, None] + (1.0 - gamma)[:, None, None] * np.eye(n)
    return np.linalg.cholesky(gram)


def cosine_and_norm(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean cosine of different tokens, and mean norm, over the last two axes."""
    norm = np.linalg.norm(x, axis=-1)
    theta, n = x / norm[..., None], x.shape[-2]
    total = (theta.sum(axis=-2) ** 2).sum(axis=-1)
    return (total - n) / (n * (n - 1)), norm.mean(axis=-1)


def moved(params: Params, scheme: str, beta: np.ndarray, x0: np.ndarray, times: np.ndarray, dt: float) -> np.ndarray:
    """Tokens (T, b, n, d) of starts (b, n, d) at whole steps; always as many times: a shape is compiled once."""
    return simulate(Dynamics(beta=beta, geometry=name_of(params, scheme)), x0, times[-1], dt, save=times).x


def equal_angles(params: Params, scheme: str, n: int, first: int, last: int) -> Data:
    """Equiangular runs, early and late, with the law of the early ones."""
    beta, gamma = drawn(params, n, first, last)
    x0 = equiangular(n, gamma)
    cosine, norm = cosine_and_norm(moved(params, scheme, beta, x0, params.times, params.dt))  # (T, b)
    law = scheme_path(scheme, params.times, n, beta, gamma, until=params.until)  # (T, b)
    found = {"gamma": cosine.T, "r": norm.T, "gamma law": law[0].T, "r law": law[1].T, "beta": beta}
    if n == params.sizes[0]:
        late = params.late * (10.0 if scheme == "depth-scaled" else 1.0)
        half, end = (late / 2.0, late) if scheme in POWERS else (8.0, 10.0)
        dt = 2.0 * params.dt
        before = np.round(np.linspace(0.0, half, len(params.times) - 1) / dt) * dt
        x = moved(params, scheme, beta, x0, np.append(before, end), dt)[-2:]
        found |= {"gap": _gap(x).T, "late r": cosine_and_norm(x)[1].T}  # (b, 2)
    return found


def two_groups(params: Params, scheme: str) -> Data:
    """Two groups of different sizes instead, in runs of the same shapes, soon after Mix-LN's change."""
    n = params.sizes[0]
    beta, _ = drawn(params, n, 0, params.instances)
    x0, angle = sphere_pairs.tokens(n, n, params.instances, params.seed)
    at = int(np.argmax(params.times > params.until))
    x = moved(params, scheme, beta, x0, params.times, params.dt)[at]
    return scheme_groups.measured(scheme, x, angle, beta, float(params.times[at]), params.until)


def _gap(x: np.ndarray) -> np.ndarray:
    """1 - gamma without cancellation: half the mean squared distance of directions, over (..., n, d)."""
    theta = x / np.linalg.norm(x, axis=-1, keepdims=True)
    centred = theta - theta.mean(axis=-2, keepdims=True)
    n = x.shape[-2]
    return np.asarray((centred**2).sum(axis=(-1, -2)) / (n - 1))


def run(params: Params, work: Work) -> Data:
    data: Data = {}
    for scheme in SCHEMES:
        for n in params.sizes:

            def chunk(first: int, last: int, scheme: str = scheme, n: int = n) -> Data:
                return equal_angles(params, scheme, n, first, last)

            found = work.parts(f"{scheme}-{n}", params.instances, params.instances, chunk)
            data |= {f"{key} {scheme} {n}": value for key, value in found.items()}

        data |= work.part(f"{scheme}-groups", lambda s=scheme: two_groups(params, s))  # type: ignore[misc]

        def at_random(first: int, last: int, scheme: str = scheme) -> Data:
            x0 = np.stack([sphere(params.n, params.d, seed=params.seed + k) for k in range(first, last)])
            beta = np.full(len(x0), params.beta)
            return {"cosine": cosine_and_norm(moved(params, scheme, beta, x0, params.times, params.dt))[0].T}

        data[f"random {scheme}"] = work.parts(f"{scheme}-random", params.instances, params.instances, at_random)[
            "cosine"
        ]
    return data


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    return [
        *(_law(params, data, scheme) for scheme in SCHEMES),
        *(_late(params, data, scheme) for scheme in SCHEMES),
        scheme_groups.verdict(data, SCHEMES, SOURCE),
        _faster(params, data, "ngpt", "post-ln", "always"),
        _faster(params, data, "peri-ln", "pre-ln", "always"),
        _faster(params, data, "post-ln", "pre-ln", "at the end"),
        _faster(params, data, "pre-ln", "depth-scaled", "at the end"),
    ]


def _law(params: Params, data: Data, scheme: str) -> Verdict:
    """Largest difference of gamma and of r/t-scale over all saved times, at most EXACT."""
    off = np.concatenate(
        [
            np.maximum(
                np.abs(data[f"gamma {scheme} {n}"] - data[f"gamma law {scheme} {n}"]).max(axis=1),
                np.abs(data[f"r {scheme} {n}"] / data[f"r law {scheme} {n}"] - 1.0).max(axis=1),
            )
            for n in params.sizes
        ]
    )
    return judge_share(
        f"Equiangular tokens under {WORDS[scheme]} follow its two scalar equations.",
        SOURCE,
        [bool(value <= EXACT) for value in off],
        notes=f"largest difference {off.max():.1e} up to t = {params.t:g}",
    )


def _late(params: Params, data: Data, scheme: str) -> Verdict:
    gap, power = data[f"gap {scheme} {params.sizes[0]}"], POWERS.get(scheme)
    fall = np.log(gap[:, 0] / gap[:, 1])
    if power is None:
        rate, want, law = fall / 2.0, 2.0, "e^(-2t)"  # between t = 8 and 10
    else:
        r = data[f"late r {scheme} {params.sizes[0]}"]
        rate, want, law = fall / np.log(r[:, 1] / r[:, 0]), 2.0, f"r^(-2), that is like t^(-{power:g})"
    return judge_share(
        f"Under {WORDS[scheme]} the distance of tokens, 1 - gamma, falls like {law}.",
        SOURCE,
        [bool(abs(value - want) <= NEAR) for value in rate],
        eligible=[bool(value <= NEAR / 2.0) for value in (1.0 + data[f"beta {scheme} {params.sizes[0]}"]) * gap[:, 0]],
        notes=f"measured {'rates' if power is None else 'exponents'} {rate.min():.3f} to {rate.max():.3f}",
    )


def _faster(params: Params, data: Data, fast: str, slow: str, when: str) -> Verdict:
    """Cosines compared token cloud by token cloud; where both have collapsed to 1e-6 there is nothing to compare."""
    ahead = data[f"random {fast}"] - data[f"random {slow}"]  # (b, T)
    apart = 1.0 - data[f"random {fast}"] > 1e-6
    asked = apart[:, 1:] if when == "always" else apart[:, -1:]
    gained = ahead[:, 1:] if when == "always" else ahead[:, -1:]
    return judge_share(
        f"Tokens drawn at random collapse faster under {WORDS[fast]} than under {WORDS[slow]}, {when}.",
        SOURCE,
        [bool((g[a] > 0).all()) for g, a in zip(gained, asked)],
        kind="observation",
        required=0.9,
        eligible=[bool(a.any()) for a in asked],
        seeds=[params.seed + k for k in range(len(ahead))],
        notes=f"n = {params.n}, d = {params.d}, beta = {params.beta:g}, up to t = {params.t:g}",
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    n = params.sizes[0]
    gamma, norms, dashed = {}, {}, {}
    for scheme in SCHEMES:
        gamma[WORDS[scheme]], norms[WORDS[scheme]] = data[f"gamma {scheme} {n}"][0], data[f"r {scheme} {n}"][0]
    gaps = np.concatenate([np.append(data[f"gamma law {scheme} {n}"][0], np.nan) for scheme in SCHEMES])
    dashed["scalar equations"] = (np.tile(np.append(params.times, np.nan), len(SCHEMES)), gaps)
    first = series(params.times, gamma, reference=dashed, ylabel=r"cosine $\gamma$", marks=True, outside=True)
    length = series(params.times, norms, ylabel="norm $r$", outside=True)
    mean = {WORDS[s]: 1.0 - data[f"random {s}"].mean(axis=0) for s in SCHEMES}
    clouds = series(params.times, mean, ylabel="1 - mean cosine", yscale="log", outside=True)
    beta = data[f"beta {SCHEMES[0]} {n}"][0]
    change = f"Mix-LN changes at t = {params.until:g}"
    start = f"{n} equiangular tokens, V = I, beta = {beta:.2f}, {change}, seed {params.seed}."
    return {
        TITLE: captioned(first, f"Cosine of tokens, measured (dots) and by its equation (dashed). {start}"),
        "Norms under the schemes": captioned(
            length, f"Norm of the residual stream; Post-LN and nGPT keep it at 1. {start}"
        ),
        "Random tokens under the schemes": captioned(
            clouds,
            f"Mean over {params.instances} starts, n = {params.n}, d = {params.d}, beta = {params.beta:g}, V = I.",
        ),
    }


def check(params: Params) -> dict[str, Check]:
    """Tokens of no symmetry until after Mix-LN's change, each scheme by its formula in NumPy, in the same steps of RK4.

    They run as the equiangular tokens do, in the same number: what is compiled is what the verdicts rest on.
    """
    n, beta, found = params.sizes[0], 1.7, {}
    x0, eye = np.stack([sphere(n, n, seed=params.seed + k) for k in range(params.instances)]), np.eye(n)
    at = int(np.argmax(params.times > params.until))
    t = float(params.times[at])

    def field(t: float, x: np.ndarray, scheme: str) -> np.ndarray:
        r = np.linalg.norm(x, axis=1, keepdims=True)
        theta = x / r
        u = plain.pull(theta, eye, eye, eye, beta)
        u = u / np.linalg.norm(u, axis=1, keepdims=True) if scheme in ("peri-ln", "ngpt") else u
        u = u / np.sqrt(1.0 + t) if scheme == "depth-scaled" else u
        return r * plain.projected(theta, u) if scheme in ("post-ln", "ngpt") else u

    for scheme in SCHEMES:
        own = moved(params, scheme, np.full(len(x0), beta), x0, params.times, params.dt)[at, 0]
        mixed = [("post-ln", params.until), ("pre-ln", t - params.until)]
        there, parts = x0[0], mixed if scheme == "mix-ln" else [(scheme, t)]
        for part, length in parts:
            steps = round(length / params.dt)
            there = plain.moved(lambda t, x, part=part: field(t, x, part), there, length, steps)  # type: ignore[misc]
        if scheme in ("post-ln", "ngpt"):
            there = there / np.linalg.norm(there, axis=1, keepdims=True)
        found[f"tokens under {WORDS[scheme]}"] = (own, there, 1e-7)
    return found


def finding(params: Params, data: Data) -> Finding:
    left = {s: float(1.0 - data[f"random {s}"][:, -1].mean()) for s in SCHEMES}
    first, last = min(left, key=lambda s: left[s]), max(left, key=lambda s: left[s])
    return Finding(
        "Where norms are taken changes how fast tokens collapse: exponentially, like t^(-2), or like 1/t.",
        f"At t = {params.t:g} random tokens are {left[last] / left[first]:.2g} times farther apart under {WORDS[last]} "
        f"than under {WORDS[first]}.",
        TITLE,
    )


EXPERIMENT = Experiment(
    name="normalisation-schemes",
    title="Normalisation schemes as speed regulation",
    source=SOURCE,
    figures="beyond the papers' figures",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"sizes": (8,), "instances": 40, "late": 50.0, "n": 8},
    full={"instances": 400, "sizes": (4, 6, 16, 32)},
    text="The papers' sphere is Post-LN. Five other schemes let the norm of the residual stream grow, or normalise "
    "what attention gives: the same attention, at another speed.",
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="16 tokens at equal angles, clouds of more than 8 tokens, and times beyond 50 (depth-scaled: 500)",
)
