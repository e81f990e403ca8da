"""Rest and plateaus: equilibria whose stability is known, and lifetimes against quadrature and simulation."""

import math

import numpy as np
import pytest

import metastable as ms
from metastable.solve.rest import at_rest, judge
from metastable.theory.two_clusters import two_cluster_time

ZERO = np.zeros((2, 2))
POLE = ms.initial.sphere(1, 3, seed=5)


def circle(*angles):
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def clusters(phi, m1, m2):
    return np.repeat(circle(0.1, 0.1 + phi), [m1, m2], axis=0)


def shaken(x, seed=0):
    x = x + 2e-16 * np.random.default_rng(seed).standard_normal(x.shape)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


AT_REST = {
    "consensus": (ms.Dynamics(beta=3.0), np.tile(POLE, (5, 1))),
    "consensus to a rounding": (ms.Dynamics(beta=3.0), shaken(np.tile(POLE, (5, 1)))),
    "causal, all at the first token": (ms.Dynamics(beta=4.0, mask="causal"), shaken(np.tile(POLE, (5, 1)))),
    "opposite tokens that repel": (ms.Dynamics(ms.Weights(V=-np.eye(2))), circle(0.2, 0.2 + np.pi)),
    "leading eigenvector": (ms.Dynamics(ms.Weights(V=np.diag([1.0, 0.5]))), np.tile([1.0, 0.0], (4, 1))),
    "one token": (ms.Dynamics(), circle(0.3)),
    "a sphere of two points": (ms.Dynamics(), np.array([[1.0], [-1.0], [1.0]])),
    "clusters that see only themselves": (ms.Dynamics(normalise="hardmax"), clusters(2.0, 2, 2)),
    "Q^T K = 0, V = -I, centred": (
        ms.Dynamics(ms.Weights(ZERO, ZERO, -np.eye(2)), geometry="euclidean"),
        np.array([[1.0, 2.0], [-3.0, 0.5], [2.0, -2.5]]),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_REST)
def test_at_rest(name):
    dyn, x = AT_REST[name]
    verdict = judge(dyn, 7.0, x)
    assert (verdict.kind, verdict.lasts) == ("rest", math.inf)
    assert "at rest" in verdict.message


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize(("beta", "phi"), [(25.0, 2.0), (25.0, 1.5), (40.0, 2.0)])
def test_two_clusters_last_as_long_as_the_quadrature_says(beta, phi, seed):
    x = clusters(phi, 3, 2)
    verdict = judge(ms.Dynamics(beta=beta), 0.0, x if seed is None else shaken(x, seed))
    assert verdict.kind == "plateau"
    assert verdict.lasts == pytest.approx(two_cluster_time(phi, 1e-3, beta, 3, 2), rel=0.1)
    assert "plateau, not rest: it may last until about t = " in verdict.message


@pytest.mark.slow
def test_two_clusters_in_space_under_sinkhorn_attention():
    x = np.concatenate([clusters(2.0, 2, 2), np.zeros((4, 1))], axis=1)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    verdict = judge(ms.Dynamics(beta=25.0, normalise="sinkhorn"), 0.0, shaken(x @ turn))
    assert verdict.lasts == pytest.approx(two_cluster_time(2.0, 1e-3, 25.0), rel=0.1)  # equal sizes: softmax's own


def test_opposite_clusters_are_an_unstable_equilibrium():
    verdict = judge(ms.Dynamics(beta=3.0), 100.0, circle(0.3, 0.3 + np.pi))
    rate = 2.0 / (1.0 + math.exp(6.0))  # oracle 2 around phi = pi
    assert verdict.lasts == pytest.approx(math.log(1 / 4.4e-16) / rate, rel=0.01)
    assert verdict.message.endswith("t = 7.2e+03")


@pytest.mark.slow
def test_three_clusters_last_until_rounding_has_grown():
    dyn, x = ms.Dynamics(beta=3.0), circle(0.2, 0.2 + 2 * np.pi / 3, 0.2 + 4 * np.pi / 3)
    verdict = judge(dyn, 0.0, x)
    run = ms.simulate(dyn, x, t=3 * verdict.lasts, method="tsit5", save=300)
    closest = np.array([(y @ y.T - np.eye(3)).max() for y in run.x])
    ended = run.t[np.argmax(closest > np.cos(1.0))]
    assert verdict.kind == "plateau"
    assert 0.3 < verdict.lasts / ended < 3.0


def test_the_end_of_a_simulation_is_rest():
    for mask in ("full", "causal"):
        dyn = ms.Dynamics(beta=2.0, mask=mask)
        run = ms.simulate(dyn, ms.initial.cap(6, 3), t=80.0, save=[5.0, 80.0])
        assert judge(dyn, 5.0, run.x[0]) is None
        assert at_rest(dyn, 80.0, run.x[1])


@pytest.mark.slow
def test_repelling_tokens_end_at_rest_up_to_a_rotation():
    dyn = ms.Dynamics(ms.Weights(V=-np.eye(3)))
    assert at_rest(dyn, 400.0, ms.simulate(dyn, ms.initial.sphere(4, 3), t=400.0, save=2).x[-1])


def test_algebraic_collapse_is_a_drift():
    dyn = ms.Dynamics(ms.Weights(V=-np.eye(2)), geometry="euclidean")
    x = ms.simulate(dyn, ms.initial.cube(5, 2, side=1.0), t=1000.0, dt=0.5, save=2).x[-1]
    verdict = judge(dyn, 1000.0, x, slow=1e-4)
    assert verdict.kind == "plateau"
    assert 200.0 < verdict.lasts < 5000.0  # x ~ t^{-1/2} changes by its own size within about t
    assert judge(dyn, 1000.0, 1e-3 * x).kind == "rest"  # what is left of the way is below 1e-4


def test_saddles_off_the_leading_eigenvector():
    dyn = ms.Dynamics(ms.Weights(V=np.diag([1.0, 0.5])))
    verdict = judge(dyn, 0.0, np.array([[0.0, 1.0]]))
    assert verdict.lasts == pytest.approx(math.log(1 / 4.4e-16) / 0.5, rel=0.01)


def test_what_cannot_be_judged_says_so():
    x = circle(*[0.3] * 4)
    noisy = judge(ms.Dynamics(noise=0.1), 0.0, x)
    assert (noisy.kind, noisy.lasts) == ("plateau", pytest.approx(100.0))
    assert "noise" in noisy.message
    timed = judge(ms.Dynamics(ms.Weights(V=lambda t: np.eye(2))), 0.0, x)
    assert timed.kind == "plateau"
    assert "depends on time" in timed.message
    many = judge(ms.Dynamics(), 0.0, np.tile(x, (300, 1)))
    assert many.kind == "plateau"
    assert "1200 tokens in dimension 2 are too many" in many.message


@pytest.mark.parametrize(
    "block",
    [ms.Block(attention_norm=ms.blocks.LayerNorm()), ms.Block(order="pre", mlp_norm=ms.blocks.LayerNorm(), skip=0.5)],
)
def test_a_map_between_layers_has_no_velocity_to_be_steady_by(block):
    """Tokens of a post-norm block had come to rest, but the velocity of the flow without its norms was not 0."""
    dyn = ms.Dynamics(block=block, geometry="euclidean")
    with pytest.raises(ms.InputError, match="velocity"):
        ms.simulate(dyn, ms.initial.gaussian(4, 3), t=2.0, method="layers", until="steady")
