"""ORACLES 1 to 14: adaptive runs at rtol 1e-10 must agree with closed forms and scalar equations to 1e-8."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.special import iv

import metastable as ms

TIGHT = {"method": "tsit5", "rtol": 1e-10}


def scalar(rate, y0, times):
    """A scalar equation solved by another integrator."""
    solution = solve_ivp(lambda t, y: rate(y), (0.0, times[-1]), [y0], "DOP853", times, rtol=1e-12, atol=1e-14)
    return solution.y[0]


@pytest.mark.parametrize(
    ("beta", "normalise"),
    [
        (4.0, "softmax"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [(1.0, "softmax"), (2.0, "unnormalised"), (-1.5, "softmax")]
        ),
    ],
)
def test_equiangular_tokens_follow_the_scalar_equation(beta, normalise):
    n, times = 8, np.linspace(0.0, 3.0, 7)
    dyn = ms.Dynamics(ms.Weights(), beta=beta, normalise=normalise)
    run = ms.simulate(dyn, ms.initial.equiangular(n), t=3.0, save=times, **TIGHT)
    gram = np.einsum("tnd,tmd->tnm", run.x, run.x)
    off = gram[:, ~np.eye(n, dtype=bool)]
    assert np.ptp(off, axis=1).max() < 1e-9  # it stays equiangular

    def rate(g):
        e = np.exp(beta * g)
        total = np.exp(beta) + (n - 1) * e if normalise == "softmax" else n
        return 2 * e * (1 - g) * ((n - 1) * g + 1) / total

    assert np.abs(off[:, 0] - scalar(rate, 0.0, times)).max() < 1e-8


@pytest.mark.slow
def test_time_to_cluster_from_the_closed_form():
    """n = 32: 1 - gamma = 1e-3 at t = 6.954 for beta = 4, by ORACLES 1."""
    run = ms.simulate(ms.Dynamics(ms.Weights(), beta=4.0), ms.initial.equiangular(32), t=6.954, save=[6.954], **TIGHT)
    gamma = run.x[-1][0] @ run.x[-1][1]
    assert abs((1 - gamma) - 1e-3) < 2e-6  # three decimals of t are given


@pytest.mark.slow
def test_beta_zero_has_an_elementary_solution():
    run = ms.simulate(ms.Dynamics(ms.Weights(), beta=0.0), ms.initial.equiangular(5), t=2.0, save=[2.0], **TIGHT)
    expected = (np.exp(4.0) - 1) / (np.exp(4.0) + 4)
    assert abs(run.x[-1][0] @ run.x[-1][3] - expected) < 1e-9


@pytest.mark.parametrize("beta", [0.5, 6.0])
def test_two_tokens(beta):
    x0 = np.array([[1.0, 0.0], [np.cos(2.0), np.sin(2.0)]])
    times = np.linspace(0.0, 4.0, 5)
    run = ms.simulate(ms.Dynamics(ms.Weights(), beta=beta), x0, t=4.0, save=times, **TIGHT)
    angle = np.arccos(np.einsum("td,td->t", run.x[:, 0], run.x[:, 1]))
    expected = scalar(lambda p: -2 * np.sin(p) / (1 + np.exp(beta * (1 - np.cos(p)))), 2.0, times)
    assert np.abs(angle - expected).max() < 1e-8


@pytest.mark.slow
def test_two_collapsed_clusters():
    beta, m1, m2 = 3.0, 3, 5
    x0 = np.array([[1.0, 0.0, 0.0]] * m1 + [[np.cos(1.4), np.sin(1.4), 0.0]] * m2)
    times = np.linspace(0.0, 5.0, 6)
    run = ms.simulate(ms.Dynamics(ms.Weights(), beta=beta), x0, t=5.0, save=times, **TIGHT)
    angle = np.arccos(np.einsum("td,td->t", run.x[:, 0], run.x[:, -1]))

    def rate(p):
        e, top = np.exp(beta * np.cos(p)), np.exp(beta)
        return -np.sin(p) * e * (m2 / (m1 * top + m2 * e) + m1 / (m2 * top + m1 * e))

    assert np.abs(angle - scalar(rate, 1.4, times)).max() < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("normalise", ["softmax", "unnormalised"])
def test_energy_rises_at_the_stated_rate_and_rotations_balance(normalise):
    beta, n = 2.5, 12
    dyn = ms.Dynamics(ms.Weights(), beta=beta, normalise=normalise)
    x = ms.initial.sphere(n, 3, seed=4)
    v = np.asarray(dyn.velocity(0.0, x))
    e = np.exp(beta * x @ x.T)
    Z = e.sum(axis=1) if normalise == "softmax" else np.full(n, float(n))
    stated = (Z * (v**2).sum(axis=1)).sum() / n**2
    by_chain_rule = np.einsum("ij,id,jd->", e, v, x) / n**2  # symmetric in i and j, hence no factor 1/2
    assert abs(stated - by_chain_rule) < 1e-13
    wedge = np.einsum("i,ia,ib->ab", Z, x, v) - np.einsum("i,ia,ib->ab", Z, v, x)
    assert np.abs(wedge).max() < 1e-12
    run = ms.simulate(dyn, x, t=4.0, save=41, **TIGHT)
    energy = np.asarray(run.observe("energy"))
    assert (np.diff(energy) > -1e-12).all()
    assert energy[-1] <= np.exp(beta) / (2 * beta) + 1e-12


@pytest.mark.slow
def test_angles_keep_their_sum_on_the_circle():
    dyn = ms.Dynamics(ms.Weights(), beta=2.0, normalise="unnormalised")
    run = ms.simulate(dyn, ms.initial.sphere(9, 2, seed=1), t=3.0, save=61, **TIGHT)
    angle = np.unwrap(np.arctan2(run.x[..., 1], run.x[..., 0]), axis=0)
    assert np.abs(angle.sum(axis=1) - angle[0].sum()).max() < 1e-8


@pytest.mark.slow
def test_linear_rates_at_consensus():
    """ORACLES 6: -lambda and mu_j - lambda at an eigenvector of symmetric V."""
    import jax

    values, n = np.array([1.3, 0.4, -0.7]), 4
    dyn = ms.Dynamics(ms.Weights(V=np.diag(values)), beta=1.7)
    x = np.tile([1.0, 0.0, 0.0], (n, 1))
    J = np.asarray(jax.jacobian(lambda y: dyn.velocity(0.0, y))(x))[:, 1:, :, 1:].reshape(2 * n, 2 * n)  # tangent part
    found = np.sort(np.linalg.eigvals(J).real)
    expected = np.sort(np.r_[np.full((n - 1) * 2, -1.3), 0.4 - 1.3, -0.7 - 1.3])
    assert np.abs(found - expected).max() < 1e-10


@pytest.mark.parametrize("normalise", ["softmax", "unnormalised"])
def test_modes_of_the_uniform_law_grow_at_bessel_rates(normalise):
    """ORACLES 7 on 128 evenly spread tokens: a ripple of mode k grows at k^2 I_k(beta)/beta (over I_0 for SA)."""
    beta, n, k, small = 4.0, 128, 3, 1e-6
    theta = 2 * np.pi * np.arange(n) / n
    theta = theta + small * np.sin(k * theta)
    x = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    v = np.asarray(ms.Dynamics(ms.Weights(), beta=beta, normalise=normalise).velocity(0.0, x))
    speed = -np.sin(theta) * v[:, 0] + np.cos(theta) * v[:, 1]
    rate = 2 / n * (speed * np.sin(k * 2 * np.pi * np.arange(n) / n)).sum() / small
    expected = k**2 * iv(k, beta) / beta / (iv(0, beta) if normalise == "softmax" else 1.0)
    # the token displacement a sin(k theta) has density ripple -a k cos(k theta): same growth rate
    assert abs(rate / expected - 1) < 1e-4


@pytest.mark.slow
def test_hemisphere_is_never_left():
    run = ms.simulate(ms.Dynamics(ms.Weights(), beta=3.0), ms.initial.cap(20, 3, angle=1.4, seed=2), t=5.0, **TIGHT)
    lowest = run.x[..., 0].min(axis=-1)
    assert (np.diff(lowest) > -1e-9).all()


@pytest.mark.slow
def test_pre_norm_slows_equiangular_tokens():
    """ORACLES 9: gamma' is divided by the growing radius r."""
    n, beta, times = 6, 1.0, np.linspace(0.0, 6.0, 4)
    block = ms.Block(attention_norm=ms.blocks.RMSNorm(unit=True), order="pre")
    dyn = ms.Dynamics(ms.Weights(), beta=beta, geometry="euclidean", block=block)
    run = ms.simulate(dyn, ms.initial.equiangular(n), t=6.0, save=times, **TIGHT)

    def rate(t, y):
        g, r = y
        e = np.exp(beta * g)
        total = np.exp(beta) + (n - 1) * e
        return [2 * e * (1 - g) * ((n - 1) * g + 1) / total / r, (np.exp(beta) + (n - 1) * g * e) / total]

    expected = solve_ivp(rate, (0, 6.0), [0.0, 1.0], "DOP853", times, rtol=1e-12, atol=1e-14).y
    size = np.linalg.norm(run.x[:, 0], axis=-1)
    cosine = np.einsum("td,td->t", run.x[:, 0], run.x[:, 1]) / size / np.linalg.norm(run.x[:, 1], axis=-1)
    assert np.abs(cosine - expected[0]).max() < 1e-8
    assert np.abs(size - expected[1]).max() < 1e-8


# --- causal -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_first_token_follows_the_exponential(seed):
    rng = np.random.default_rng(seed)
    V, Q, K = rng.standard_normal((3, 3, 3))
    x0 = ms.initial.sphere(5, 3, seed=seed)
    run = ms.simulate(ms.Dynamics(ms.Weights(Q, K, V), beta=2.0, mask="causal"), x0, t=2.0, save=5, **TIGHT)
    expected = np.stack([expm(t * V) @ x0[0] for t in run.t])
    assert np.abs(run.x[:, 0] - expected / np.linalg.norm(expected, axis=1, keepdims=True)).max() < 1e-8


@pytest.mark.slow
def test_second_causal_token():
    beta, times = 2.0, np.linspace(0.0, 5.0, 6)
    x0 = np.array([[1.0, 0.0, 0.0], [np.cos(2.2), 0.0, np.sin(2.2)]])
    run = ms.simulate(ms.Dynamics(ms.Weights(), beta=beta, mask="causal"), x0, t=5.0, save=times, **TIGHT)
    assert np.abs(run.x[:, 0] - x0[0]).max() < 1e-15
    expected = scalar(lambda p: -np.sin(p) / (1 + np.exp(beta * (1 - np.cos(p)))), 2.2, times)
    assert np.abs(np.arccos(run.x[:, 1] @ x0[0]) - expected).max() < 1e-8


@pytest.mark.slow
def test_causal_tokens_all_reach_the_first():
    rng = np.random.default_rng(3)
    Q, K = rng.standard_normal((2, 3, 3)) / 2
    x0 = ms.initial.sphere(12, 3, seed=3)
    run = ms.simulate(ms.Dynamics(ms.Weights(Q, K), mask="causal"), x0, t=60.0, save=[60.0], method="tsit5")
    assert np.abs(run.x[-1] - x0[0]).max() < 1e-6


@pytest.mark.parametrize("method", ["rk4", "euler", "layers"])
def test_cutting_the_sequence_leaves_earlier_tokens_alone(method):
    x0 = ms.initial.sphere(10, 3, seed=5)
    dyn = ms.Dynamics(ms.Weights(), beta=4.0, mask="causal")
    whole = ms.simulate(dyn, x0, t=4.0, save=3, method=method, dt=0.1)
    part = ms.simulate(dyn, x0[:6], t=4.0, save=3, method=method, dt=0.1)
    assert np.abs(whole.x[:, :6] - part.x).max() < 1e-13


@pytest.mark.parametrize("normalise", ["softmax", "unnormalised", "hardmax"])
def test_no_normalisation_looks_ahead_under_the_causal_mask(normalise):
    dyn = ms.Dynamics(ms.Weights(), beta=2.0, normalise=normalise, mask="causal")
    x = ms.initial.sphere(8, 3, seed=6)
    assert np.abs(np.asarray(dyn.velocity(0.0, x))[:5] - np.asarray(dyn.velocity(0.0, x[:5]))).max() < 1e-15
