"""Sinks in training: small causal transformers from their first step on; does the first token become a sink, and when?

The first paper's section 5 explains sinks by the causal structure: the first token takes part in the evolution of
every later one, so it "has more opportunities to develop strong query-key alignments during training", "simply due to"
its "privileged position", "rather than any inherent semantic importance". Here that is watched: models of two sizes and
several seeds, with learned positions and without any, read the shipped English text letter by letter
(`small_transformers`); windows begin anywhere, so that the first token means nothing. At steps from 0 on: the attention
that the first token receives, against even attention over what a query sees (the causal-position baseline) and against
the seven tokens after it, which the same queries see; alignment with its key; length of its value; similarities;
clusters.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from metastable.backend import jax, jnp
from metastable.experiments import plain_formulas as plain
from metastable.experiments import sinks_in_training_verdicts as verdicts
from metastable.experiments import small_transformers as small
from metastable.experiments.base import Check, Data, Experiment, Finding, Work
from metastable.experiments.sinks_in_training_verdicts import KINDS, SOURCE, TITLE, draw, judge
from metastable.learning.descent import Descent, optimiser_of

__all__ = ["EXPERIMENT", "Params", "draw", "judge"]


@dataclass(frozen=True)
class Params:
    """``sizes`` are (d, layers, heads); ``instances`` seeds of each, with positions and without.

    Both sizes have 36 models of a kind together, because 90% is asked: 24, the first number, could not have shown it.
    """

    sizes: tuple[tuple[int, int, int], ...] = ((16, 2, 2), (32, 3, 4))
    window: int = 32
    batch: int = 8
    steps: int = 600
    rate: float = 0.01
    checkpoints: tuple[int, ...] = (0, 10, 30, 60, 100, 200, 300, 450, 600)
    measured: int = 24
    instances: int = 18
    seed: int = 0


def run(params: Params, work: Work) -> Data:
    """Measures (checkpoint, seed, layer, head) of every size and kind, and the losses (steps, seed)."""
    both = work.trainings({f"{d}x{n}x{h}": partial(_trained, params, (d, n, h)) for d, n, h in params.sizes})
    data: Data = {}
    for name, value in both.items():
        size, key = name.split("/")
        for kind, own in zip(KINDS, np.split(value, 2, axis=1) if value.ndim else (value, value)):
            data[f"{size} {kind}/{key}"] = own
    return data


def _trained(params: Params, size: tuple[int, int, int], report: Callable[[float], None]) -> Data:
    """All seeds of one size, those with positions first: one program, the same windows for both kinds."""
    text, alphabet = small.letters()
    seeds, placed = range(params.seed, params.seed + params.instances), np.repeat([1.0, 0.0], params.instances)
    each = [small.first_numbers(size, len(alphabet), params.window, seed) for seed in seeds]
    start = {name: np.stack([one[name] for one in each] * 2) for name in each[0]}
    start["P"] *= placed[:, None, None].astype(np.float32)
    descent = Descent(objective, optimiser_of("adam", params.rate, params.steps), 1)
    look = jax.jit(jax.vmap(small.measured, in_axes=(0, None)))
    seen = jnp.asarray(_windows(text, params.measured, params.window))
    rng = np.random.default_rng([params.seed, 21])
    state, rows, losses = descent.start(start), [], []
    for step in range(params.steps + 1):
        if step in params.checkpoints:
            rows.append(small.summarised(look(state.numbers, seen)))
            report(step / params.steps)
        if step < params.steps:
            first = rng.integers(0, len(text) - params.window, (params.instances, params.batch))
            ids = text[first[..., None] + np.arange(params.window + 1)]  # (S, b, T + 1)
            state, curve = descent.advance(state, (jnp.asarray(np.concatenate([ids, ids])), jnp.asarray(placed)), 1)
            losses.append(curve["loss"][0])
    found = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    return found | {"loss": np.array(losses), "bigram": np.array(small.bigram_entropy(text))}


def objective(numbers: dict[str, jax.Array], data: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The sum of the losses of all models, each on windows of its own (S, b, T + 1).

    Models without positions, ``placed`` (S,) is 0, have a table of zeros, which has no slope and stays so.
    """
    ids, placed = data
    own = {**numbers, "P": numbers["P"] * placed[:, None, None].astype(numbers["P"].dtype)}
    each = jax.vmap(small.loss)(own, ids)
    return each.sum(), {"loss": each}


def _windows(text: np.ndarray, count: int, window: int) -> np.ndarray:
    """Windows at even distances over the whole text."""
    first = np.linspace(0, len(text) - window - 1, count).astype(int)
    return np.asarray(text[first[:, None] + np.arange(window)])


def check(params: Params) -> dict[str, Check]:
    """One model on two windows: last tokens, first-token attention and the slope of the loss, by plain formulas."""
    size, vocabulary, T = (8, 2, 2), 7, 12
    rng = np.random.default_rng(params.seed)
    numbers = {k: np.asarray(v, float) for k, v in small.first_numbers(size, vocabulary, T, params.seed).items()}
    way = {name: rng.normal(size=value.shape) for name, value in numbers.items()}
    ids = rng.integers(0, vocabulary, (2, T + 1))

    def norm(x: np.ndarray) -> np.ndarray:
        return np.asarray(x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + small.EPS))

    def forward(n: dict[str, np.ndarray], one: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        x, maps, beta = n["E"][one] + n["P"][: len(one)], [], 1.0 / np.sqrt(size[0] // size[2])
        for layer in range(size[1]):
            Q, K, V, O = (n[name][layer] for name in ("Q", "K", "V", "O"))
            y = norm(x)
            A = [plain.attention(y, Q[h], K[h], beta, causal=True) for h in range(size[2])]
            x = x + sum(A[h] @ (y @ V[h].T) @ O[h].T for h in range(size[2]))
            hidden = norm(x) @ n["W_in"][layer].T
            x = x + (hidden / (1.0 + np.exp(-hidden))) @ n["W_out"][layer].T
            maps.append(np.stack(A))
        return x, maps

    def value(s: float) -> float:
        n, total = {name: numbers[name] + s * way[name] for name in numbers}, []
        for one in ids:
            logits = norm(forward(n, one[:-1])[0]) @ n["E"].T
            shifted = logits - logits.max(axis=1, keepdims=True)
            rows = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
            total.append(-rows[np.arange(T), one[1:]].mean())
        return float(np.mean(total))

    slope = jax.jit(jax.grad(lambda n: small.loss(n, jnp.asarray(ids))))(numbers)
    along = sum(float((np.asarray(slope[name]) * way[name]).sum()) for name in numbers)
    jax_numbers = {name: jnp.asarray(v) for name, v in numbers.items()}
    found = jax.jit(small.measured)(jax_numbers, jnp.asarray(ids[:, :-1]))
    again = [forward(numbers, one[:-1]) for one in ids]
    even = 1.0 / np.arange(small.EARLY + 1.0, T + 1.0)
    mass = np.mean([[A[:, small.EARLY :, 0] / even for A in maps] for _, maps in again], axis=(0, 3))  # (L, h)
    h = 1e-4
    return {
        "tokens after the last layer": (found["tokens"], np.stack([x for x, _ in again]), 1e-9),
        "attention on the first token": (found["mass"], mass, 1e-9),
        "slope of the loss": (along, (value(h) - value(-h)) / (2 * h), 1e-5 * max(1.0, abs(along))),
    }


def finding(params: Params, data: Data) -> Finding:
    start: list[float] = []
    end: list[float] = []
    when: list[str] = []
    for kind in KINDS:
        ratio = np.exp(verdicts.pooled(params, data, kind, "ratio").mean(axis=1))
        start, end = [*start, float(ratio[0])], [*end, float(ratio[-1])]
        trained = verdicts.learned(params, data, kind)
        steps = verdicts.onsets(params, data, kind, *verdicts.READINGS[0])[trained]
        when.append(f"{verdicts.said_of(steps)}, {kind}")
    return Finding(
        "Sinks are said to emerge in training because the first token takes part in the evolution of all others.",
        f"Before training the first token of {2 * len(params.sizes) * params.instances} small transformers receives "
        f"{start[0]:.2f} times the attention of the seven after it with positions and {start[1]:.2f} without; after "
        f"{params.steps} steps {end[0]:.2f} and {end[1]:.2f} times. A sink, {verdicts.SINK:g} times or "
        f"more, is {'; '.join(when)}.",
        TITLE,
    )


EXPERIMENT = Experiment(
    name="sinks-in-training",
    title="Sinks, from the first step of training on",
    source=SOURCE,
    figures="none in the papers",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={
        "sizes": ((16, 2, 2),),
        "steps": 60,
        "checkpoints": (0, 10, 30, 60),
        "instances": 20,
        "batch": 4,
        "window": 24,
        "measured": 8,
    },
    full={
        "sizes": ((16, 2, 2), (32, 3, 4), (64, 4, 4)),
        "steps": 5000,
        "checkpoints": (0, 10, 30, 100, 300, 600, 1000, 2000, 3000, 5000),
        "window": 64,
        "instances": 24,
    },
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="The larger models, long windows, and nine tenths of the training: 60 steps train nothing, so that "
    "what is said of training is not measured.",
    text="Small causal transformers are trained on the shipped English text, letter by letter, with learned positions "
    "and without any. Windows begin anywhere, so that the first token is a letter like any other. Its attention is "
    "compared with even attention and with what the seven tokens after it receive from the same queries: 1 is no sink.",
)
