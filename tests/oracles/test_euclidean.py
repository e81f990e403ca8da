"""ORACLES 15 to 22: tokens in R^d, rescaled and not."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm

import metastable as ms

TIGHT = {"method": "tsit5", "rtol": 1e-10}
V_3D = np.array(
    [[0.2362413, 0.0599536, 0.40506019], [0.81321448, 0.49948705, 0.33754772], [0.2160645, 0.38505272, 0.14588075]]
)


@pytest.mark.slow
def test_no_attention_structure_gives_uniform_attention():
    """ORACLES 15: Q^T K = 0."""
    x0, t = ms.initial.cube(7, 3, seed=1), 2.0
    w = ms.Weights(Q=np.zeros((2, 3)), K=np.zeros((2, 3)), V=V_3D)
    mean = x0.mean(axis=0)
    run = ms.simulate(ms.Dynamics(w, geometry="euclidean"), x0, t=t, save=[t], **TIGHT)
    assert np.abs(run.x[-1] - (x0 + (expm(t * V_3D) - np.eye(3)) @ mean)).max() < 1e-8
    run = ms.simulate(ms.Dynamics(w, geometry="rescaled"), x0, t=t, save=[t], **TIGHT)
    assert np.abs(run.x[-1] - ((x0 - mean) @ expm(-t * V_3D).T + mean)).max() < 1e-8


SLOW = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["complex", *(pytest.param(k, marks=SLOW) for k in ("real", "jordan", "negative"))])
@pytest.mark.parametrize("mask", ["full", pytest.param("causal", marks=SLOW), pytest.param("window(2)", marks=SLOW)])
def test_rescaled_and_original_flows_agree(kind, mask):
    """ORACLES 16, with real, complex, defective and negative spectra, for tokens and attention."""
    V = {
        "real": V_3D,
        "complex": ms.weights.from_eigenvalues([0.7, 0.3 + 1.1j, 0.3 - 1.1j], basis="random", seed=2),
        "jordan": np.array([[0.5, 1.0, 0.0], [0.0, 0.5, 1.0], [0.0, 0.0, 0.5]]),
        "negative": np.diag([-0.5, -1.0, -0.1]),
    }[kind]
    rng = np.random.default_rng(3)
    Q, K = rng.standard_normal((2, 2, 3))  # rectangular
    x0, t = ms.initial.gaussian(9, 3, seed=4), 1.5
    w = ms.Weights(Q, K, V)
    plain = ms.simulate(ms.Dynamics(w, beta=0.7, geometry="euclidean", mask=mask), x0, t=t, save=4, **TIGHT)
    scaled = ms.simulate(ms.Dynamics(w, beta=0.7, geometry="rescaled", mask=mask), x0, t=t, save=4, **TIGHT)
    for k, time in enumerate(plain.t):
        assert np.abs(scaled.x[k] - plain.x[k] @ expm(-time * V).T).max() < 1e-8 * max(1.0, np.abs(scaled.x[k]).max())
        assert np.abs(scaled.attention(k) - plain.attention(k)).max() < 1e-7


@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_fixed_rescaled_steps_are_those_of_equation_4(method):
    """A plain transcription of eq. (4), stepped in z itself, gives the same digits while they last."""
    x0, dt, steps = ms.initial.cube(10, 3, seed=5), 0.05, 30

    def f(t, z):
        x = z @ expm(t * V_3D).T
        P = np.exp(x @ x.T - (x @ x.T).max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        return (P @ z - z) @ V_3D.T

    z = x0
    for k in range(steps):
        t = k * dt
        k1 = f(t, z)
        if method == "euler":
            z = z + dt * k1
            continue
        k2, k3 = f(t + dt / 2, z + dt / 2 * k1), None
        k3 = f(t + dt / 2, z + dt / 2 * k2)
        z = z + dt / 6 * (k1 + 2 * k2 + 2 * k3 + f(t + dt, z + dt * k3))
    run = ms.simulate(ms.Dynamics(ms.Weights(V=V_3D), geometry="rescaled"), x0, t=1.5, dt=dt, method=method, save=[1.5])
    assert np.abs(run.x[-1] - z).max() < 1e-9


@pytest.mark.slow
def test_hull_never_grows_and_limit_points_obey_the_identity():
    """ORACLES 17 for V = I and Q^T K = A^T A."""
    A = np.array([[1.0, 0.3], [0.0, 0.8]])
    run = ms.simulate(
        ms.Dynamics(ms.Weights(Q=A, K=A), geometry="rescaled"), ms.initial.cube(20, 2, seed=6), t=40.0, save=81, **TIGHT
    )
    assert np.asarray(run.observe("hull_growth")).max() < 1e-9
    z = run.x[-1] @ A.T
    size = (z**2).sum(axis=1)
    best = (z @ z.T).max(axis=1)
    assert np.abs(np.where(size > 1e-9, size - best, 0.0)).max() < 1e-7 * size.max()


@pytest.mark.slow
def test_leading_projections_never_rise():
    """ORACLES 18: max_i phi*(z_i) never increases for a left eigenvector with lambda >= 0."""
    run = ms.simulate(
        ms.Dynamics(ms.Weights(V=V_3D), geometry="rescaled"), ms.initial.cube(15, 3, seed=7), t=20.0, save=81, **TIGHT
    )
    zeta, values, left = run.coordinates()
    assert values[0].imag == 0
    assert values[0].real > 0
    assert (np.diff(zeta[..., 0].max(axis=-1)) < 1e-9).all()
    assert np.abs(zeta[0] - run.x[0] @ left.T).max() < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("u0", [pytest.param(1.0, marks=SLOW), 0.5])
def test_two_opposite_tokens_on_the_line(u0):
    """ORACLES 19."""
    integral = quad(lambda w: (1 - np.tanh(w)) / (w * np.tanh(w)), u0**2, np.inf, epsabs=1e-13, epsrel=1e-13)[0]
    dyn = ms.Dynamics(ms.Weights(1.0, 1.0, 1.0), geometry="rescaled")
    run = ms.simulate(dyn, [[u0], [-u0]], t=30.0, save=[30.0], **TIGHT)
    assert abs(run.x[-1, 0, 0] - u0 * np.exp(-integral / 2)) < 1e-8
    assert run.attention(-1)[0].round(12).tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.slow
def test_minus_identity_collapses_algebraically():
    """ORACLES 20: C(t) = (C0^{-1} + 2 t I)^{-1} for small centred tokens."""
    x0 = ms.initial.gaussian(400, 2, scale=0.02, seed=8)
    x0 -= x0.mean(axis=0)
    t = 500.0
    run = ms.simulate(ms.Dynamics(ms.Weights(V=-np.eye(2)), geometry="euclidean"), x0, t=t, save=[t], **TIGHT)
    C0, C = x0.T @ x0 / 400, run.x[-1].T @ run.x[-1] / 400
    assert np.abs(C - np.linalg.inv(np.linalg.inv(C0) + 2 * t * np.eye(2))).max() < 2e-3 * np.abs(C).max()


def test_discrete_rescaling_is_exact():
    """ORACLES 21: z = R^{-k} x for the recursions of Remarks 1 and 4; a negative eigenvalue of R included."""
    x0, w = ms.initial.gaussian(8, 3, scale=0.4, seed=9), None
    for V in (V_3D, np.diag([0.5, -0.3, -7.0])):
        w = ms.Weights(V=V)
        dt, layers = 0.2, 6
        plain = ms.simulate(ms.Dynamics(w, geometry="euclidean"), x0, t=layers * dt, dt=dt, method="layers")
        scaled = ms.simulate(ms.Dynamics(w, geometry="rescaled"), x0, t=layers * dt, dt=dt, method="layers")
        R = np.eye(3) + dt * V
        for k in range(layers + 1):
            back = np.linalg.matrix_power(np.linalg.inv(R), k)
            assert np.abs(scaled.x[k] - plain.x[k] @ back.T).max() < 1e-10 * max(1.0, np.abs(scaled.x[k]).max())


def test_hardmax_follower_closes_in_geometrically():
    """ORACLES 22: the distance to a fixed leader shrinks by 1/(1 + alpha) per layer of the rescaled map."""
    alpha = 0.7
    dyn = ms.Dynamics(ms.Weights(V=alpha * np.eye(2)), normalise="hardmax", geometry="rescaled")
    run = ms.simulate(dyn, [[3.0, 0.5], [1.0, 0.2]], t=10, method="layers")
    gap = np.linalg.norm(run.x[:, 1] - run.x[:, 0], axis=-1)
    assert np.abs(run.x[:, 0] - [3.0, 0.5]).max() < 1e-14
    assert np.abs(gap[1:] / gap[:-1] - 1 / (1 + alpha)).max() < 1e-12
