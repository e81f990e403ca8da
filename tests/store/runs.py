"""Small runs of every kind that a record must hold, and how to compare them."""

from typing import Any

import numpy as np

import metastable as ms
from metastable.equation.blocks import MLP, Block, Experts, HeadNorm, LayerNorm, RMSNorm, Scale
from metastable.equation.fields import CrossAttention
from metastable.equation.positions import Bias, Relative, Rotary, alibi, rotary
from metastable.equation.weights import Stack, Weights, stack
from metastable.solve.plan import make_plan
from metastable.store.describe import take_apart

rng = np.random.default_rng(7)


def draw(*shape: int) -> np.ndarray:
    return 0.3 * rng.standard_normal(shape)


# name -> (dynamics, tokens, options of simulate); every entry compiles once and then takes milliseconds
RUNS: dict[str, tuple[ms.Dynamics, np.ndarray, dict[str, Any]]] = {
    "sphere": (
        ms.Dynamics(Weights(V=np.diag([1.0, 1.0, -0.5])), beta=4.0, mask="causal"),
        ms.initial.sphere(6, 3),
        {"t": 2.0, "save": 9},
    ),
    "noise": (
        ms.Dynamics(beta=2.0, noise=0.3),
        ms.initial.sphere(5, 3),
        {"t": 1.0, "method": "euler", "save": 9, "seed": 3},
    ),
    "rescaled": (
        ms.Dynamics(Weights(V=[[0.65, 0.82], [0.61, 0.63]]), geometry="rescaled"),
        ms.initial.cube(6, 2),
        {"t": 4.0, "save": 9},
    ),
    "rescaled adaptive": (
        ms.Dynamics(Weights(V=np.diag([1.0, -0.5])), geometry="rescaled"),
        ms.initial.cube(5, 2),
        {"t": 3.0, "method": "tsit5", "rtol": 1e-6, "save": [0.0, 0.1, 1.0, 2.9]},
    ),
    "adaptive": (
        ms.Dynamics(beta=3.0, mask="window(2, causal)"),
        ms.initial.sphere(5, 3),
        {"t": 3.0, "method": "tsit5", "rtol": 1e-6, "save": [0.3, 0.31, 2.0, 3.0]},
    ),
    "ensemble": (
        ms.Dynamics(beta=np.array([0.5, 1.0, 4.0])),
        ms.initial.sphere(4, 2, runs=3),
        {"t": 1.0, "save": 5},
    ),
    "float32": (
        ms.Dynamics(beta=3.0),
        ms.initial.sphere(4, 3),
        {"t": 1.0, "save": 5, "dtype": "float32"},
    ),
    "stopped": (
        ms.Dynamics(beta=1.0),
        ms.initial.cap(6, 3, angle=0.5),
        {"t": 20.0, "save": 21, "until": 1},
    ),
    "diverged": (
        ms.Dynamics(Weights(V=[[60.0]]), geometry="euclidean"),
        np.array([[1.0], [2.0]]),
        {"t": 20.0, "save": 21},
    ),
}

MORE_PARTS: dict[str, ms.Dynamics] = {
    "every weight": ms.Dynamics(
        Weights(
            draw(2, 3, 4), draw(2, 3, 4), draw(2, 3, 4), draw(2, 4, 3), draw(2, 3), draw(2, 3), draw(2, 3), draw(4)
        ),
        geometry="euclidean",
    ),
    "layers of weights": ms.Dynamics(stack([Weights(V=draw(4, 4)) for _ in range(3)], dt=0.5), geometry="euclidean"),
    "window": ms.Dynamics(mask=ms.masks.window(2, causal=True)),
    "bias": ms.Dynamics(position=Bias(draw(5, 5))),
    "alibi": ms.Dynamics(position=alibi(2)),
    "relative": ms.Dynamics(position=Relative(draw(9))),
    "rotary": ms.Dynamics(position=rotary(4)),
    "partial rotary": ms.Dynamics(position=rotary(4, share=0.5, interleaved=True)),
    "rotary by layer": ms.Dynamics(position=Rotary(Stack(draw(3, 2)))),
    "masks by layer": ms.Dynamics(mask="window(2, causal); full"),
    "capped": ms.Dynamics(score="capped(0.1)"),
    "normed queries": ms.Dynamics(
        Weights(q_norm=HeadNorm(draw(4), eps=1e-5), k_norm=HeadNorm(joint=True, centred=True))
    ),
    "distance": ms.Dynamics(score="distance", geometry="euclidean"),
    "sinkhorn": ms.Dynamics(normalise="sinkhorn"),
    "block": ms.Dynamics(
        Weights(V=draw(2, 4, 4)),
        geometry="euclidean",
        block=Block(
            MLP(draw(8, 4), draw(4, 8), draw(8), draw(4), gate=draw(8, 4), activation="silu"),
            LayerNorm(1 + draw(4), draw(4), eps=1e-5),
            RMSNorm(Stack(1 + draw(3, 4)), eps=1e-6, unit=True),
            order="pre",
            residual=0.5,
        ),
    ),
    "experts": ms.Dynamics(
        geometry="euclidean",
        block=Block(
            Experts(draw(3, 4), draw(3, 5, 4), draw(3, 4, 5), draw(3, 5, 4), normalised=False),
            LayerNorm(),
            order="parallel",
            attention_out=Scale(draw(4)),
            mlp_out=RMSNorm(draw(4)),
            skip=0.5,
            field=CrossAttention(Weights(V=draw(4, 4)), draw(3, 4), RMSNorm(draw(4)), beta=2.0),
        ),
    ),
}


def made(name: str) -> tuple[Any, np.ndarray, Any]:
    """Plan, tokens and stop rule of a run."""
    dynamics, x0, options = RUNS[name]
    options = dict(options)
    until = options.pop("until", None)
    plan, x = make_plan(dynamics, x0, **options)
    return plan, x, until


def assert_same_run(one: ms.Trajectory, two: ms.Trajectory) -> None:
    """Bit for bit."""
    assert one.status == two.status
    assert one.message == two.message
    assert one.valid_until == two.valid_until
    assert one.x.dtype == two.x.dtype
    pairs = [(one.t, two.t), (one.x, two.x), *zip(one.chart or (), two.chart or ())]
    assert (one.chart is None) == (two.chart is None)
    for a, b in pairs:
        assert a.tobytes() == b.tobytes()
        assert a.shape == b.shape
    assert_same_parts(one.dynamics, two.dynamics)


def assert_same_parts(one: Any, two: Any) -> None:
    a, b = take_apart(one), take_apart(two)
    assert a.tree == b.tree
    assert a.arrays.keys() == b.arrays.keys()
    for name, array in a.arrays.items():
        np.testing.assert_array_equal(array, b.arrays[name])
