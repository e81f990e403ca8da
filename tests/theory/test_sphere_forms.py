"""Closed forms on the sphere against DOP853, multi-precision quadrature and the published numbers."""

from math import comb

import mpmath as mp
import numpy as np
import pytest

from metastable.errors import InputError
from metastable.theory import closed_forms as cf
from tests.theory.particle_flow import attention, flow, jacobian, sphere_velocity


def equiangular(n, gamma):
    return np.linalg.cholesky((1 - gamma) * np.eye(n) + gamma)


def gram_range(x):
    off = (x @ x.T)[~np.eye(len(x), dtype=bool)]
    return off.min(), off.max()


# --- equal angles ---------------------------------------------------------------------------------


@pytest.mark.parametrize("normalise", ["softmax", "unnormalised"])
@pytest.mark.parametrize(("n", "beta", "gamma0"), [(2, 1.0, 0.0), (5, 4.0, 0.3), (4, 2.0, -0.2)])
def test_equiangular_path_is_the_particles_own(n, beta, gamma0, normalise):
    times = [0.3, 1.0]
    x = flow(lambda t, x: sphere_velocity(x, beta=beta, normalise=normalise), equiangular(n, gamma0), times)
    expected = cf.equiangular_path(times, n, beta, gamma0, normalise)
    for tokens, gamma in zip(x, expected):
        assert gram_range(tokens) == pytest.approx((gamma, gamma), abs=1e-9)


@pytest.mark.parametrize(("beta", "time"), [(1, 5.270), (4, 6.954), (6, 15.995), (9, 178.73)])
def test_equiangular_time_published_numbers(beta, time):
    assert cf.equiangular_time(1 - 1e-3, n=32, beta=beta) == pytest.approx(time, abs=6e-4 if beta < 9 else 6e-3)


@pytest.mark.parametrize("normalise", ["softmax", "unnormalised"])
@pytest.mark.parametrize("beta", [0.0, 1e-6, 9.0, 60.0])
@pytest.mark.parametrize(("gamma0", "gamma"), [(0.0, 0.999), (-0.02, 0.5), (0.4, 0.41)])
def test_equiangular_time_is_the_integral_of_the_inverse_rate(beta, gamma0, gamma, normalise):
    n = 32
    with mp.workdps(30):
        b, n_ = mp.mpf(beta), mp.mpf(n)

        def slowness(g):
            common = 2 * (1 - g) * ((n_ - 1) * g + 1)
            weight = 1 / (mp.exp(b * (1 - g)) + n_ - 1) if normalise == "softmax" else mp.exp(b * g) / n_
            return 1 / (common * weight)

        nodes = mp.linspace(mp.mpf(gamma0), mp.mpf(gamma), 12)
        expected = float(mp.quad(slowness, nodes))
    # differences of exponential integrals lose at most a factor F(start)/(F(start)-F(end)), 1e3 for the short
    # stretch
    assert cf.equiangular_time(gamma, n, beta, gamma0, normalise) == pytest.approx(expected, rel=1e-11)


def test_equiangular_without_temperature():
    t = np.array([0.0, 0.5, 2.0])
    assert cf.equiangular_path(t, 2, 0.0) == pytest.approx(np.tanh(t), abs=1e-13)
    assert cf.equiangular_path(t, 7, 0.0) == pytest.approx(np.expm1(2 * t) / (np.exp(2 * t) + 6), abs=1e-13)


def test_equiangular_range_is_checked():
    with pytest.raises(InputError, match="n >= 2"):
        cf.equiangular_time(0.5, 1, 1.0)
    with pytest.raises(InputError, match="rises from"):
        cf.equiangular_time(0.5, 3, 1.0, gamma0=-0.5)
    with pytest.raises(InputError, match="normalise"):
        cf.equiangular_rate(0.5, 3, 1.0, normalise="soft")


def test_prelayernorm_rates_are_the_particles_own_and_algebraic():
    n, beta, gamma, r = 4, 2.0, 0.3, 1.7
    y = equiangular(n, gamma)
    x = r * y
    velocity = attention(y, beta=beta) @ y
    radial = (velocity * y).sum(axis=1)
    turning = (velocity - radial[:, None] * y) / r
    gram_rate = (turning @ y.T + y @ turning.T)[0, 1]
    assert np.allclose(np.linalg.norm(x, axis=1), r)
    assert cf.prelayernorm_rates(gamma, r, n, beta) == pytest.approx((gram_rate, radial[0]), rel=1e-11)

    state = flow(lambda t, s: np.array(cf.prelayernorm_rates(s[0], s[1], n, beta)), [gamma, r], [1e3, 1e4], rtol=1e-12)
    slope = np.log10((1 - state[1, 0]) / (1 - state[0, 0]))
    assert slope == pytest.approx(-2.0, abs=0.01)  # r = t + const shifts the log-log slope by O(const/1e3)


# --- two clusters ---------------------------------------------------------------------------------


@pytest.mark.parametrize("normalise", ["softmax", "unnormalised"])
def test_two_cluster_rate_is_the_particles_own(normalise):
    phi, m1, m2, beta = 1.1, 3, 2, 2.5
    a, b = np.array([1.0, 0.0]), np.array([np.cos(phi), np.sin(phi)])
    x = np.array([a] * m1 + [b] * m2)
    v = sphere_velocity(x, beta=beta, normalise=normalise)
    closing = -v[0] @ [0.0, 1.0] + v[-1] @ [-np.sin(phi), np.cos(phi)]
    assert cf.two_cluster_rate(phi, beta, m1, m2, normalise) == pytest.approx(closing, rel=1e-13)


def test_two_token_rate_is_the_published_one():
    phi, beta = np.linspace(0.1, 3.1, 7), 4.0
    assert cf.two_cluster_rate(phi, beta) == pytest.approx(-2 * np.sin(phi) / (1 + np.exp(beta * (1 - np.cos(phi)))))
    assert cf.causal_second_token_rate(phi, beta) == pytest.approx(
        -np.sin(phi) / (1 + np.exp(beta * (1 - np.cos(phi))))
    )


@pytest.mark.parametrize(
    ("beta", "phi0", "phi1", "m1", "m2"),
    [
        (0.0, 2.0, 1e-2, 3, 5),
        (9.0, 2.0, 1e-2, 3, 5),
        (9.0, 1.0, 1e-9, 40, 1),
        (50.0, 2.0, 1e-2, 3, 5),
        (50.0, 3.14, 0.5, 1, 1),
        pytest.param(400.0, 3.14, 0.5, 1, 1, marks=pytest.mark.slow),
        pytest.param(1e4, 2.0, 1e-2, 3, 5, marks=pytest.mark.slow),
    ],
)
def test_two_cluster_time_against_multiprecision(beta, phi0, phi1, m1, m2):
    with mp.workdps(25):

        def slowness(u):
            a = 2 * mp.mpf(beta) / (1 + mp.exp(-2 * u))
            return 1 / (m2 / (m1 * mp.exp(a) + m2) + m1 / (m2 * mp.exp(a) + m1))

        u0, u1 = mp.log(mp.tan(mp.mpf(phi0) / 2)), mp.log(mp.tan(mp.mpf(phi1) / 2))
        # panels that shrink towards the end where the integrand peaks
        cuts = [u0 - (u0 - u1) * mp.mpf(2) ** (-k) for k in range(18)] + [u0]
        expected = float(mp.log(mp.quad(slowness, cuts)))
    got = cf.two_cluster_log_time(phi0, phi1, beta, m1, m2)
    assert got == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_two_cluster_time_is_the_particles_own():
    beta, phi0 = 3.0, 2.2
    x0 = np.array([[1.0, 0.0]] * 2 + [[np.cos(phi0), np.sin(phi0)]] * 3)
    t = cf.two_cluster_time(phi0, 0.7, beta, 2, 3)
    x = flow(lambda t, x: sphere_velocity(x, beta=beta), x0, [t])[0]
    assert np.arccos(x[0] @ x[-1]) == pytest.approx(0.7, abs=1e-9)

    tc = cf.causal_second_token_time(phi0, 0.7, beta)
    y = flow(lambda t, x: sphere_velocity(x, beta=beta, causal=True), x0[[0, -1]], [tc])[0]
    assert y[0] == pytest.approx([1.0, 0.0], abs=1e-12)
    assert np.arccos(y[0] @ y[1]) == pytest.approx(0.7, abs=1e-9)


# --- energy and balance ---------------------------------------------------------------------------


@pytest.mark.parametrize("normalise", ["softmax", "unnormalised"])
def test_energy_rises_at_the_stated_rate_and_rotation_balances(normalise):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((6, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    v = sphere_velocity(x, beta=2.0, normalise=normalise)
    h = 1e-5
    change = (cf.interaction_energy(x + h * v, 2.0) - cf.interaction_energy(x - h * v, 2.0)) / (2 * h)
    assert cf.energy_rate(x, v, 2.0, normalise) == pytest.approx(change, rel=1e-8)
    assert np.abs(cf.rotational_imbalance(x, v, 2.0, normalise)).max() < 1e-15 * 60
    same = np.tile([1.0, 0.0], (4, 1))
    assert cf.interaction_energy(same, 3.0) == pytest.approx(cf.largest_energy(3.0))


@pytest.mark.parametrize(("beta", "d"), [(1.0, 2), (9.0, 3), (0.1, 50), (20.0, 1024), (300.0, 2)])
def test_uniform_energy(beta, d):
    nu = mp.mpf(d) / 2 - 1
    exact = mp.gamma(mp.mpf(d) / 2) * (mp.mpf(2) / beta) ** nu * mp.besseli(nu, beta) / (2 * mp.mpf(beta))
    assert cf.uniform_energy(beta, d) == pytest.approx(float(exact), rel=1e-10)


def test_uniform_energy_by_sampling():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200_000, 3))
    cosine = x[:, 0] / np.linalg.norm(x, axis=1)
    sample = np.exp(2.0 * cosine) / 4.0
    assert abs(sample.mean() - cf.uniform_energy(2.0, 3)) < 4 * sample.std() / np.sqrt(len(sample))


# --- linear rates ---------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [-1, 0])
def test_consensus_rates_are_the_jacobian(index):
    n, d = 3, 3
    M = np.random.default_rng(1).standard_normal((d, d))
    V = M + M.T
    _, vectors = np.linalg.eigh(V)
    x = np.tile(vectors[:, index], (n, 1))
    J = jacobian(lambda x: sphere_velocity(x / np.linalg.norm(x, axis=1, keepdims=True), V=V, beta=2.0), x)
    # radial motions are projected away: n extra zero rates
    got = np.sort(np.linalg.eigvals(J).real)
    expected = np.sort(np.concatenate([cf.consensus_rates(V, n, index), np.zeros(n)]))
    assert got == pytest.approx(expected, abs=1e-7)


def test_causal_consensus_rates_are_the_jacobian():
    n, d = 5, 3
    x = np.tile(np.eye(d)[0], (n, 1))
    J = jacobian(lambda x: sphere_velocity(x / np.linalg.norm(x, axis=1, keepdims=True), beta=3.0, causal=True), x)
    expected = np.sort(np.concatenate([np.repeat(cf.causal_consensus_rates(n), d - 1), np.zeros(n)]))
    assert np.sort(np.diag(J)) == pytest.approx(expected, abs=1e-7)  # block triangular, scalar blocks


@pytest.mark.parametrize("normalise", ["softmax", "unnormalised"])
@pytest.mark.parametrize(("k", "beta"), [(1, 1.0), (3, 4.0), (4, 9.0)])
def test_mode_growth_rate_of_a_fine_circle(k, beta, normalise):
    n = 256  # the trapezium rule on an analytic periodic function: exact to rounding
    theta = 2 * np.pi * np.arange(n) / n
    epsilon = 1e-6
    # density 1 + epsilon cos(k theta): move tokens by -epsilon sin(k theta)/k
    angle = theta - epsilon * np.sin(k * theta) / k
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    v = sphere_velocity(x, beta=beta, normalise=normalise)
    turning = -v[:, 0] * np.sin(angle) + v[:, 1] * np.cos(angle)
    rate = (turning @ np.sin(k * theta)) / ((angle - theta) @ np.sin(k * theta))
    assert cf.mode_growth_rate(k, beta, normalise) == pytest.approx(rate, rel=1e-6)


def test_fastest_modes_published():
    assert (cf.fastest_mode(4.0), cf.fastest_mode(9.0)) == (3, 4)
    assert cf.fastest_mode(0.0) == 1
    assert cf.mode_growth_rate(1, 0.0) == pytest.approx(float(cf.mode_growth_rate(1, 1e-9)))
    many = np.arange(1, 200)
    assert cf.fastest_mode(500.0) == many[np.argmax(cf.mode_growth_rate(many, 500.0))]


# --- chance ---------------------------------------------------------------------------------------


def test_wendel_by_sampling_and_exactly():
    assert cf.hemisphere_probability(2, 2) == 1.0
    assert cf.hemisphere_probability(3, 2) == 0.75
    assert cf.hemisphere_probability(4, 5) == 1.0
    assert cf.hemisphere_probability(10**400, 10**400) == 1.0
    assert cf.hemisphere_probability(2001, 1001) == pytest.approx(0.5 + comb(2000, 1000) / 2**2001, rel=1e-11)
    rng = np.random.default_rng(5)
    angles = np.sort(rng.uniform(0, 2 * np.pi, (20_000, 6)), axis=1)
    gaps = np.diff(np.concatenate([angles, angles[:, :1] + 2 * np.pi], axis=1), axis=1)
    share = (gaps.max(axis=1) > np.pi).mean()
    p = cf.hemisphere_probability(6, 2)
    assert abs(share - p) < 4 * np.sqrt(p * (1 - p) / 20_000)


def test_cap_mass_and_strong_centers():
    assert cf.cap_mass(0.7, 2) == pytest.approx(0.7 / np.pi)
    assert cf.cap_mass(2.0, 3) == pytest.approx(np.sin(1.0) ** 2)
    assert cf.cap_mass(np.pi, 7) == pytest.approx(1.0)
    assert cf.strong_centers(np.inf, 0.2, 3) == pytest.approx(1 / np.sin(0.1) ** 2)
    assert cf.strong_centers(5, 0.0, 3) == 5.0
    rng = np.random.default_rng(2)
    n, delta, trials = 30, 0.8, 2_000
    x = rng.standard_normal((trials, n, 3))
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    near = np.einsum("tid,tjd->tij", x, x) > np.cos(delta)
    counts = (~(near & np.tri(n, k=-1, dtype=bool)).any(axis=2)).sum(axis=1)
    assert abs(counts.mean() - cf.strong_centers(n, delta, 3)) < 4 * counts.std() / np.sqrt(trials)


def test_parking_constant():
    with mp.workdps(30):
        m = mp.quad(
            lambda x: mp.exp(-2 * (mp.e1(x) + mp.log(x) + mp.euler)) if x > 0 else mp.mpf(1),
            [0, 1, 4, 20, 100, mp.inf],
        )
    # the integrand falls only like x^-2; mpmath's tail is good to 1e-12
    assert pytest.approx(float(m), abs=1e-12) == cf.RENYI_PARKING_CONSTANT
    assert cf.parked_centers_circle(0.01) == pytest.approx(0.7476 * 2 * np.pi / 0.01, rel=1e-4)


# --- the first token ------------------------------------------------------------------------------


def test_first_token_path_is_the_causal_flow():
    rng = np.random.default_rng(8)
    V, x = rng.standard_normal((4, 4)), rng.standard_normal((3, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    times = [0.5, 1.5, 3.0]
    got = flow(lambda t, x: sphere_velocity(x, V=V, beta=2.0, causal=True), x, times)[:, 0]
    assert cf.first_token_path(times, V, x[0]) == pytest.approx(got, abs=1e-9)


@pytest.mark.parametrize("scale", [1.0, -1.0])
def test_first_token_path_for_ever(scale):
    V = scale * np.diag([2.0, 1.0, -3.0])
    x = np.ones(3) / np.sqrt(3)
    path = cf.first_token_path([0.0, 10.0, 2e3], V, x)
    assert path[0] == pytest.approx(x)
    assert path[-1] == pytest.approx(np.eye(3)[0 if scale > 0 else 2], abs=1e-14)
    # a token without the leading component never finds it
    assert cf.first_token_path([500.0], np.diag([1.0, 0.0]), [0.0, 1.0])[0] == pytest.approx([0.0, 1.0])
    with pytest.raises(InputError, match="direction"):
        cf.first_token_path([1.0], V, np.zeros(3))


def test_hardmax_contraction():
    leader, x, alpha = np.array([1.0, 2.0]), np.array([-3.0, 0.5]), 0.4
    moved = (x + alpha * leader) / (1 + alpha)
    ratio = np.linalg.norm(moved - leader) / np.linalg.norm(x - leader)
    assert cf.hardmax_contraction(alpha) == pytest.approx(ratio)
