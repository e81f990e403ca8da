"""flow: gradients against central differences and closed forms, jit, vmap, and the same digits as simulate."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import metastable as ms
from metastable.equation.blocks import MLP

N, D = 5, 2
rng = np.random.default_rng(3)
X = ms.initial.sphere(N, D, seed=2)
NUMBERS = {
    "x": X,
    "Q": np.eye(D) + 0.3 * rng.normal(size=(D, D)),
    "K": np.eye(D) + 0.3 * rng.normal(size=(D, D)),
    "V": np.array([[0.8, 0.3], [-0.2, 0.5]]),
    "beta": np.asarray(1.3),
    "W_in": 0.5 * rng.normal(size=(3, D)),
    "W_out": 0.5 * rng.normal(size=(D, 3)),
}
LOOK = rng.normal(size=(N, D))
METHODS = ["euler", "rk4", "layers", "tsit5", "dopri8"]
SPACES = ["sphere", "euclidean", "rescaled"]
KINDS = [
    ("softmax", "full"),
    ("softmax", "causal"),
    ("unnormalised", "causal"),
    ("sinkhorn", "full"),
    ("unnormalised", "full"),
]


def loss(numbers, method, geometry, normalise, mask):
    """A number that depends on every token at two times."""
    mlp = None if geometry == "rescaled" else ms.Block(mlp=MLP(numbers["W_in"], numbers["W_out"], activation="tanh"))
    weights = ms.Weights(numbers["Q"], numbers["K"], numbers["V"])
    dyn = ms.Dynamics(weights, numbers["beta"], normalise, mask, geometry, block=mlp)
    times = [0.2, 0.4] if method == "layers" else [0.25, 0.4]
    size = 1.0 if geometry == "sphere" or normalise != "unnormalised" else 0.4  # e^{|x|^2} x blows up from 1
    x = ms.flow(dyn, size * numbers["x"], times, method=method, dt=0.1, rtol=1e-12)
    return jnp.sum(jnp.sin(x) * LOOK)


def check(method, geometry, normalise, mask, seed=0):
    """The derivative along a random direction of everything at once, and along each kind of number."""
    value = jax.jit(lambda numbers: loss(numbers, method, geometry, normalise, mask))
    slope = jax.jit(jax.grad(lambda numbers: loss(numbers, method, geometry, normalise, mask)))(NUMBERS)
    draw = np.random.default_rng(seed)
    for name in NUMBERS:
        if geometry == "rescaled" and name in ("W_in", "W_out"):
            continue
        way = draw.normal(size=NUMBERS[name].shape)
        h = 1e-3  # steps of adaptive methods jump at 1e-11
        ends = [float(value({**NUMBERS, name: NUMBERS[name] + s * h * way})) for s in (2, 1, -1, -2)]
        want = (8 * (ends[1] - ends[2]) - (ends[0] - ends[3])) / (12 * h)
        got = float(np.sum(np.asarray(slope[name]) * way))
        assert got == pytest.approx(want, rel=1e-6, abs=1e-7), name


ALL = [(m, g, *k) for m, g, k in itertools.product(METHODS, SPACES, KINDS) if (m, g) != ("layers", "rescaled")]
SOME = [  # the quickest to compile; `-m slow` tries the rest
    ("euler", "sphere", "softmax", "full"),
    ("rk4", "euclidean", "softmax", "causal"),
]
STEPS = [("sphere", "rk4"), ("sphere", "layers"), ("euclidean", "euler")]


@pytest.mark.parametrize("method", ["rk4", pytest.param("tsit5", marks=pytest.mark.slow)])
def test_a_gradient_in_tokens_v_and_beta(method):
    """The quick one of these tests: value and slope are one compiled function, of one step or a few."""

    def value(numbers):
        dyn = ms.Dynamics(ms.Weights(V=numbers["V"]), numbers["beta"], mask="causal")
        return jnp.sum(jnp.sin(ms.flow(dyn, numbers["x"], [0.3], method=method, dt=0.3, rtol=1e-10)) * LOOK)

    both = jax.jit(jax.value_and_grad(value))
    mine = {name: NUMBERS[name] for name in ("x", "V", "beta")}
    slope, draw, h = both(mine)[1], np.random.default_rng(4), 1e-3
    for name in mine:
        way = draw.normal(size=mine[name].shape)
        ends = [float(both({**mine, name: mine[name] + s * h * way})[0]) for s in (2, 1, -1, -2)]
        want = (8 * (ends[1] - ends[2]) - (ends[0] - ends[3])) / (12 * h)
        assert float(np.sum(np.asarray(slope[name]) * way)) == pytest.approx(want, rel=1e-6, abs=1e-7), name


@pytest.mark.slow
@pytest.mark.parametrize("case", SOME, ids="-".join)
def test_gradients_agree_with_central_differences(case):
    check(*case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in ALL if case not in SOME], ids="-".join)
def test_all_other_gradients_agree_with_central_differences(case):
    check(*case, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rk4", pytest.param("tsit5", marks=pytest.mark.slow)])
def test_adjoint_of_the_first_causal_token(method):
    """ORACLES 10: x_1(t) = e^{tV} x_1 / |e^{tV} x_1|; its gradients in x_1 and in V."""
    V, x, t = NUMBERS["V"], X, 0.7

    def mine(V, x):
        dyn = ms.Dynamics(ms.Weights(V=V), beta=2.0, mask="causal")
        return ms.flow(dyn, x, [t], method=method, dt=0.01, rtol=1e-11)[-1, 0] @ LOOK[0]

    def closed(V, x):
        y = jax.scipy.linalg.expm(t * V) @ x[0]
        return y / jnp.sqrt(y @ y) @ LOOK[0]

    for at in (0, 1):
        got, want = (np.asarray(jax.grad(f, at)(jnp.asarray(V), jnp.asarray(x))) for f in (mine, closed))
        np.testing.assert_allclose(got, want, atol=1e-8)


@pytest.mark.slow
def test_adjoint_without_scores():
    """ORACLES 15: Q^T K = 0, so x_i = x_i(0) + (e^{tV} - I) mean; the Jacobian in x is known entry by entry."""
    V, t, zero = NUMBERS["V"], 0.9, np.zeros((1, D))
    dyn = ms.Dynamics(ms.Weights(zero, zero, V), geometry="euclidean")
    got = jax.jacrev(lambda x: ms.flow(dyn, x, [t], method="tsit5", rtol=1e-12)[-1])(jnp.asarray(X))
    grown = scipy.linalg.expm(t * V) - np.eye(D)
    want = np.einsum("ij,ab->iajb", np.eye(N), np.eye(D)) + np.einsum("ij,ab->iajb", np.full((N, N), 1 / N), grown)
    np.testing.assert_allclose(got, want, atol=1e-9)


@pytest.mark.parametrize(
    ("geometry", "method"),
    [
        pytest.param(*case, marks=() if case in STEPS else pytest.mark.slow)
        for case in itertools.product(("sphere", "euclidean"), ("euler", "rk4", "layers"))
    ],
)
def test_simulate_takes_the_same_steps(geometry, method):
    weights = ms.Weights(NUMBERS["Q"], NUMBERS["K"], NUMBERS["V"])
    dyn = ms.Dynamics(weights, beta=1.3, mask="causal", geometry=geometry)
    times = [0.0, 0.2, 0.7] if method == "layers" else [0.0, 0.25, 0.31, 0.7]
    run = ms.simulate(dyn, X, t=0.7, dt=0.1, method=method, save=times, engine="dense")
    np.testing.assert_allclose(ms.flow(dyn, X, times, method=method, dt=0.1), run.x, rtol=0, atol=1e-14)


def test_layers_of_the_rescaled_flow():
    """ORACLES 21: z^{[k]} = R^{-k} x^{[k]} with R = I + dt V; or a sentence."""
    weights, times = ms.Weights(V=NUMBERS["V"]), [0.2, 0.4]
    x = ms.flow(ms.Dynamics(weights, geometry="euclidean"), X, times, method="layers", dt=0.1)
    back = np.linalg.inv(np.eye(D) + 0.1 * NUMBERS["V"])
    want = np.stack([np.asarray(y) @ np.linalg.matrix_power(back, k).T for y, k in zip(x, (2, 4))])
    rescaled = ms.Dynamics(weights, geometry="rescaled")
    run = ms.simulate(rescaled, X, t=0.4, dt=0.1, save=times, method="layers")
    np.testing.assert_allclose(run.x, want, atol=1e-13)
    try:
        got = ms.flow(rescaled, X, times, method="layers", dt=0.1)
    except ms.InputError as refusal:
        assert "layers" in str(refusal)  # noqa: PT017
        return
    np.testing.assert_allclose(got, want, atol=1e-13)


@pytest.mark.slow
def test_noise_of_flow_is_the_noise_of_simulate():
    dyn = ms.Dynamics(noise=0.4, beta=2.0)
    times = [0.1, 0.25, 1.0]
    run = ms.simulate(dyn, X, t=1.0, dt=0.1, method="euler", save=times, seed=5, engine="dense")
    np.testing.assert_allclose(ms.flow(dyn, X, times, method="euler", dt=0.1, seed=5), run.x, rtol=0, atol=1e-14)


@pytest.mark.slow
def test_jit_and_vmap():
    def end(beta, x):
        return ms.flow(ms.Dynamics(beta=beta, mask="causal"), x, [0.5])[-1]

    tokens, betas = ms.initial.sphere(N, D, seed=1, runs=4), np.array([0.5, 1.0, 2.0, 4.0])
    together = jax.jit(jax.vmap(end))(betas, tokens)
    for k in range(4):
        np.testing.assert_allclose(together[k], end(betas[k], tokens[k]), rtol=0, atol=1e-14)
        run = ms.simulate(ms.Dynamics(beta=betas[k], mask="causal"), tokens[k], t=0.5, save=[0.5], engine="dense")
        np.testing.assert_allclose(together[k], run.x[-1], rtol=0, atol=1e-14)
    np.testing.assert_allclose(jax.jit(end)(2.0, tokens), jnp.stack([end(2.0, x) for x in tokens]), atol=1e-14)


@pytest.mark.slow
def test_second_derivatives_and_slopes_of_ensembles():
    def spread(beta):
        return jnp.var(ms.flow(ms.Dynamics(beta=beta), X, [0.5])[-1])

    second = float(jax.grad(jax.grad(spread))(2.0))
    h = 1e-4
    want = (float(jax.grad(spread)(2.0 + h)) - float(jax.grad(spread)(2.0 - h))) / (2 * h)
    assert second == pytest.approx(want, rel=1e-5, abs=1e-9)
    each = jax.vmap(jax.grad(spread))(jnp.array([1.0, 2.0]))
    assert float(each[1]) == pytest.approx(float(jax.grad(spread)(2.0)), abs=1e-13)


def test_a_method_of_ones_own():
    heun = ms.methods.Explicit("heun", order=2, tableau=ms.methods.Tableau(a=((), (1.0,)), b=(0.5, 0.5)))
    dyn = ms.Dynamics(beta=2.0)
    want = ms.simulate(dyn, X, t=0.5, method=heun, save=[0.5], engine="dense").x
    np.testing.assert_allclose(ms.flow(dyn, X, [0.5], method=heun), want, rtol=0, atol=1e-14)


@pytest.mark.slow
def test_traced_times_of_adaptive_methods():
    speed = jax.jacrev(lambda t: ms.flow(ms.Dynamics(beta=2.0), X, jnp.stack([t]), method="tsit5", rtol=1e-10)[-1])(0.5)
    x = ms.flow(ms.Dynamics(beta=2.0), X, [0.5], method="tsit5", rtol=1e-10)[-1]
    np.testing.assert_allclose(speed, ms.Dynamics(beta=2.0).velocity(0.5, x), atol=1e-5)


def test_traced_seeds_and_lists_of_traced_times():
    def end(seed):
        return ms.flow(ms.Dynamics(noise=0.3), X, [0.2], method="euler", seed=seed)[-1]

    np.testing.assert_array_equal(jax.vmap(end)(jnp.arange(3))[2], end(2))
    with pytest.raises(ms.InputError, match="known numbers"):
        jax.jit(lambda t: ms.flow(ms.Dynamics(), X, [t, 2 * t]))(0.1)


@pytest.mark.parametrize("transform", [jax.grad, jax.jit, jax.vmap])
def test_simulate_under_a_transformation_names_flow(transform):
    calls = {
        "tokens": (lambda x: jnp.sum(ms.simulate(ms.Dynamics(), x, t=0.5, save=2).x), jnp.stack([X] * 2)),
        "beta": (lambda b: jnp.sum(ms.simulate(ms.Dynamics(beta=b), X, t=0.5, save=2).x), 2.0),
        "V": (lambda V: jnp.sum(ms.simulate(ms.Dynamics(ms.Weights(V=V)), X, t=0.5, save=2).x), np.eye(D)),
    }
    for name, (function, value) in calls.items():
        given = jnp.stack([jnp.asarray(value)] * 2) if transform is jax.vmap else value
        with pytest.raises(ms.InputError, match="flow") as refusal:
            transform(function)(given)
        assert "\n" not in str(refusal.value), name


BAD = [
    ({"times": [0.5, 0.2]}, "increase"),
    ({"times": [-1.0]}, "negative"),
    ({"times": [0.15], "method": "layers", "dt": 0.1}, "whole layers"),
    ({"method": "rk5"}, "did you mean 'rk4'"),
    ({"x0": np.ones(3)}, "shape"),
    ({"dynamics": "sphere"}, "Dynamics"),
    ({"dynamics": ms.Dynamics(noise=0.1)}, "euler"),
    ({"times": []}, "times must be"),
    ({"times": "soon"}, "times must be numbers"),
    ({"times": [0.2, 0.1], "method": "tsit5"}, "times must be finite, increase"),
    ({"dt": 0.0}, "dt must be"),
    ({"dt": "short"}, "dt must be a number"),
    ({"method": "tsit5", "rtol": "fine"}, "rtol must be a number"),
    ({"method": "tsit5", "atol": -1.0}, "atol must be"),
    ({"seed": -1}, "seed must be"),
    ({"x0": np.ones((3, 2)) * 1j}, "real"),
    ({"x0": [["a", "b"]]}, "real array"),
    ({"dynamics": ms.Dynamics(ms.Weights(V=np.eye(3)))}, "act on dimension 3"),
    ({"dynamics": ms.Dynamics(mask=np.tri(N + 1))}, "array for 6 tokens"),
    ({"dynamics": ms.Dynamics(normalise=lambda s: s)}, "do not fit"),
]


@pytest.mark.parametrize(("change", "word"), BAD, ids=[word for _, word in BAD])
def test_bad_input_gets_one_sentence(change, word):
    with pytest.raises(ms.InputError, match=word):
        ms.flow(**{"dynamics": ms.Dynamics(), "x0": X, "times": [0.5], **change})


TRACED = {
    "tokens": lambda v: ms.simulate(ms.Dynamics(), X * v, t=1.0),
    "beta": lambda v: ms.simulate(ms.Dynamics(beta=v), X, t=1.0),
    "t": lambda v: ms.simulate(ms.Dynamics(), X, t=v),
    "save": lambda v: ms.simulate(ms.Dynamics(), X, t=1.0, save=jnp.stack([0 * v, v])),
    "rtol": lambda v: ms.simulate(ms.Dynamics(), X, t=1.0, rtol=v, method="tsit5"),
    "seed": lambda v: ms.simulate(ms.Dynamics(), X, t=1.0, seed=v.astype(int)),
    "observe_many": lambda v: ms.observe_many(ms.Dynamics(), X[None] * v, "clusters", t=1.0),
}


@pytest.mark.parametrize("what", TRACED)
def test_every_traced_setting_names_flow_under_transformation(what):
    with pytest.raises(ms.InputError, match="use metastable.flow"):
        jax.jit(TRACED[what])(1.0)
