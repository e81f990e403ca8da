"""Gradients of random runs through `flow` beside central differences.

    python -m tests.fuzz_gradients --runs 40 --seed 1

Every run draws shapes, heads, weights, parts, block and method, and compares the derivative along a random direction
of tokens, Q, K, V, beta and the numbers of the MLP, each by itself. Ends with exit code 1 if one differs by more than
1e-6.
"""

import argparse
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import metastable as ms
from metastable.equation.blocks import MLP, Block, LayerNorm, RMSNorm

WRONG = 1e-6
METHODS = ("rk4", "euler", "layers", "tsit5", "dopri8")


def draw(seed: int, number: int):
    """The loss of run ``number`` of a seed, the numbers that it is a function of, and its name."""
    rng = np.random.default_rng([seed, number])
    method = METHODS[number % len(METHODS)]
    geometry = str(rng.choice(["sphere", "euclidean", "rescaled"] if method != "layers" else ["sphere", "euclidean"]))
    n, d, k = (int(rng.integers(*ends)) for ends in ((3, 7), (2, 5), (1, 4)))
    heads = 1 if geometry == "rescaled" else int(rng.integers(1, 4))
    mask = str(rng.choice(["full", "causal", "window(1)", "window(2, causal)"]))
    normalise = str(rng.choice(["softmax", "softmax", "unnormalised", "sinkhorn" if mask == "full" else "softmax"]))
    score = "dot" if geometry == "rescaled" else str(rng.choice(["dot", "dot", "distance", "capped(5)"]))
    numbers = {
        "x": rng.normal(size=(n, d)),
        "Q": rng.normal(size=(heads, k, d)) / np.sqrt(d),
        "K": rng.normal(size=(heads, k, d)) / np.sqrt(d),
        "V": rng.normal(size=(heads, d, d)) / np.sqrt(d * heads),
        "beta": np.asarray(rng.uniform(0.3, 2.0)),
    }
    numbers["x"] /= np.linalg.norm(numbers["x"], axis=-1, keepdims=True)
    block = geometry != "rescaled" and rng.random() < 0.6
    norm = str(rng.choice(["none", "layer", "rms"])) if block and geometry == "euclidean" else "none"
    order = "post" if norm != "none" and method == "layers" and rng.random() < 0.5 else "pre"
    if block:
        m = int(rng.integers(2, 6))
        numbers |= {"W_in": rng.normal(size=(m, d)) / 2, "W_out": rng.normal(size=(d, m)) / 2}
        numbers |= {"b_in": rng.normal(size=m) / 2, "gate": rng.normal(size=(m, d)) / 2}
    activation = str(rng.choice(["tanh", "gelu", "silu", "gelu_tanh", "identity"]))
    gated = rng.random() < 0.5
    bias = rng.normal(size=(n, n)) if rng.random() < 0.3 else None
    look, times = rng.normal(size=(2, n, d)), [0.2, 0.5] if method == "layers" else [0.23, 0.5]

    def loss(numbers):
        part = None
        if block:
            mlp = MLP(
                numbers["W_in"], numbers["W_out"], b_in=numbers["b_in"], activation=activation,
                gate=numbers["gate"] if gated else None,
            )  # fmt: skip
            made = {"none": None, "layer": LayerNorm(eps=0.1), "rms": RMSNorm(eps=0.1)}[norm]
            part = Block(mlp=mlp, attention_norm=made, mlp_norm=made, order=order)
        dyn = ms.Dynamics(
            ms.Weights(numbers["Q"], numbers["K"], numbers["V"]), numbers["beta"], normalise, mask, geometry,
            score=score, block=part, position=None if bias is None else ms.positions.Bias(bias),
        )  # fmt: skip
        return jnp.sum(jnp.sin(ms.flow(dyn, numbers["x"], times, method=method, dt=0.1, rtol=1e-12)) * look)

    if block and not gated:
        del numbers["gate"]
    parts = f"{norm} {order} {activation}{' gate' if gated else ''}" if block else "no block"
    parts += "" if bias is None else " bias"
    name = f"{method} {geometry} {normalise} {mask} {score} n={n} d={d} h={heads} {parts}"
    return loss, numbers, name


def compare(loss, numbers, seed: int = 0) -> dict[str, float]:
    """By how much the derivative along a random direction is off for every kind of number, relative to its size.

    A loss rounds like 1e-16 times its slope; differences over h = 0.1/slope then are off by 1e-15 times it.
    """
    value, slope = jax.jit(loss), jax.jit(jax.grad(loss))(numbers)
    rng, found = np.random.default_rng(seed), {}  # steps of adaptive methods jump at 1e-11: no short h without need
    for name, at in numbers.items():
        way = rng.normal(size=at.shape)
        got = float(np.sum(np.asarray(slope[name]) * way))
        size = max(1.0, float(np.linalg.norm(slope[name])))
        h = min(1e-3, 0.1 / (size * np.linalg.norm(way)))  # a loss that swings fast needs a short step: its phase moves
        # by a tenth; its rounding then counts
        ends = [float(value({**numbers, name: at + s * h * way})) for s in (3, 2, 1, -1, -2, -3)]
        want = (45 * (ends[2] - ends[3]) - 9 * (ends[1] - ends[4]) + (ends[0] - ends[5])) / (60 * h)
        off = abs(got - want) / size if np.isfinite(got) else np.inf
        found[name] = off / (1.0 + 1e-14 * size / WRONG)
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_gradients", description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run of this seed")
    options = parser.parse_args(arguments)
    wrong = 0
    for number in range(options.first, options.first + options.runs):
        clock = time.perf_counter()
        loss, numbers, name = draw(options.seed, number)
        found = compare(loss, numbers)
        worst = max(found, key=lambda key: found[key])
        verdict = "right" if found[worst] <= WRONG else "WRONG"
        wrong += verdict == "WRONG"
        spent = time.perf_counter() - clock
        print(
            f"{options.seed}:{number:<4} {verdict} off={found[worst]:.1e} in {worst:5} {name}  {spent:.0f}s", flush=True
        )
        jax.clear_caches()
    print(f"{options.runs - wrong} right, {wrong} WRONG")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
