"""MLPs optimised through the flow: can they keep clouds of tokens apart that attention would merge?

The first paper names "dynamically optimized MLPs" as future work. On the sphere, V = Q = K = I, attention alone brings
all tokens to one point. An MLP is learned through the flow to keep m labelled clouds apart at time ``t``
(`learned_mlps`) and judged on starts that it was not trained on, for as long as ``longest``:

| task  | centres of the clouds         | what fresh starts ask                             |
|-------|-------------------------------|---------------------------------------------------|
| fixed | the same for every start      | other tokens of the same clouds                   |
| any   | drawn anew for every start    | other clouds: nothing about their place is known  |

Beside it: no MLP, and a random one with the same norms.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from metastable.backend import jax, jnp
from metastable.experiments import learned_mlps as mlps
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.plots.style import PALETTE, SOFT, captioned, panels, paper
from metastable.solve.flow import flow
from metastable.theory.verdicts import Verdict, judge_number

SOURCE = "first paper, future work (dynamically optimized MLPs)"
TASKS = ("fixed", "any")
WORDS = {"fixed": "clouds at given places", "any": "clouds anywhere"}
KINDS = ("none", "random", "learned")
GAIN, GAP = 0.25, 0.05
TITLE = "How long clouds stay apart on fresh starts, by the width of the MLP"
OVER_TIME = "The closest two clouds over time"


@dataclass(frozen=True)
class Params:
    """``clouds`` of ``each`` tokens; MLPs of ``widths``, ``trainings`` of each, on ``starts``; ``instances`` fresh."""

    clouds: int = 3
    each: int = 4
    d: int = 3
    beta: float = 1.0
    t: float = 8.0
    dt: float = 0.2
    longest: float = 40.0
    saves: int = 101
    widths: tuple[int, ...] = (2, 8, 32)
    trainings: int = 2
    starts: int = 24
    steps: int = 200
    instances: int = 24
    seed: int = 0


def run(params: Params, work: Work) -> Data:
    """Lives, closest means and prices: (kind, training, start) for every task and width."""
    jobs = [(task, width) for task in TASKS for width in params.widths]
    return work.trainings({f"{task}-{width}": partial(_measured, params, task, width) for task, width in jobs})


def _measured(params: Params, task: str, width: int, report: Callable[[float], None]) -> Data:
    trained = mlps.starts(params, task, range(params.seed, params.seed + params.starts))
    fresh = mlps.starts(params, task, range(params.seed + 10_000, params.seed + 10_000 + params.instances))
    numbers = mlps.learned(params, task, width, trained, report)
    both = np.concatenate([fresh, trained])  # one shape, one compilation
    found: dict[str, list[Data]] = {kind: [] for kind in KINDS}
    for k in range(params.trainings):
        own = {name: value[k] for name, value in numbers.items()}
        mlp = {"none": None, "random": mlps.as_strong(own, params.seed + k), "learned": own}
        for kind in KINDS:
            found[kind].append(mlps.lives(params, mlp[kind], both))
    rows = {
        key: np.array([[one[key][: len(fresh)] for one in found[kind]] for kind in KINDS])
        for key in ("life", "closest", "price")
    }
    seen = np.array([one["price"][len(fresh) :] for one in found["learned"]])
    return rows | {"trained": seen} | {f"mlp/{name}": value for name, value in numbers.items()}


def check(params: Params) -> dict[str, Check]:
    """A run with an MLP to t = 1, and the slope of the price along one way against differences of plain formulas."""
    rng = np.random.default_rng(params.seed)
    numbers = {name: value[0] for name, value in mlps.first_numbers(4, params.d, 1, params.seed).items()}
    way = {name: rng.normal(size=np.shape(value)) for name, value in numbers.items()}
    x0, label = mlps.starts(params, "any", range(params.seed, params.seed + 1))[0], mlps.labels(params)
    one, beta = np.eye(params.d), params.beta

    def end(s: float) -> np.ndarray:
        W, O, b = (numbers[name] + s * way[name] for name in ("W_in", "W_out", "b_in"))
        field = plain.on_sphere(lambda u: plain.pull(u, one, one, one, beta) + np.tanh(u @ W.T + b) @ O.T)
        out = plain.moved(field, x0, 1.0, 5)
        return np.asarray(out / np.linalg.norm(out, axis=1, keepdims=True))

    def price(s: float) -> float:
        cosines, same = end(s) @ end(s).T, label[:, None] == label[None, :]
        own = same & ~np.eye(len(label), dtype=bool)
        size = sum(float(np.square(numbers[name] + s * way[name]).sum()) for name in numbers)
        return float(((1 + cosines[~same]) / 2).mean() + ((1 - cosines[own]) / 2).mean() + mlps.DECAY * size)

    slope = jax.jit(jax.grad(lambda own: mlps.price(own, jnp.asarray(x0)[None], label, beta, 1.0, 0.2)))(numbers)
    along = sum(float((np.asarray(slope[name]) * way[name]).sum()) for name in numbers)
    own = flow(mlps.dynamics_of(numbers, beta), x0, [1.0], "rk4", 0.2)[-1]
    h = 1e-4
    return {
        "tokens at t = 1 with an MLP": (own, end(0.0), 1e-8),
        "slope of the price": (along, (price(h) - price(-h)) / (2 * h), 1e-5 * max(1.0, abs(along))),
    }


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """Fresh starts decide, one number each (the mean over trainings), with Student's interval.

    Gain: life with the learned MLP minus life without one, and minus that of a random one with the same norms, in units
    of the time t it was trained for; a gain is at least GAIN = 0.25, a quarter of that time. Generalisation: the price
    at t on fresh starts exceeds that of the starts it was trained on by at most GAP = 0.05 (a collapsed cloud costs 1).
    Size: the widest lives longer than the narrowest by GAIN. Lives end at ``longest``. Fixed before any MLP was
    trained here.
    """
    verdicts, most = [], params.longest / params.t
    for task in TASKS:
        for width in params.widths:
            life = data[f"{task}-{width}/life"].mean(axis=1) / params.t  # (kind, start)
            for k, against in ((0, "without one"), (1, "with a random one of the same norms")):
                verdicts.append(
                    _gained(
                        f"A learned MLP of width {width} keeps {WORDS[task]} apart longer than {against} "
                        "(fresh starts, in units of the trained time).",
                        life[2] - life[k],
                        f"life {life[2].mean():.2f} against {life[k].mean():.2f}; at most {most:g}",
                    )
                )
        verdicts.append(_general(params, data, task))
        ends = (params.widths[-1], params.widths[0])
        wide, narrow = (data[f"{task}-{w}/life"][2].mean(axis=0) / params.t for w in ends)
        claim = f"Width pays: {params.widths[-1]} beside {params.widths[0]}, {WORDS[task]}."
        verdicts.append(_gained(claim, wide - narrow, f"life {wide.mean():.2f} against {narrow.mean():.2f}"))
    return verdicts


def _gained(claim: str, values: np.ndarray, notes: str) -> Verdict:
    return judge_number(claim, SOURCE, values, (GAIN, np.inf), kind="reading", notes=notes)


def _general(params: Params, data: Data, task: str) -> Verdict:
    width = params.widths[-1]
    fresh, seen = data[f"{task}-{width}/price"][2].mean(axis=0), data[f"{task}-{width}/trained"].mean(axis=0)
    return judge_number(
        f"What an MLP of width {width} learned holds on fresh starts, {WORDS[task]} (price beyond that of training).",
        SOURCE,
        fresh - seen.mean(),
        (-np.inf, GAP),
        kind="reading",
        notes=f"price {fresh.mean():.3f} fresh, {seen.mean():.3f} trained, "
        f"{data[f'{task}-{width}/price'][0].mean():.3f} without an MLP",
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    with paper():
        return {TITLE: _by_width(params, data), OVER_TIME: _over_time(params, data)}


def _about(params: Params) -> str:
    return (
        f"{params.clouds} clouds of {params.each} tokens, d = {params.d}, beta = {params.beta:g}, Q = K = V = I; "
        f"trained "
        f"to t = {params.t:g} on {params.starts} starts ({params.trainings} trainings), judged on {params.instances} "
        f"fresh "
        f"ones from seed {params.seed + 10_000} on"
    )


def _by_width(params: Params, data: Data) -> Any:
    figure, axes = panels(None, 2, 3.2, 0.8)
    for axis, task in zip(axes, TASKS):
        for k, (kind, colour) in enumerate(zip(KINDS, (SOFT, PALETTE[1], PALETTE[0]))):
            each = [data[f"{task}-{w}/life"][k].mean(axis=0) for w in params.widths]  # starts
            mean = np.array([e.mean() for e in each])
            low, high = (np.array([np.quantile(e, q) for e in each]) for q in (0.1, 0.9))
            axis.plot(params.widths, mean, color=colour, marker="o", ms=3.5, label=f"{kind} MLP".replace("none", "no"))
            axis.fill_between(params.widths, low, high, color=colour, alpha=0.15, lw=0)
        axis.axhline(params.t, color=SOFT, lw=0.8, ls=(0, (4, 2)))
        axis.set(xscale="log", xlabel="width of the MLP", title=WORDS[task], ylim=(0.0, 1.05 * params.longest))
        axis.set_xticks(params.widths, [str(w) for w in params.widths])
        axis.minorticks_off()
    axes[0].set_ylabel("time until two clouds meet")
    axes[0].legend(loc="center right")
    return captioned(
        figure,
        f"Mean over fresh starts, bands from the lowest tenth to the highest; dashed: the time of training; runs end "
        f"at "
        f"{params.longest:g}. {_about(params)}.",
    )


def _over_time(params: Params, data: Data) -> Any:
    figure, axes = panels(None, 2, 3.2, 0.8)
    times, width = np.linspace(0.0, params.longest, params.saves), params.widths[-1]
    for axis, task in zip(axes, TASKS):
        for k, (kind, colour) in enumerate(zip(KINDS, (SOFT, PALETTE[1], PALETTE[0]))):
            each = data[f"{task}-{width}/closest"][k].mean(axis=0)  # (start, T)
            axis.plot(times, each.mean(axis=0), color=colour, label=f"{kind} MLP".replace("none", "no"))
            axis.fill_between(times, *np.quantile(each, (0.1, 0.9), axis=0), color=colour, alpha=0.15, lw=0)
        axis.axvline(params.t, color=SOFT, lw=0.8, ls=(0, (4, 2)))
        axis.set(xlabel="time $t$", title=WORDS[task], ylim=(0.0, None))
    axes[0].set_ylabel("angle of the two closest clouds (rad)")
    axes[0].legend(loc="upper right")
    return captioned(figure, f"Width {width}; bands as before, dashed: the time of training. {_about(params)}.")


def finding(params: Params, data: Data) -> Finding:
    width = params.widths[-1]
    life = {task: data[f"{task}-{width}/life"].mean(axis=(1, 2)) for task in TASKS}
    return Finding(
        "MLPs that are optimised together with the dynamics are named as future work.",
        f"Trained to t = {params.t:g}, an MLP of width {width} keeps clouds at given places apart for "
        f"{life['fixed'][2]:.1f} (none: {life['fixed'][0]:.1f}, random: {life['fixed'][1]:.1f}) and clouds anywhere "
        f"for {life['any'][2]:.1f} "
        f"({life['any'][0]:.1f}, {life['any'][1]:.1f}); runs end at {params.longest:g}.",
        TITLE,
    )


EXPERIMENT = Experiment(
    name="optimised-mlp",
    title="MLPs that keep clouds apart",
    source=SOURCE,
    figures="none in the papers",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"widths": (2, 8), "trainings": 1, "starts": 8, "steps": 60, "instances": 20, "t": 4.0, "longest": 16.0},
    full={"widths": (1, 2, 4, 8, 16, 32, 64), "trainings": 8, "starts": 64, "steps": 1000, "instances": 200},
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="The widest MLP, a second training, two thirds of the training starts and steps, times beyond 16.",
    text="Attention alone merges all clouds. An MLP is learned, by gradients through the flow, to keep labelled clouds "
    "apart at one time, and then watched for much longer, on starts that it never saw: other tokens of the same "
    "clouds, or clouds at other places. A random MLP with the same norms shows what any such field would do.",
)
