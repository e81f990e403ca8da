"""Closed forms in R^d against DOP853 and the published numbers."""

import mpmath as mp
import numpy as np
import pytest

from metastable.errors import InputError
from metastable.theory import closed_forms as cf
from tests.theory.particle_flow import euclidean_velocity, flow, rescaled_velocity

RNG = np.random.default_rng(11)
V3 = RNG.standard_normal((3, 3))
X5 = RNG.standard_normal((5, 3))


def test_uniform_attention_solution():
    zero = np.zeros((2, 3))
    x = flow(lambda t, x: euclidean_velocity(x, V=V3, Q=zero, K=zero), X5, [1.3])[0]
    assert cf.uniform_attention_path(1.3, V3, X5) == pytest.approx(x, rel=1e-9)
    z = flow(lambda t, z: rescaled_velocity(t, z, V3, Q=zero, K=zero), X5, [1.3])[0]
    assert cf.uniform_attention_rescaled_path(1.3, V3, X5) == pytest.approx(z, rel=1e-9)


def test_rescaling_joins_the_two_flows():
    x = flow(lambda t, x: euclidean_velocity(x, V=V3), X5, [0.8])[0]
    z = flow(lambda t, z: rescaled_velocity(t, z, V3), X5, [0.8])[0]
    assert cf.rescaled(0.8, V3, x) == pytest.approx(z, rel=1e-8)
    assert cf.unscaled(0.8, V3, z) == pytest.approx(x, rel=1e-8)


@pytest.mark.parametrize(("u0", "limit"), [(1.0, 0.94830), (0.5, 0.18738)])
def test_two_token_line_limit_published(u0, limit):
    assert cf.two_token_line_limit(u0) == pytest.approx(limit, abs=6e-6)


@pytest.mark.parametrize("u0", [0.05, 0.3, 1.0, 4.0, 10.0])
def test_two_token_line_limit_multiprecision(u0):
    with mp.workdps(40):
        f = lambda w: (1 - mp.tanh(w)) / (w * mp.tanh(w))  # noqa: E731
        a = mp.mpf(u0) ** 2
        integral = mp.quad(f, [a * mp.mpf(2) ** k for k in range(18)] + [a * 2**18 + 60])
        expected = float(u0 * mp.exp(-integral / 2))
    assert cf.two_token_line_limit(u0) == pytest.approx(expected, rel=1e-12)


def test_two_token_line_limit_is_the_flow_with_any_scalars():
    q, v, u0 = 2.5, 0.7, 0.6
    velocity = euclidean_velocity(np.array([[u0], [-u0]]), V=np.array([[v]]), Q=np.array([[q]]))
    assert cf.two_token_line_rate(u0, q, v) == pytest.approx(velocity[0, 0], rel=1e-14)
    # ln z' = v (tanh(q u^2) - 1), u = e^{vt} z, saturated by vt = 12
    field = lambda t, s: v * (np.tanh(q * np.exp(2 * (v * t + s))) - 1)  # noqa: E731
    end = np.exp(flow(field, [np.log(u0)], [12 / v])[0, 0])
    assert cf.two_token_line_limit(u0, q) == pytest.approx(end, rel=1e-9)
    assert cf.two_token_line_limit(0.0) == 0.0
    with pytest.raises(InputError, match="Q K > 0"):
        cf.two_token_line_limit(1.0, score=-1.0)


def test_collapse_covariance():
    C0 = np.cov(X5.T, bias=True) * 1e-4
    assert cf.collapse_covariance(3.0, C0) == pytest.approx(
        np.linalg.inv(np.linalg.inv(C0) + 6.0 * np.eye(3)), rel=1e-10
    )
    x0 = 1e-2 * (X5 - X5.mean(axis=0))
    C0 = x0.T @ x0 / 5
    size = (x0**2).sum(axis=1).max()
    x = flow(lambda t, x: euclidean_velocity(x, V=-np.eye(3)), x0, [2000.0])[0]
    C = x.T @ x / 5
    predicted = cf.collapse_covariance(2000.0, C0)
    # the expansion of softmax leaves out terms of relative size |x|^2 in x', hence in d(C^{-1})/dt
    assert np.abs(C - predicted).max() / np.abs(predicted).max() < size
    singular = cf.collapse_covariance(5e5, np.diag([1.0, 0.0]))
    assert np.trace(singular) == pytest.approx(1 / 1e6, rel=1e-5)


def test_discrete_rescaling_is_exact():
    Q, K = RNG.standard_normal((2, 3)), RNG.standard_normal((2, 3))
    dt, x, z = 0.2, X5, X5
    R = np.eye(3) + dt * V3
    for k in range(6):
        x = cf.discrete_step(x, dt, Q, K, V3)
        z = cf.discrete_rescaled_step(z, k, dt, Q, K, V3)
        assert z @ np.linalg.matrix_power(R, k + 1).T == pytest.approx(x, rel=1e-10)


def test_ginibre_by_sampling():
    M = np.random.default_rng(4).standard_normal((200_000, 2, 2))
    values = np.linalg.eigvals(M)
    top = np.take_along_axis(values, np.abs(values).argmax(axis=1)[:, None], axis=1)[:, 0]
    share = ((top.imag == 0) & (top.real > 0)).mean()
    p = cf.ginibre_dominant_positive_2d()
    assert abs(share - p) < 4 * np.sqrt(p * (1 - p) / 200_000)
