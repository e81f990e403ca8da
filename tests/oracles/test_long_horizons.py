"""Rescaled runs are right at long horizons, or say that they are not."""

import warnings

import numpy as np
import pytest

import metastable as ms

from . import high_precision

PUBLISHED = np.array([[0.64709742, 0.81911926], [0.61210449, 0.63263484]])


def assert_close(V, z0, t, dt, digits=60, score=None):
    z, zeta = high_precision.rk4(V, z0, t, dt, score, digits)
    weights = ms.Weights(V=V) if score is None else ms.Weights(Q=np.eye(len(V)), K=score, V=V)
    run = ms.simulate(ms.Dynamics(weights, geometry="rescaled"), z0, t=t, dt=dt, save=[t])
    assert run.valid_until == t
    assert np.abs(run.x[-1] - z).max() < 1e-8 * np.abs(z).max()
    mine = run.coordinates()[0][-1]
    scale = np.abs(zeta).max(axis=0)
    order = [
        int(np.argmin(np.abs(np.abs(mine).max(axis=0) - s))) for s in scale
    ]  # eigenvectors: order and sign are free
    for k, o in enumerate(order):
        gap = min(np.abs(mine[:, o] - zeta[:, k]).max(), np.abs(mine[:, o] + zeta[:, k]).max())
        assert gap < 1e-8 * scale[k]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_published_hyperplane_matrix(seed):
    assert_close(PUBLISHED, np.random.default_rng(seed).uniform(-5, 5, (10, 2)), 40.0, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2, 5])
def test_random_symmetric_mixed_signs(seed):
    """Normalised to spectral radius 1.4, so that 60 digits hold e^{2 lambda t}."""
    V = ms.weights.goe(3, seed)
    V *= 1.4 / np.abs(np.linalg.eigvalsh(V)).max()
    assert np.linalg.eigvalsh(V).min() < 0 < np.linalg.eigvalsh(V).max()
    assert_close(V, np.random.default_rng(seed).uniform(-5, 5, (8, 3)), 40.0, 0.1)


@pytest.mark.slow
def test_large_eigenvalues_beyond_sixty_digits():
    V = ms.weights.goe(3, 2)  # leading eigenvalue 4.3: e^{2 lambda t} has 150 digits
    assert_close(V, np.random.default_rng(102).uniform(-5, 5, (8, 3)), 40.0, 0.1, digits=250)


@pytest.mark.slow
def test_several_leaders_beside_a_contracting_direction():
    """Fig. 8 of the second paper: polytope times subspace, the leaders of each vertex tied in two directions."""
    assert_close(np.diag([1.0, 1.0, -0.5]), np.random.default_rng(7).uniform(-5, 5, (9, 3)), 40.0, 0.1)


@pytest.mark.slow
def test_score_matrix_that_is_not_the_identity():
    score = np.array([[1.0, 0.4], [-0.2, 0.7]])
    assert_close(PUBLISHED, np.random.default_rng(8).uniform(-5, 5, (8, 2)), 40.0, 0.1, score=score)


@pytest.mark.slow
@pytest.mark.parametrize("V", [PUBLISHED, np.diag([1.0, 1.0, -0.5]), ms.weights.goe(3, 1)])
def test_adaptive_runs_agree_with_fine_fixed_steps_at_long_horizons(V):
    z0 = np.random.default_rng(9).uniform(-2, 2, (10, len(V)))
    dyn = ms.Dynamics(ms.Weights(V=V), geometry="rescaled")
    adaptive = ms.simulate(dyn, z0, t=30.0, save=[10.0, 30.0], method="tsit5", rtol=1e-11)
    fixed = ms.simulate(dyn, z0, t=30.0, dt=0.0025, save=[10.0, 30.0])
    a, b = adaptive.coordinates()[0], fixed.coordinates()[0]
    assert np.abs((a - b) / np.abs(b).max(axis=-2, keepdims=True)).max() < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tsit5", pytest.param("rk4", marks=pytest.mark.slow)])
def test_ten_thousand_time_units_on_a_polytope(method):
    z0 = ms.initial.cube(40, 3, seed=1)
    dyn = ms.Dynamics(ms.Weights(), geometry="rescaled")
    run = ms.simulate(dyn, z0, t=1e4, save=[50.0, 1e3, 1e4], method=method)
    assert run.status == "done"
    assert np.isfinite(run.x).all()
    assert np.abs(run.x[1:] - run.x[0]).max() < 1e-12
    P = run.attention(-1)[0]
    assert np.isfinite(P).all()
    assert np.isin(P, (0.0, 1.0)).all()


@pytest.mark.parametrize("method", [pytest.param("tsit5", marks=pytest.mark.slow), "euler"])
def test_token_at_the_origin_and_duplicates_survive_long_runs(method):
    """A token at 0 sees equal scores until rounding tips it off this unstable point; equal tokens stay equal."""
    z0 = np.array(
        [
            [2.0, 0.0],
            [-2.0, 0.0],
            [0.0, 2.0],
            [0.0, -2.0],
            [0.0, 0.0],
            [1.0, 0.5],
            [1.0, 0.5],
            [-1.0, -0.5],
            [-1.0, -0.5],
        ]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        run = ms.simulate(ms.Dynamics(ms.Weights(), geometry="rescaled"), z0, t=2e3, save=[1.0, 2e3], method=method)
    assert np.isfinite(run.x).all()
    assert np.abs(run.x[:, 5] - run.x[:, 6]).max() == 0.0
    assert np.abs(run.x[:, 4]).max() < 1e-9 or run.valid_until < 2e3


@pytest.mark.slow
def test_a_run_says_when_rounding_takes_over():
    """Tokens mirrored about 0 with one of them near the unstable middle: rounding decides where it goes."""
    V = np.array([[1.0, 0.0], [0.0, -0.3]])
    z0 = np.array([[1.0, 0.3], [-1.0, 0.3], [0.0, 0.7], [1.0 / 3.0, 0.1], [-1.0 / 3.0, 0.1]])
    angle = 0.7  # a rotation by an inexact angle turns the exact symmetry into one up to rounding
    R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    dyn = ms.Dynamics(ms.Weights(V=R @ V @ R.T), geometry="rescaled")
    with pytest.warns(RuntimeWarning, match="Rounding"):
        run = ms.simulate(dyn, z0 @ R.T, t=80.0, save=81, method="tsit5")
    assert 1.0 <= run.valid_until <= 6.0  # the middle is left at rate exp(e^{2t}/2)
    assert "do not trust" in run.message


@pytest.mark.slow
def test_float32_is_right_as_far_as_it_says():
    dyn = ms.Dynamics(ms.Weights(V=PUBLISHED), geometry="rescaled")
    for seed in range(4):
        z0 = ms.initial.cube(12, 2, seed=seed).astype(np.float32)
        exact = ms.simulate(dyn, z0, t=20.0, save=21)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            run = ms.simulate(dyn, z0, t=20.0, save=21, dtype="float32")
        good = run.t <= run.valid_until
        size = np.abs(exact.x[good]).max(axis=(1, 2), keepdims=True)
        assert (np.abs(run.x[good] - exact.x[good]) / size).max() < 1e-2


@pytest.mark.slow
def test_overflow_of_z_itself_ends_the_run_with_a_sentence():
    dyn = ms.Dynamics(ms.Weights(V=np.diag([1.0, -1.0])), geometry="rescaled")
    run = ms.simulate(dyn, ms.initial.cube(6, 2), t=1000.0, save=11, method="tsit5")
    assert run.status == "diverged"
    assert np.isfinite(run.x).all()
    assert 500 <= run.t[-1] <= 800
    assert "range of floats" in run.message


@pytest.mark.slow
def test_blocks_of_queries_change_nothing_in_the_chart(monkeypatch):
    from metastable.engines.chart import basis as rescaled_chart
    from metastable.engines.chart import references
    from metastable.engines.chart import state as rescaled

    dyn = ms.Dynamics(ms.Weights(V=PUBLISHED), geometry="rescaled", mask="causal")
    chart = rescaled_chart.chart_of(dyn, 2, 11)
    y, refs = rescaled.start(chart, ms.initial.cube(11, 2, seed=5))
    whole = references.refer(dyn, chart, 2.0, y, refs)
    s = rescaled.gathered(dyn, chart, 2.0, *whole)
    gap = rescaled.closest_gap(dyn, chart, 2.0, *whole)
    monkeypatch.setattr(rescaled, "MOST_ENTRIES", 11 * 4)
    parts = references.refer(dyn, chart, 2.0, y, refs)
    assert np.array_equal(whole[1], parts[1])
    for one, other in zip(rescaled.gathered(dyn, chart, 2.0, *parts), s, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12 * np.abs(other).max())
    assert abs(float(rescaled.closest_gap(dyn, chart, 2.0, *parts)) - float(gap)) < 1e-9 * abs(float(gap))


def test_a_polygon_in_cyclic_pursuit_grows_for_ever():
    """Every token sees only the one 45 degrees behind it: |xi| grows like Re(lambda e^{-i pi/4}), whatever the scale.

    Rounding a huge score once for the row's maximum and once more for the difference used to end this at t = 13.
    """
    c, s = np.cos(np.pi / 4), np.sin(np.pi / 4)
    K = [[1, 0, 0], [0, c, s], [0, -s, c]]
    V = [[1, 0, 0], [0, 0.6, 1.8], [0, -1.8, 0.6]]
    angles = 2 * np.pi * np.arange(8) / 8
    z = np.stack([np.zeros(8), 4 * np.cos(angles), 4 * np.sin(angles)], axis=1)
    run = ms.simulate(ms.Dynamics(ms.Weights(K=K, V=V), geometry="rescaled"), z, t=40, dt=0.125, save=41)
    size = np.linalg.norm(run.x[:, :, 1:], axis=2).mean(axis=1)
    rate = (0.6 + 1.8j) * np.exp(-0.25j * np.pi) - 0.6
    np.testing.assert_allclose(np.diff(np.log(size)), rate.real, rtol=1e-3)
    assert run.valid_until == 40.0


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["chart", "chart-kernels"])
def test_a_contracting_direction_beyond_its_cap_ends_the_run(engine):
    """Equal tokens do not move; where e^{-t lambda} is capped (at e^600) they would have shrunk, certified, by e^30."""
    x = np.full((2, 2), 0.5)
    dyn = ms.Dynamics(ms.Weights(V=np.diag([0.3, -0.68])), geometry="rescaled")
    run = ms.simulate(dyn, x, t=925.0, dt=0.5, save=[0.0, 850.0, 925.0], engine=engine)
    np.testing.assert_allclose(run.x, np.broadcast_to(x, run.x.shape), rtol=1e-9)
    assert (run.status, run.t[-1]) == ("diverged", 850.0)
