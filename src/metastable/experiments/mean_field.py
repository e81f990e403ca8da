"""The flow of measures (second paper, appendix A): two samples of one law stay close.

On the line, where Wasserstein distances are exact (sort both samples), n tokens are drawn twice from one law and both
clouds follow eq. (1). If the flow is well posed for measures, their distance W1 at time t is at most a constant C(t)
times that at 0, whatever n: it must fall with n at the rate of sampling, n^{-1/2}, and grow with t alone.
"""

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev

from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.plots import series
from metastable.plots.style import captioned
from metastable.solve.methods import RK4
from metastable.solve.stepping import explicit_step
from metastable.theory.intervals import mean_half_width, power_interval
from metastable.theory.verdicts import Verdict, judge_number, judge_share

SOURCE = "second paper, appendix A"
TITLE = "Distance of two samples of one law against their size"
LARGEST = 1e3  # a bound on W1(t)/W1(0) above this says nothing: nothing could break it


@dataclass(frozen=True)
class Params:
    """Q = K = V = 1 and tokens uniform on [-1, 1], as in the second paper's low-rank figures."""

    sizes: tuple[int, ...] = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
    horizon: float = 1.0
    dt: float = 0.1
    instances: int = 200
    least: int = 12
    seed: int = 0

    def count(self, n: int) -> int:
        """Pairs of samples of size n: ``instances`` up to n = 256, then fewer at equal cost, but at least ``least``."""
        return min(self.instances, max(self.least, self.instances * 256 // n))


def velocity(x: np.ndarray) -> np.ndarray:
    """Softmax averages sum_j e^{x_i x_j} x_j / sum_j e^{x_i x_j} of tokens on the line (..., n), in O(n m).

    As a function of the query the average is analytic: for tokens in [-R, R] its nearest poles are at least pi/(2R)
    from the real line (where two opposite weights could cancel), so that Chebyshev interpolation at m nodes errs by
    about (1 + pi/(2 R^2))^{-m}: m = 20 + 10 R^2 leaves 1e-7 at worst, and far less where tokens are spread.
    """
    reach = float(np.abs(x).max())
    m = 20 + int(10.0 * reach**2)
    nodes = reach * np.cos(np.pi * (np.arange(m) + 0.5) / m)  # (m,)
    scores = nodes[:, None] * x[..., None, :]  # (..., m, n)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    averages = (weights * x[..., None, :]).sum(axis=-1) / weights.sum(axis=-1)  # (..., m)
    basis = np.cos(np.pi * np.outer(np.arange(m), np.arange(m) + 0.5) / m) * (2.0 / m)
    basis[0] /= 2.0
    coefficients = averages @ basis.T  # (..., m)
    flat = [chebyshev.chebval(q / reach, c) for q, c in zip(x.reshape(-1, x.shape[-1]), coefficients.reshape(-1, m))]
    return np.array(flat).reshape(x.shape)


def flow(x: np.ndarray, horizon: float, dt: float) -> np.ndarray:
    """Tokens (T, ..., n) at 0, dt, ... by RK4 steps of eq. (1)."""
    path = [x]
    for _ in range(round(horizon / dt)):
        x = explicit_step(RK4.tableau, lambda _, y: velocity(y), 0.0, x, dt)
        path.append(x)
    return np.stack(path)


def samples(seed: int, n: int) -> np.ndarray:
    """Two independent samples (2, n) of the law."""
    return np.random.default_rng([seed, n]).uniform(-1.0, 1.0, (2, n))


def distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """W1 of two samples of one size (..., n): on the line sorting is the best match."""
    return np.asarray(np.abs(np.sort(x, axis=-1) - np.sort(y, axis=-1)).mean(axis=-1))


def run(params: Params, work: Work) -> Data:
    data: Data = {}
    for n in params.sizes:

        def chunk(first: int, last: int, n: int = n) -> Data:
            pairs = np.stack([samples(params.seed + k, n) for k in range(first, last)])  # (b, 2, n)
            path = flow(pairs, params.horizon, params.dt)  # (T, b, 2, n)
            found = {"W": distance(path[:, :, 0], path[:, :, 1]).T, "reach": np.abs(path).max(axis=(2, 3)).T}
            return found | {"field": field_ratio(pairs)}

        found = work.parts(f"n{n}", params.count(n), max(1, 8192 // n), chunk)
        data[f"W-{n}"], data[f"reach-{n}"] = found["W"], found["reach"]  # (b, T)
        data[f"field-{n}"] = found["field"]  # (b,)
    return data


def field_ratio(x: np.ndarray) -> np.ndarray:
    """Velocities of samples (b, 2, n) over the law's own, coth(x) - 1/x, among tokens within 1/2 of 0: (b,).

    sum v_i x_i / sum (coth(x_i) - 1/x_i) x_i, so that the mean of a sample, which moves all of them, cancels.
    """
    inner = np.where((np.abs(x) < 0.5) & (x != 0.0), x, np.nan)
    law = 1.0 / np.tanh(inner) - 1.0 / inner
    return np.asarray(np.nanmean(velocity(x) * inner, axis=(1, 2)) / np.nanmean(law * inner, axis=(1, 2)))


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    start, end = _slope(params, data, 0), _slope(params, data, -1)
    t, growth = params.horizon, np.concatenate([data[f"W-{n}"][:, -1] / data[f"W-{n}"][:, 0] for n in params.sizes])
    rate = judge_number(
        f"At t = {t:g} the distance of two samples of one law still falls like n^(-1/2).",
        SOURCE,
        [end[0]],
        (-0.5 - 1.0 / 12.0, -0.5 + 1.0 / 12.0),
        interval=end[1:],
        deciding=len(growth),
        notes=f"exponent at t = 0: {start[0]:.3f}; 1/12 is half the way to the next rate of the theory, n^(-1/3)",
    )
    return [rate, _no_growth_in_n(params, data, growth), _stability(params, data, growth), _field(params, data)]


def _field(params: Params, data: Data) -> Verdict:
    """The field that moves a sample is that of its law: the ratio of `field_ratio` is 1 to 3%, for the larger sizes.

    A quotient of means over n tokens is off by about 1/n, 0.2% at n = 512, while columns in the place of rows of the
    attention matrix would move these tokens 8% to 10% too slowly (y^2/sinh(y) integrated instead of y^2/2), and half
    the beta by half. Added after a first look, because a transposed attention matrix moved no other verdict; the
    tolerance was fixed by these two numbers before any ratio was seen.
    """
    sizes = params.sizes[len(params.sizes) // 2 :]
    ratio = np.concatenate([data[f"field-{n}"] for n in sizes])
    return judge_number(
        f"Samples of n >= {sizes[0]} tokens are moved by the field of their law, v(x) = coth(x) - 1/x at t = 0.",
        SOURCE + "; the uniform law's integral",
        ratio,
        (0.97, 1.03),
        notes="measured: the ratio of both over tokens within 1/2 of 0, pair by pair",
    )


def _slope(params: Params, data: Data, index: int, ratio: bool = False) -> tuple[float, float, float]:
    """Exponent of n, and its 95% interval: least squares over all pairs of samples.

    sqrt(n) W1 has a limit law, so log W1 has, for large n, the same scatter at each n around a line of slope -1/2.
    """
    W = {n: data[f"W-{n}"] for n in params.sizes}
    return power_interval({n: w[:, index] / w[:, 0] if ratio else w[:, index] for n, w in W.items()})


def _no_growth_in_n(params: Params, data: Data, growth: np.ndarray) -> Verdict:
    """The constant of stability does not depend on n: as a power of n, W1(t)/W1(0) has exponent 0, to 1/12 as above."""
    slope, low, high = _slope(params, data, -1, ratio=True)
    return judge_number(
        f"How much two clouds part by t = {params.horizon:g} does not depend on n.",
        SOURCE,
        [slope],
        (-1.0 / 12.0, 1.0 / 12.0),
        interval=(low, high),
        deciding=len(growth),
        notes=f"measured: the exponent of n in W1(t)/W1(0), whose median is {np.median(growth):.2f}",
    )


def parting_rate(reach: np.ndarray) -> np.ndarray:
    """L of the stability estimate, R^2 + e^{2 R^2}(1 + 2 R^2), for tokens within R = ``reach``."""
    return np.asarray(reach**2 + np.exp(2.0 * reach**2) * (1.0 + 2.0 * reach**2))


def stability(claim: str, parted: list[np.ndarray], room: list[np.ndarray], seeds: list[int], notes: str) -> Verdict:
    """log W1(t)/W1(0) <= ``room``, both (b, T) for each size; trivial where the bound is above LARGEST at every time.

    Changed after data had been seen: the bound grows like the exponential of an exponential, e^(10^5) within one unit
    of time, and counted as a theorem that holds at times where nothing could have broken it.
    """
    told = [bound <= np.log(LARGEST) for bound in room]
    heard = np.concatenate([t.any(axis=1) for t in told])
    first = np.median(np.exp(np.minimum(np.concatenate([bound[:, 0] for bound in room]), 700.0)))
    said = f"the bound on W1(t)/W1(0) is above {LARGEST:g} at every time asked"
    if heard.any():
        largest = max(float(np.exp(p[t]).max()) for p, t in zip(parted, told) if t.any())
        said = f"the bound is {first:.3g} at the first time, where W1(t)/W1(0) is at most {largest:.2f}"
    return judge_share(
        claim,
        SOURCE,
        np.concatenate([np.all(p <= bound, axis=1) for p, bound in zip(parted, room)]).tolist(),
        trivial=(~heard).tolist(),
        seeds=seeds,
        notes=f"{said}; {notes}",
    )


def _stability(params: Params, data: Data, growth: np.ndarray) -> Verdict:
    """W1(t) <= exp(int_0^t L) W1(0), at every saved time; see `stability`.

    Match the two samples in order (a flow on the line keeps order). For tokens in [-R, R] and Q = K = V = 1 the field
    v[mu](x) has |dv/dx| = variance of the tilted law <= R^2. Moving a unit of mass from y changes v by at most its
    tilted weight times |1 + x(y - m)|, the weight relative to its mass being at most e^{2 R^2}. So (d/dt) W1 <= L W1
    with L = R^2 + e^{2 R^2}(1 + 2 R^2), R = R(t) as measured. Rounding is far below the slack.
    """
    parted, room, seeds = [], [], []
    for n in params.sizes:
        W, reach = data[f"W-{n}"], data[f"reach-{n}"]
        rate = parting_rate(reach)  # (b, T), increasing in t
        room.append(np.cumsum(params.dt * rate[:, 1:], axis=1))  # each step at the rate of its end, which is larger
        parted.append(np.log(W[:, 1:] / W[:, :1]))
        seeds += [params.seed + k for k in range(len(W))]
    return stability(
        "Two clouds part no faster than the stability estimate allows, W1(t) <= exp(int_0^t L) W1(0).",
        parted,
        room,
        seeds,
        f"they part far more slowly: W1(t)/W1(0) at t = {params.horizon:g} has median {np.median(growth):.2f}, "
        f"maximum {growth.max():.2f}",
    )


def draw(params: Params, data: Data) -> Figures:
    n = np.array(params.sizes, dtype=float)
    steps = data[f"W-{params.sizes[0]}"].shape[1] - 1
    lines, bands = {}, {}
    for index in (0, steps // 2, steps):
        name = f"t = {index * params.dt:g}"
        found = [data[f"W-{k}"][:, index] for k in params.sizes]
        lines[name] = np.array([w.mean() for w in found])
        half = np.array([mean_half_width(w) for w in found])
        bands[name] = (lines[name] - half, lines[name] + half)
    root = {r"slope $n^{-1/2}$": (n, lines["t = 0"][0] * 0.6 * np.sqrt(n[0] / n))}
    rate = series(n, lines, band=bands, reference=root, xlabel="tokens $n$", ylabel="$W_1$ of two samples", marks=True,
                  xscale="log", yscale="log")  # fmt: skip
    rate.axes[0].set_xticks(n, [f"{k:g}" for k in n], rotation=45)
    rate.axes[0].set_xticks([], minor=True)
    t = params.dt * np.arange(steps + 1)
    chosen = [k for i, k in enumerate(params.sizes) if i % max(1, len(params.sizes) // 3) == 0]
    ratios = {f"n = {k}": (data[f"W-{k}"] / data[f"W-{k}"][:, :1]).mean(axis=0) for k in chosen}
    growth = series(t, ratios, reference={"$e^t$": (t, np.exp(t))}, ylabel="$W_1(t) / W_1(0)$, mean")
    law = f"Tokens uniform on [-1, 1], Q = K = V = 1, RK4 with dt = {params.dt:g}"
    seeds = f"up to {params.instances} pairs of samples from seed {params.seed} on"
    return {
        TITLE: captioned(rate, f"{law}; W1 of two samples at three times, {seeds}, means with 95% intervals."),
        "How two samples part in time: the growth is the same for every n": captioned(
            growth, f"{law}; {seeds}, means."
        ),
    }


def finding(params: Params, data: Data) -> Finding:
    return Finding(
        "The flow is well posed for measures, so samples of one law stay together.",
        f"On the line the distance of two samples falls like n^{_slope(params, data, 0)[0]:.2f} at t = 0 and like "
        f"n^{_slope(params, data, -1)[0]:.2f} at t = {params.horizon:g}; the error of sampling falls like n^-0.50.",
        TITLE,
    )


def check(params: Params) -> dict[str, Check]:
    """Velocities of 40 tokens by all pairs (interpolation leaves 1e-7), and their places at t = 0.5 (the step's "
    "1e-5)."""
    x, one = samples(params.seed, 40)[0], np.eye(1)
    direct = plain.pull(x[:, None], one, one, one)[:, 0]
    moved = plain.moved(lambda t, y: plain.pull(y, one, one, one), x[:, None], 0.5, 50)[:, 0]
    steps = max(1, round(0.5 / params.dt))
    return {
        "velocities on the line": (velocity(x), direct, 1e-6),
        "tokens at t = 0.5": (flow(x, 0.5, 0.5 / steps)[-1], moved, 1e-4),
    }


EXPERIMENT = Experiment(
    name="mean-field",
    title="The flow of measures",
    source=SOURCE,
    figures="",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 64, "least": 3, "dt": 0.2},
    full={"instances": 2000, "least": 100},
    check=check,
    finding=finding,
    topic="theorem",
    leaves_out="Two thirds of the pairs of samples.",
    text="Pairs of samples of one law, 32 to 8192 tokens on the line, follow the same flow. Their Wasserstein distance "
    "is exact (sorted matching). It falls like the sampling error at every time, and in time it grows by a factor that "
    "does not depend on n, which is what makes a flow of measures. Attention sums are taken in linear time by "
    "Chebyshev interpolation in the query.",
)
