"""Fixed steps of the rescaled flow by kernels against the same steps by JAX, and against themselves."""

import numpy as np
import pytest

import metastable as ms
from metastable.errors import InputError
from metastable.solve.driver import drive
from metastable.solve.plan import make_plan


def value_map(kind, d, seed=0):
    M = np.random.default_rng(seed).normal(size=(d, d)) / np.sqrt(d)
    kinds = {
        "identity": np.eye(d),
        "symmetric": (M + M.T) / 2,
        "contracting": 0.3 * M - np.eye(d),
        "complex": M,
        "turning": (M - M.T) / 2 + 0.2 * np.eye(d),
    }
    return kinds[kind]


def dynamics(kind, d, mask="full", seed=0, **weights):
    return ms.Dynamics(ms.Weights(V=value_map(kind, d, seed), **weights), geometry="rescaled", mask=mask)


def tokens(n, d, seed=1, runs=()):
    return np.random.default_rng(seed).normal(size=(*runs, n, d))


def both(dyn, z, **asked):
    return [ms.simulate(dyn, z, engine=how, **asked) for how in ("chart-kernels", "chart")]


def assert_same(exact, dense, rtol=1e-11):
    assert exact.provenance["engine"] == "chart-kernels"
    assert dense.provenance["engine"] == "chart"
    assert exact.status == dense.status
    assert exact.valid_until == dense.valid_until
    np.testing.assert_allclose(exact.x, dense.x, rtol=0, atol=rtol * np.abs(dense.x).max())


@pytest.mark.parametrize(
    ("kind", "mask", "method"),
    [
        pytest.param("identity", "causal", "rk4", marks=pytest.mark.slow),
        pytest.param("symmetric", "full", "euler", marks=pytest.mark.slow),
        pytest.param("contracting", "full", "rk4", marks=pytest.mark.slow),
        ("contracting", "causal", "layers"),
        ("complex", "causal", "euler"),
        pytest.param("turning", "full", "layers", marks=pytest.mark.slow),
        pytest.param("turning", "full", "rk4", marks=pytest.mark.slow),
    ],
)
def test_as_dense(kind, mask, method):
    save = 4 if method == "layers" else [0.0, 0.33, 2.5, 2.53, 5.0]  # most saves lie inside a step
    exact, dense = both(dynamics(kind, 5, mask), tokens(21, 5), t=5.0, dt=0.1, method=method, save=save)
    assert_same(exact, dense)
    assert exact.chart[0].shape == dense.chart[0].shape
    assert exact.chart[1].shape == dense.chart[1].shape
    np.testing.assert_allclose(exact.coordinates()[0], dense.coordinates()[0], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "n", [pytest.param(16, marks=pytest.mark.slow), 17, pytest.param(40, marks=pytest.mark.slow), 515]
)  # one panel, part of a second, three, and too many to keep
@pytest.mark.parametrize("Q", [None, np.diag([1.0, 0.5, 1.0, 2.0])])  # scores symmetric in the chart, and not
def test_scores_of_one_panel_serve_the_others(n, Q):
    dyn = dynamics("symmetric", 4, Q=Q)
    assert_same(*both(dyn, tokens(n, 4), t=0.3, dt=0.1, method="euler", save=2))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 3), (40, 20)])
def test_any_size(n, d):
    assert_same(*both(dynamics("symmetric", d), tokens(n, d), t=4.0, save=3))


def test_queries_and_keys_of_their_own():
    rng = np.random.default_rng(5)
    dyn = dynamics("symmetric", 6, Q=rng.normal(size=(4, 6)), K=rng.normal(size=(4, 6)))
    assert_same(*both(dyn, tokens(20, 6), t=3.0, method="euler", save=3))


@pytest.mark.parametrize(
    ("V", "mask"),
    [
        (np.diag([0.5, -0.3]), lambda i, j: j < i),
        pytest.param(np.array([[0.4, 1.0], [0.0, 0.4]]), np.tri(3, k=-1), marks=pytest.mark.slow),
    ],
)
def test_a_token_that_sees_nobody_stays_where_it_is(V, mask):
    """x_0 is fixed, so z_0 = R^{-k} x_0 after k layers; x_1 sees x_0 alone and moves by dt V x_0 in each of them."""
    x, k, dt = np.array([[1.0, 0.5], [0.3, -0.4], [-0.2, 0.8]]), np.array([0, 4, 20]), 0.25
    run = ms.simulate(
        ms.Dynamics(ms.Weights(V=V), geometry="rescaled", mask=mask), x, t=5.0, dt=dt, method="layers", save=k * dt
    )
    assert run.valid_until == 5.0
    for steps, z in zip(k, run.x):
        back = np.linalg.matrix_power(np.linalg.inv(np.eye(2) + dt * V), steps)
        np.testing.assert_allclose(z[0], back @ x[0], rtol=1e-12)
        np.testing.assert_allclose(z[1], back @ (x[1] + steps * dt * V @ x[0]), rtol=1e-12)
    assert run.attention(-1)[0, 0].tolist() == [0.0, 0.0, 0.0]


def test_tokens_that_have_joined_others_are_held_by_their_offsets():
    exact, dense = both(dynamics("identity", 3), 5.0 * tokens(30, 3), t=15.0, save=4)
    assert_same(exact, dense)
    own = exact.chart[1] == np.arange(30)
    assert own[0].all()
    assert own[-1].sum() < 15


def test_a_run_in_an_ensemble_is_the_same_run_alone_to_the_last_bit():
    kinds = ["symmetric", "complex", "identity", "turning", "contracting"]
    members = [dynamics(kind, 3, seed=k) for k, kind in enumerate(kinds)]
    z = tokens(18, 3, runs=(5,))
    asked = {"t": 5.0, "save": [0.0, 1.03, 5.0]}
    together = ms.simulate(members, z, **asked)
    for member, start, run in zip(members, z, together):
        alone = ms.simulate(member, start, **asked)
        assert run.provenance["engine"] == alone.provenance["engine"] == "chart-kernels"
        assert np.array_equal(run.x, alone.x)
        assert run.valid_until == alone.valid_until
        assert np.array_equal(run.coordinates()[0], alone.coordinates()[0])
    stacked = ms.simulate(members[0], z.reshape(5, 1, 18, 3), **asked)
    assert stacked.x.shape == (3, 5, 1, 18, 3)
    assert np.array_equal(stacked.x[:, 0, 0], together[0].x)


def test_taken_up_again_it_gives_the_same_digits():
    plan, z = make_plan(dynamics("complex", 3), tokens(18, 3), t=6.0, save=61)
    pieces = list(drive(plan, z))
    assert len(pieces) > 5
    rest = list(drive(plan, z, checkpoint=pieces[3].state))
    for one, again in zip(pieces[4:], rest, strict=True):
        assert np.array_equal(one.x, again.x)
        assert np.array_equal(one.apart, again.apart)


@pytest.mark.slow
def test_both_ways_notice_that_rounding_decides():
    """Three tokens on a line, the middle one in unstable balance: it is left at the rate exp(e^{2t}/2)."""
    z = np.array([[-1.0], [1e-17], [1.0]])
    with pytest.warns(RuntimeWarning, match="Rounding"):
        exact, dense = both(ms.Dynamics(geometry="rescaled"), z, t=8.0, save=17)
    assert exact.valid_until == pytest.approx(dense.valid_until, abs=1.0)
    assert exact.valid_until < 6.0


@pytest.mark.slow
def test_what_kernels_cannot_take_goes_to_jax_or_is_refused():
    z = tokens(6, 2)
    for dyn, asked in [
        (ms.Dynamics(geometry="rescaled", normalise="hardmax"), {}),
        (ms.Dynamics(geometry="rescaled", mask=lambda i, j: j <= i), {}),
        (ms.Dynamics(geometry="rescaled"), {"method": "tsit5"}),
        (ms.Dynamics(geometry="rescaled"), {"dtype": "float32"}),
        (ms.Dynamics(ms.Weights(V=[[1.0, 1.0], [0.0, 1.0]]), geometry="rescaled"), {}),
    ]:
        assert ms.simulate(dyn, z, t=0.5, save=2, **asked).provenance["engine"] == "chart"
        with pytest.raises(InputError, match="because"):
            ms.simulate(dyn, z, t=0.5, save=2, engine="chart-kernels", **asked)


@pytest.mark.slow
def test_a_member_without_eigenvectors_runs_too_and_says_how():
    members = [dynamics("symmetric", 2), ms.Dynamics(ms.Weights(V=[[1.0, 1.0], [0.0, 1.0]]), geometry="rescaled")]
    runs = ms.simulate(members, tokens(6, 2, runs=(2,)), t=1.0, save=2)
    assert [run.provenance["engine"] for run in runs] == ["chart", "chart"]


@pytest.mark.slow
def test_divergence_is_told():
    """V contracts so fast that zeta leaves the range of floats."""
    exact, dense = both(
        ms.Dynamics(ms.Weights(V=-np.eye(2)), geometry="rescaled"), tokens(5, 2), t=900.0, dt=0.5, save=10
    )
    assert exact.status == dense.status
    assert len(exact.x) == len(dense.x)
