"""Theorem C.5: with V = -I and Q^T K = I all tokens of the flow (1) collapse to 0, and they do so algebraically."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable import plots
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.self_checks import first_steps
from metastable.plots.style import captioned
from metastable.solve.simulate import simulate
from metastable.theory import hypotheses
from metastable.theory.closed_forms import collapse_covariance
from metastable.theory.verdicts import Verdict, judge_number, judge_share

SOURCE = "second paper, Theorem C.5"
DECAY = "Tokens shrink like one over the square root of time"


@dataclass(frozen=True)
class Params:
    """n = 40 tokens uniform on [-5, 5]^3, V = -I, Q = K = I; not rescaled.

    The horizon makes the terms left out of the closed form small, see `judge`; it is about 50 d.
    """

    instances: int = 200
    seed: int = 0
    n: int = 40
    d: int = 3
    side: float = 5.0
    t: float = 160.0
    method: str = "tsit5"
    dt: float = 0.1
    chunk: int = 50


def start(params: Params, index: int) -> np.ndarray:
    """Tokens of instance ``index``, drawn from the seed params.seed + index."""
    rng = np.random.default_rng([params.seed + index])
    return rng.uniform(-params.side, params.side, (params.n, params.d))


def times(params: Params) -> np.ndarray:
    """0, and 25 times up to the horizon that double every second step (so t/2 is among them)."""
    return np.concatenate([[0.0], params.t * 2.0 ** (np.arange(-24, 1) / 2.0)])


def flow(params: Params) -> Dynamics:
    """V = -I, Q = K = I in R^d."""
    eye = np.eye(params.d)
    return Dynamics(Weights(eye, eye, -eye), geometry="euclidean")


def settings(params: Params) -> dict[str, Any]:
    """How the flow is run."""
    return {"t": params.t, "method": params.method, "dt": params.dt, "save": times(params), "rtol": 1e-8}


def check(params: Params) -> dict[str, Check]:
    """The first instance: a few steps of x_i' = -sum_j P_ij x_j."""
    tokens = np.stack([start(params, i) for i in range(min(params.chunk, params.instances))])
    eye = np.eye(params.d)
    field = lambda t, x: plain.pull(x, eye, eye, -eye)  # noqa: E731
    return {"tokens after the first steps": first_steps(flow(params), tokens, [field], **settings(params))}


def run(params: Params, work: Work) -> Data:
    """Covariances and largest norms over time for every instance; tokens of the first."""

    def make(first: int, last: int) -> Data:
        tokens = np.stack([start(params, i) for i in range(first, last)])  # (B, n, d)
        made = simulate(flow(params), tokens, **settings(params))
        out = measured(made.x)
        return out | {"path": out["path"][:1] if first == 0 else out["path"][:0]}

    return work.parts("instances", params.instances, params.chunk, make)


def measured(x: np.ndarray) -> Data:
    """Covariance, largest norm and norm of the mean over time of runs (T, B, n, d), with runs first; the first steps.

    ``step`` is how far any token went until the first saved time, over that time and the farthest token.
    """
    x = np.swapaxes(x, 0, 1)  # (B, T, n, d)
    centred = x - x.mean(axis=2, keepdims=True)
    moved = np.linalg.norm(x[:, 1] - x[:, 0], axis=-1).max(axis=-1)  # (B,)
    return {
        "step": moved / np.linalg.norm(x[:, :2], axis=-1).max(axis=(1, 2)),
        "covariance": np.einsum("btni,btnj->btij", centred, centred) / x.shape[2],
        "largest": np.linalg.norm(x, axis=-1).max(axis=-1),
        "mean": np.linalg.norm(x.mean(axis=2), axis=-1),
        "path": x,
    }


def judge(params: Params, data: Data) -> list[Verdict]:
    """Four verdicts.

    Small centred tokens obey C' = -2 C^2 up to terms of relative size |x|^2 in each of the two factors of C (the cubic
    terms of the softmax). So from t/2 on C(t) must follow from C(t/2) by C(t/2) (I + t C(t/2))^{-1} with a relative
    mismatch of at most 2 max |x(t/2)|^2; an instance is undecided while that bound exceeds 0.2, where it would allow
    anything (and breaks the claim if tokens are then farther out than they began).

    Collapse at a finite time is judged by what the law implies: (|x_i| - |mean|)^2 <= n tr C, so tokens reach 0 exactly
    if the mean does and C obeys the law; the mean must be smaller than ``bound`` times the largest token.

    The rate: tr C = sum_i 1/(1/c_i + 2t), with c_i the variances at the start, has logarithmic slope within
    max_i 1/(2 c_i t) of -1, under 0.01 here, and the terms left out change it by up to bound/2: it must lie within 0.1.

    Small tokens cannot tell a matrix from its transpose; large ones can. x_i' is minus an average of tokens, so until
    the first saved time no token goes farther than that time times the farthest token (1% is allowed for rounding up).
    """
    V, eye = -np.eye(params.d), np.eye(params.d)
    good = hypotheses.negative_multiple_of_identity(V).holds and hypotheses.score_multiple_of_identity(eye, eye).holds
    largest, half = data["largest"], _half(params)
    mismatch, bound = _law(params, data)
    follows = [bool(m <= b) if b <= 0.2 else None for m, b in zip(mismatch, bound)]
    collapses = collapsed(params, data)
    trace = np.trace(data["covariance"], axis1=-2, axis2=-1)  # (instances, T)
    slope = np.log2(trace[:, -1] / trace[:, half])
    eligible = [good is True] * params.instances
    return [
        judge_share(
            "With V = -I and Q^T K = I every token tends to 0.",
            SOURCE,
            collapses,
            eligible=eligible,
            seeds=range(params.seed, params.seed + params.instances),
            notes=f"largest |x|: {largest[:, 0].mean():.3g} at the start, {largest[:, -1].mean():.3g} on average at "
            f"t = {params.t:g}, still falling; counted when the mean is gone and the covariance obeys the law below",
        ),
        judge_share(
            "The covariance obeys C' = -2 C^2, so C(t) = (C0^-1 + 2t I)^-1 and tr C -> d/(2t).",
            "closed form for small centred tokens",
            follows,
            eligible=eligible,
            seeds=range(params.seed, params.seed + params.instances),
            notes=f"relative mismatch over the last doubling: median {np.median(mismatch):.2g}, largest "
            f"{mismatch.max():.2g}; allowed: at least {bound.min():.2g}",
        ),
        judge_number(
            "The decay is algebraic: tr C falls like 1/t (logarithmic slope -1).",
            "closed form for small centred tokens",
            slope,
            (-1.1, -0.9),
            notes=f"2t tr C / d = {(2 * params.t * trace[:, -1] / params.d).mean():.4f} on average at the end",
        ),
        by_averages(data["step"], times(params)[1], params.seed),
    ]


def by_averages(step: np.ndarray, t: float, first: int) -> Verdict:
    """``step`` is how far any token went until time t, over the farthest token."""
    return judge_share(
        "Every token moves by minus an average of tokens: no faster than the farthest token is out.",
        "second paper, eqs (1) and (2) with V = -I",
        [bool(s <= 1.01 * t) for s in step],
        seeds=range(first, first + len(step)),
        notes=f"largest share of that speed: {step.max() / t:.3f}, early on",
    )


def finding(params: Params, data: Data) -> Finding:
    """That tokens shrink, and at which rate."""
    trace = np.trace(data["covariance"], axis1=-2, axis2=-1)
    slope = float(np.log2(trace[:, -1] / trace[:, _half(params)]).mean())
    return Finding(
        "With V = -I all tokens collapse to the origin (Theorem C.5, which gives no rate).",
        f"Of {params.instances} starts {int((trace[:, -1] < trace[:, 0]).sum())} shrink, but slowly: the variance "
        f"falls like t^{slope:.2f}; its closed form C' = -2 C^2 says t^-1.",
        DECAY,
    )


def collapsed(params: Params, data: Data) -> list[bool | None]:
    """Whether tokens go to 0 by the rule of `judge`; None where the horizon is too short to say."""
    mismatch, bound = _law(params, data)
    largest = data["largest"]
    falls = (np.diff(largest[:, _half(params) :], axis=1) < 0.0).all(axis=1)
    gone = data["mean"][:, -1] <= bound * largest[:, -1]
    good = (mismatch <= bound) & falls & gone
    shrinks = largest[:, -1] < largest[:, 0]
    return [bool(g) if b <= 0.2 else (None if s else False) for g, b, s in zip(good, bound, shrinks)]


def _law(params: Params, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """The relative mismatch with C' = -2 C^2 over the last doubling of time, and how much of it is allowed."""
    half = _half(params)
    bound = 2.0 * data["largest"][:, half] ** 2
    mismatch = []
    for C in data["covariance"]:
        predicted = collapse_covariance(params.t / 2.0, C[half])
        mismatch.append(np.linalg.norm(C[-1] - predicted) / np.linalg.norm(predicted))
    return np.array(mismatch), bound


def _half(params: Params) -> int:
    return len(times(params)) - 3  # where times are t/2


def draw(params: Params, data: Data) -> Figures:
    """The decay of every size in doubly logarithmic axes, and tokens of the first instance."""
    t = times(params)
    trace = np.trace(data["covariance"], axis1=-2, axis2=-1)  # (instances, T)
    lines = {"tr C": trace, "largest $|x_i|^2$": data["largest"] ** 2, "|mean|$^2$": data["mean"] ** 2}
    late = t[1:] > 0.5
    ends = {name: (np.quantile(v, 0.05, axis=0)[1:], np.quantile(v, 0.95, axis=0)[1:]) for name, v in lines.items()}
    decay = plots.series(
        t[1:],
        {name: np.median(v, axis=0)[1:] for name, v in lines.items()},
        band=ends,
        reference={"d / (2t)": (t[1:][late], params.d / (2.0 * t[1:][late]))},
        xscale="log",
        yscale="log",
        ylabel="squared length",
    )
    setting = f"n = {params.n}, d = {params.d}, V = -I, Q = K = I, beta = 1, not rescaled"
    many = f"{params.instances} instances from seed {params.seed} on"
    tokens = plots.snapshots(
        data["path"][0], t, times=[0.0, t[9], t[17], t[-1]], scale="own", geometry="euclidean", columns=4
    )
    return {
        DECAY: captioned(decay, f"Median and 90% of {many}, and the closed form's d/(2t). {setting}."),
        "Tokens at four times": captioned(
            tokens, f"Each panel with a scale of its own. {setting}, seed {params.seed}."
        ),
    }


EXPERIMENT = Experiment(
    name="collapse",
    title="Negative values: all tokens collapse to the origin",
    source=SOURCE,
    figures="decay plot",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 24, "method": "rk4", "chunk": 24},
    full={"instances": 2000},
    text="With V = -I tokens repel what attracts them and shrink to one cluster at 0, without any rescaling. The "
    "theorem gives no rate; the covariance's own equation does, and it is slow: variances fall like 1/(2t).",
    check=check,
    finding=finding,
    leaves_out="24 starts instead of 200, fixed steps instead of adaptive ones.",
)
