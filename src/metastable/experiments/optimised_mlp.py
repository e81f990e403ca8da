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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from metastable.experiments import learned_mlps as mlps
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.plots.style import PALETTE, SOFT, captioned, panels, paper
from metastable.theory.verdicts import Verdict, judge_number

SOURCE = "first paper, future work (dynamically optimized MLPs)"
TASKS = ("fixed", "any")
WORDS = {"fixed": "clouds at given places", "any": "clouds anywhere"}
KINDS = ("none", "random", "learned")
GAIN, GAP, REST = 0.25, 0.05, 0.02
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
    found = work.parts("training", params.trainings, 1, partial(_measured, params, work))
    data: Data = {}
    for i, task in enumerate(TASKS):
        for j, width in enumerate(params.widths):
            for key in ("life", "closest", "price"):
                data[f"{task}-{width}/{key}"] = np.moveaxis(found[key][:, i, :, j], 1, 0)
            for key in ("trained", "unrest", *(f"mlp/{name}" for name in ("W_in", "W_out", "b_in"))):
                data[f"{task}-{width}/{key}"] = found[key][:, i, j]
    return data


def _measured(params: Params, work: Work, k: int, _: int) -> Data:
    """Training k of every task and width: (1, task, kind, width, start), and what is learned (1, task, width, ...)."""
    trained, start = batch(params, k)
    seeds = range(params.seed + 10_000, params.seed + 10_000 + params.instances)
    fresh = np.stack([mlps.starts(params, task, seeds) for task in TASKS])

    def report(share: float) -> None:
        work.progress((k + share) / params.trainings, "trainings")

    numbers, unrest = mlps.learned(mlps.training_of(params), start, trained, params.steps, report)
    shape = unrest.shape
    rows = [{name: value[i, j] for name, value in numbers.items()} for i, j in np.ndindex(shape)]
    drawn = [mlps.as_strong(one, [params.seed, k]) for one in rows]
    random = {name: np.stack([one[name] for one in drawn]).reshape(numbers[name].shape) for name in numbers}
    none = {name: np.zeros_like(value[:, :1]) for name, value in numbers.items()}
    every = {name: np.concatenate([none[name], random[name], numbers[name]], axis=1) for name in numbers}
    found = mlps.lives(params, every, np.concatenate([fresh, trained], axis=1))
    kinds = np.array([[0] * shape[1], *np.arange(1, 1 + 2 * shape[1]).reshape(2, -1)])  # rows by kind and width
    data = {key: found[key][:, kinds, : params.instances] for key in ("life", "closest", "price")}
    data |= {"trained": found["price"][:, kinds[2], params.instances :], "unrest": unrest}
    data |= {f"mlp/{name}": value for name, value in numbers.items()}
    return {key: value[None] for key, value in data.items()}


def batch(params: Params, k: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Starts of training k (task, s, n, d), and the numbers that it begins with (task, width, ...)."""
    seeds = range(params.seed, params.seed + params.starts)
    one = mlps.first_numbers(params.widths, params.d, [params.seed, k])
    x0 = np.stack([mlps.starts(params, task, seeds) for task in TASKS])
    return x0, {name: np.stack([value] * len(TASKS)) for name, value in one.items()}


def check(params: Params) -> dict[str, Check]:
    """Where every MLP takes the first start, and the slopes of the prices along one way, by the run's own program.

    By plain formulas for each by itself; slopes by central differences.
    """
    rng = np.random.default_rng(params.seed)
    x0, numbers = batch(params, 0)
    way = {name: rng.normal(size=value.shape) * (value != 0.0) for name, value in numbers.items()}
    found = mlps.looked_at(numbers, x0, mlps.training_of(params))
    label, one, h = mlps.labels(params), np.eye(params.d), 1e-4
    same = label[:, None] == label[None, :]
    own = same & ~np.eye(len(label), dtype=bool)

    def plainly(i: int, j: int, s: float) -> tuple[np.ndarray, float]:
        W, O, b = (numbers[name][i, j] + s * way[name][i, j] for name in ("W_in", "W_out", "b_in"))
        field = plain.on_sphere(lambda u: plain.pull(u, one, one, one, params.beta) + np.tanh(u @ W.T + b) @ O.T)
        ends = [plain.moved(field, x, params.t, round(params.t / params.dt)) for x in x0[i]]
        ends = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in ends]
        cosines = [x @ x.T for x in ends]
        each = [((1 + c[~same]) / 2).mean() + ((1 - c[own]) / 2).mean() for c in cosines]
        return ends[0], float(np.mean(each)) + mlps.DECAY * sum(float(np.square(a).sum()) for a in (W, O, b))

    where = [(i, len(params.widths) - 1 - i) for i in range(len(TASKS))]  # two widths, one for each task
    along = [sum(float((found["slope"][name][w] * way[name][w]).sum()) for name in way) for w in where]
    slopes = [(plainly(*w, h)[1] - plainly(*w, -h)[1]) / (2 * h) for w in where]
    return {
        "tokens at the end of training": (
            [found["end"][w][0] for w in where],
            [plainly(*w, 0.0)[0] for w in where],
            1e-8,
        ),
        "slopes of the prices": (along, slopes, 1e-5 * max(1.0, float(np.abs(along).max()))),
    }


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """Fresh starts decide, one number each (the mean over trainings), with Student's interval.

    Gain: life with the learned MLP minus life without one, and minus that of a random one with the same norms, in units
    of the time t it was trained for; a gain is at least GAIN = 0.25, a quarter of that time. Generalisation: the price
    at t on fresh starts exceeds that of the starts it was trained on by at most GAP = 0.05 (a collapsed cloud costs 1).
    Size: the widest lives longer than the narrowest by GAIN. Lives end at ``longest``. Fixed before any MLP was
    trained here.

    A descent has come to rest when its `unrest` is at most REST = 0.02 (`metastable.learning.descent`). Before that an
    MLP that gains nothing says nothing of those that could be learned: "fails" becomes "undecided". Generalisation and
    size compare what descents end at, so that they are undecided either way. (That rule was added after a first quick
    run, of 60 steps, whose failures spoke of short training only.) A rest need not be the best: two of three clouds in
    one place, opposite the third, cost 1/3 where the simplex costs 1/4, and what has merged feels no slope. "Fails"
    speaks of the descents that were made.
    """
    verdicts, most = [], params.longest / params.t
    for task in TASKS:
        for width in params.widths:
            life = data[f"{task}-{width}/life"].mean(axis=1) / params.t  # (kind, start)
            for k, against in ((0, "without one"), (1, "with a random one of the same norms")):
                gain = _gained(
                    f"A learned MLP of width {width} keeps {WORDS[task]} apart longer than {against} "
                    "(fresh starts, in units of the trained time).",
                    life[2] - life[k],
                    f"life {life[2].mean():.2f} against {life[k].mean():.2f}; at most {most:g}",
                )
                verdicts.append(_resting(gain, data, task, (width,), ("fails",)))
        widest = params.widths[-1:]
        verdicts.append(_resting(_general(params, data, task), data, task, widest, ("fails", "holds")))
        ends = (params.widths[-1], params.widths[0])
        wide, narrow = (data[f"{task}-{w}/life"][2].mean(axis=0) / params.t for w in ends)
        claim = f"Width pays: {params.widths[-1]} beside {params.widths[0]}, {WORDS[task]}."
        pays = _gained(claim, wide - narrow, f"life {wide.mean():.2f} against {narrow.mean():.2f}")
        verdicts.append(_resting(pays, data, task, ends, ("fails", "holds")))
    return verdicts


def _resting(verdict: Verdict, data: Data, task: str, widths: Sequence[int], doubted: tuple[str, ...]) -> Verdict:
    """The verdict, or "undecided" where it is among those that a moving descent puts in doubt."""
    unrest = np.concatenate([data[f"{task}-{width}/unrest"] for width in widths])
    notes = f"{verdict.notes}; {np.count_nonzero(unrest <= REST)} of {unrest.size} descents came to rest"
    doubt = verdict.status in doubted and (unrest > REST).any()
    return replace(verdict, status="undecided" if doubt else verdict.status, notes=notes)


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
        f"to t = {params.t:g} on {params.starts} starts (trainings: {params.trainings}), judged on {params.instances} "
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
    axes[0].set_ylabel("angle of the closest clouds (rad)")
    axes[0].legend(loc="upper right")
    return captioned(figure, f"Width {width}; bands as before, dashed: the time of training. {_about(params)}.")


def finding(params: Params, data: Data) -> Finding:
    width = params.widths[-1]
    life = {task: data[f"{task}-{width}/life"].mean(axis=(1, 2)) for task in TASKS}
    return Finding(
        "MLPs that are optimised together with the dynamics are named as future work.",
        f"Trained to t = {params.t:g} for {params.steps} steps, an MLP of width {width} keeps clouds at given places "
        f"apart for {life['fixed'][2]:.1f} (none: {life['fixed'][0]:.1f}, random: {life['fixed'][1]:.1f}) and "
        f"clouds anywhere for {life['any'][2]:.1f} "
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
    quick={
        "widths": (2, 8),
        "trainings": 1,
        "starts": 8,
        "steps": 60,
        "instances": 20,
        "t": 4.0,
        "longest": 16.0,
        "saves": 81,
    },
    full={"widths": (1, 2, 4, 8, 16, 32, 64), "trainings": 8, "starts": 64, "steps": 1000, "instances": 200},
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="The widest MLP, a second training, two thirds of the training starts and steps, times beyond 16.",
    text="Attention alone merges all clouds. An MLP is learned, by gradients through the flow, to keep labelled clouds "
    "apart at one time, and then watched for much longer, on starts that it never saw: other tokens of the same "
    "clouds, or clouds at other places. A random MLP with the same norms shows what any such field would do.",
)
