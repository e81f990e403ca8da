"""The thirteen defects of the first version, each with its own numbers and with others."""

import re
import signal
import subprocess
import sys
import time
import warnings

import gmpy2
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metastable as ms
from metastable.equation.positions import Alibi, Rotary, rotary
from metastable.solve import observe as observing
from metastable.solve.plan import make_plan
from metastable.solve.trust import with_copies
from metastable.theory.two_clusters import two_cluster_time
from tests.oracles import many_digits

PUBLISHED = np.array([[0.64709742, 0.81911926], [0.61210449, 0.63263484]])


def own_softmax(scores, visible):
    return jax.nn.softmax(scores if visible is None else jnp.where(visible, scores, -jnp.inf), axis=-1)


def quietly(*args, **kwargs):
    """The run, and the RuntimeWarnings it gave."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run = ms.simulate(*args, **kwargs)
    return run, [str(w.message) for w in found if issubclass(w.category, RuntimeWarning)]


def assert_honest(run, told, truth):
    """No error above 1e-6 of the largest token at any save up to valid_until; a warning where that is not the end."""
    assert run.valid_until is not None
    assert np.isfinite(run.valid_until)
    truth = truth[: len(run.t)]
    error = np.abs(run.x - truth).max(axis=(1, 2)) / np.abs(truth).max(axis=(1, 2))
    assert error[run.t <= run.valid_until].max(initial=0.0) < 1e-6
    if len(run.t) and run.valid_until < run.t[-1]:
        assert any("Rounding may have changed" in text for text in told)
    else:
        assert not told


# --- 1, 2, 4: parts of the rescaled flow given as functions and objects ---------------------------------------------


SOFTMAX = {
    "own": own_softmax,
    "name": "softmax",
    "declared": ms.Normalisation(own_softmax, shift_invariant=True, stochastic=True, by_rows=True),
}
OWN = [  # by default the defect itself: a plain function
    pytest.param(seed, name, marks=() if (seed, name) == (0, "own") else pytest.mark.slow)
    for seed in (0, 3, 8)
    for name in SOFTMAX
]


@pytest.mark.parametrize(("seed", "name"), OWN)
def test_1_own_softmax_in_a_rescaled_run(seed, name):
    x, times = ms.initial.cube(6, 2, seed=seed), np.arange(0.0, 41.0, 5.0)
    truth = many_digits.rk4(PUBLISHED, x, times)
    dyn = ms.Dynamics(ms.Weights(V=PUBLISHED), geometry="rescaled", normalise=SOFTMAX[name])
    run, told = quietly(dyn, x, t=40.0, dt=0.1, save=times)
    assert_honest(run, told, truth)
    if name != "own":
        assert run.valid_until == 40.0


@pytest.mark.parametrize(
    ("values", "size"), [((0.5, -0.8), 0.2), pytest.param((0.4, -0.6), 0.3, marks=pytest.mark.slow)]
)
def test_2_unnormalised_attention_in_an_oblique_basis(values, size):
    S = np.array([[1.0, 0.6], [0.3, 1.0]])
    V = S @ np.diag(values) @ np.linalg.inv(S)
    x = np.abs(ms.initial.cube(5, 2, seed=0)) * size + 0.3
    x = np.stack([x @ S[:, 0], x @ [0.1, -0.1]], axis=1) @ S.T
    times = np.arange(0.0, 51.0, 2.0)
    truth = many_digits.rk4(V, x, times, score=-np.eye(2), softmax=False)
    assert np.isfinite(truth).all()
    dyn = ms.Dynamics(ms.Weights(Q=-np.eye(2), V=V), geometry="rescaled", normalise="unnormalised")
    run, told = quietly(dyn, x, t=50.0, dt=0.1, save=times)
    assert_honest(run, told, truth)
    assert run.valid_until >= 10.0
    assert run.status == "done"
    assert len(run.t) == len(times)


def triangular(d, seed, equal=False):
    rng = np.random.default_rng(seed)
    V = 0.7 * np.triu(rng.normal(size=(d, d)), 1)
    np.fill_diagonal(V, 0.3 if equal else rng.uniform(-0.3, 0.6, d))
    return V


NON_NORMAL = [(8, 1, True, 40.0)]
MORE = [(20, 0, False, 40.0)] + [
    (d, seed, equal, t) for d, t in ((20, 40.0), (12, 30.0)) for seed in range(2, 6) for equal in (False, True)
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("d", "seed", "equal", "t"), NON_NORMAL + [pytest.param(*case, marks=pytest.mark.slow) for case in MORE]
)
def test_3_strongly_non_normal_values(d, seed, equal, t):
    """valid_until is honest where V has no usable eigenvectors."""
    V = triangular(d, seed, equal)
    x, times = np.random.default_rng(seed + 100).uniform(-1, 1, (4, d)), np.arange(0.0, t + 1, 4.0)
    truth = many_digits.rk4(V, x, times, bits=900)
    run, told = quietly(ms.Dynamics(ms.Weights(V=V), geometry="rescaled"), x, t=t, dt=0.1, save=times)
    assert_honest(run, told, truth)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_3_nearly_dependent_eigenvectors(seed):
    """Eigenvectors of condition number about 7e5."""
    rng = np.random.default_rng(seed)
    S = rng.normal(size=(4, 4))
    S[:, 1] = S[:, 0] + 3e-6 * rng.normal(size=4)
    V = S @ np.diag([0.9, 0.5, -0.3, 0.2]) @ np.linalg.inv(S)
    assert 1e5 < np.linalg.cond(np.linalg.eig(V)[1]) < 1e7
    x, times = rng.uniform(-2, 2, (5, 4)), np.arange(0.0, 31.0, 3.0)
    truth = many_digits.rk4(V, x, times, bits=900)
    run, told = quietly(ms.Dynamics(ms.Weights(V=V), geometry="rescaled"), x, t=30.0, dt=0.1, save=times)
    assert_honest(run, told, truth)


def nearly_dependent(apart):
    """V = S diag(.7, .3, -.2) S^{-1} with two nearly parallel columns of S, and tokens: a rounding of V moves its
    eigenvalues by 1e-7, and by chance the first copy of this run by hardly more."""
    rng = np.random.default_rng(5)
    S = rng.normal(size=(3, 3))
    S[:, 1] = S[:, 0] + apart * rng.normal(size=3)
    return S @ np.diag([0.7, 0.3, -0.2]) @ np.linalg.inv(S), rng.uniform(-1, 1, (4, 3))


@pytest.mark.slow
@pytest.mark.parametrize("apart", [3e-5, 1e-5, 5e-6])
def test_3_eigenvalues_that_a_rounding_moves(apart):
    V, x = nearly_dependent(apart)
    times = np.arange(0.0, 31.0, 3.0)
    truth = many_digits.rk4(V, x, times, bits=900)
    run, told = quietly(ms.Dynamics(ms.Weights(V=V), geometry="rescaled"), x, t=30.0, dt=0.1, save=times)
    assert_honest(run, told, truth)


def test_3_where_one_number_decides_there_are_two_copies():
    for apart, copies in ((1.0, 1), (1e-5, 2), (1e-8, 2)):
        V, x = nearly_dependent(apart)
        plan, _ = make_plan(ms.Dynamics(ms.Weights(V=V), geometry="rescaled"), x, t=30.0)
        assert with_copies(plan).runs == 1 + copies


def long_tails(scores, seen):
    """1/(1 + (max - s)^2), normalised: attention that saturates like a power, not like an exponential."""
    s = scores if seen is None else jnp.where(seen, scores, -jnp.inf)
    w = 1.0 / (1.0 + (s.max(axis=-1, keepdims=True) - s) ** 2)
    return w / w.sum(axis=-1, keepdims=True)


@pytest.mark.slow
def test_3_copies_cut_deep_scores_elsewhere():
    """Score gaps are cut at 1e4 in the chart; where rows decay slowly that is seen, and the certificate ends."""
    part = ms.Normalisation(long_tails, "tails", shift_invariant=True, stochastic=True, by_rows=True)
    dyn = ms.Dynamics(ms.Weights(V=np.diag([1.0, 0.5])), normalise=part, geometry="rescaled")
    x, times = np.random.default_rng(0).uniform(-1, 1, (4, 2)), np.arange(0.0, 601.0, 60.0)
    A = many_digits.exact(np.eye(2))
    with gmpy2.context(gmpy2.get_context(), precision=2600):
        system = many_digits.Rescaled(many_digits.exact(np.diag([1.0, 0.5])), A, many_digits.cauchy)
        truth = many_digits.fixed(system, many_digits.exact(x), times, 0.5, many_digits.EULER, 2600)
    run, told = quietly(dyn, x, t=600.0, dt=0.5, method="euler", save=times)
    assert_honest(run, told, truth)
    assert np.abs(run.x - truth).max() > 1e-6  # without the copy's own cut all of it was certified


@pytest.mark.slow
def test_3_pulls_that_the_chart_leaves_out_end_the_certificate():
    """Beyond e^300 the chart takes attention for settled; a direction of rate .002 still moves then, by a tenth."""
    rng = np.random.default_rng(0)
    S = rng.normal(size=(2, 2))
    V = S @ np.diag([1.0, 0.002]) @ np.linalg.inv(S)
    Q, K = rng.normal(size=(2, 2, 2))
    x, times = rng.uniform(-1, 1, (5, 2)), np.array([0.0, 100.0, 280.0, 400.0])
    with gmpy2.context(gmpy2.get_context(), precision=2600):
        exact = many_digits.exact
        system = many_digits.Rescaled(exact(V), exact(Q).T.dot(exact(K)), seen=np.tri(5))
        truth = many_digits.fixed(system, exact(x), times, 0.5, many_digits.EULER, 2600)
    dyn = ms.Dynamics(ms.Weights(Q, K, V), geometry="rescaled", mask="causal")
    run, told = quietly(dyn, x, t=400.0, dt=0.5, method="euler", save=times)
    assert_honest(run, told, truth)
    assert run.valid_until == 280.0
    assert np.abs(run.x[-1] - truth[-1]).max() > 0.01


@pytest.mark.parametrize("mask", [pytest.param("full", marks=pytest.mark.slow), "causal"])
def test_3_flat_attention_within_a_cluster_ends_the_certificate(mask):
    """Scores that do not see the fastest direction: beyond e^300 they were shrunk with it, and attention was flat."""
    V, half = np.diag([1.0, 0.02]), np.diag([0.0, 1.0])
    x, times = ms.initial.cube(5, 2, seed=3), np.array([0.0, 150.0, 290.0, 400.0])
    with gmpy2.context(gmpy2.get_context(), precision=2600):
        exact = many_digits.exact
        seen = None if mask == "full" else np.tri(5)
        truth = many_digits.fixed(
            many_digits.Rescaled(exact(V), exact(half), seen=seen), exact(x), times, 0.5, many_digits.EULER, 2600
        )
    dyn = ms.Dynamics(ms.Weights(half, half, V), geometry="rescaled", mask=mask)
    run, told = quietly(dyn, x, t=400.0, dt=0.5, method="euler", save=times)
    assert_honest(run, told, truth)
    assert 290.0 <= run.valid_until <= 301.0


def test_3_attention_that_turns_late_ends_the_certificate():
    """Beyond e^300 scores between clusters and within them have other units: a token took the wrong side, 200% off."""
    V, Q, K = np.diag([1.0, 0.01, 0.001]), np.array([[0.0, 1.0, 0.0]]), np.array([[0.0, 0.0, 1.0]])
    turn = 1.0 / (np.exp(0.01 * 304.73) - 1.0)  # token 2 turns from token 0 to token 1 at t = 304.73
    x = 1e6 * np.array([[1.0, -turn, 1.0], [-1.0, -1.0, -1.0], [0.7, 1.0, 0.5]])
    times = np.array([0.0, 300.0, 304.0, 306.0, 320.0])
    truth = many_digits.rk4(V, x, times, dt=0.5, score=Q.T @ K, causal=True, bits=2000)
    dyn = ms.Dynamics(ms.Weights(Q, K, V), geometry="rescaled", mask="causal")
    run, told = quietly(dyn, x, t=320.0, dt=0.5, save=times)
    assert_honest(run, told, truth)
    assert run.valid_until == 304.0


@pytest.mark.slow
def test_3_rows_with_a_deep_threshold_are_not_taken_for_granted():
    def within(scores, seen):
        s = scores if seen is None else jnp.where(seen, scores, -jnp.inf)
        w = jnp.where(s.max(axis=-1, keepdims=True) - s < 3e5, 1.0, 0.0)
        return w / w.sum(axis=-1, keepdims=True)

    declared = ms.Normalisation(within, name="within", shift_invariant=True, stochastic=True, by_rows=True)
    weights, x = ms.Weights(V=np.array([[1.0, 0.1], [0.1, 0.3]])), ms.initial.cube(5, 2, seed=5)
    plain, run = (
        quietly(ms.Dynamics(weights, beta=4.0, normalise=part, geometry="rescaled"), x, t=10.0, save=[0.0, 1.0, 10.0])[
            0
        ]
        for part in (within, declared)
    )
    assert plain.valid_until == 10.0
    assert np.abs(run.x - plain.x)[run.t <= run.valid_until].max() < 1e-6


@pytest.mark.slow
def test_3_growing_directions_that_turn_are_certified_while_the_chart_holds():
    V = np.array([[0.7, 2.3, 0.0], [-2.3, 0.7, 0.0], [0.0, 0.0, -0.005]])
    dyn = ms.Dynamics(ms.Weights(V=V), geometry="rescaled", mask="causal")
    run, told = quietly(dyn, ms.initial.cube(4, 3, seed=1), t=600.0, dt=0.5, method="euler", save=[0.0, 200.0, 600.0])
    assert run.valid_until <= 300 / 0.7
    assert told


def test_4_a_geometry_given_as_an_object():
    x = ms.initial.cube(12, 2, seed=1)
    by_name, by_object = (
        ms.simulate(ms.Dynamics(ms.Weights(V=PUBLISHED), geometry=geometry), x, t=40.0, save=9)
        for geometry in ("rescaled", ms.geometry.GEOMETRIES["rescaled"])
    )
    assert np.array_equal(by_name.x, by_object.x)
    assert by_name.valid_until == by_object.valid_until == 40.0
    assert by_name.provenance["engine"] == by_object.provenance["engine"]
    assert by_object.chart is not None


# --- 5: ensembles say what single runs say --------------------------------------------------------------------------

TIED = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])


def test_5_ensembles_warn_as_single_runs_do():
    dyn = ms.Dynamics(geometry="rescaled")
    with pytest.warns(RuntimeWarning, match="Rounding"):
        alone = ms.simulate(dyn, TIED, t=10.0, save=11)
    assert alone.valid_until < 10.0
    with pytest.warns(RuntimeWarning, match="Rounding") as told:
        runs = ms.simulate([dyn, dyn], np.stack([TIED, TIED]), t=10.0, save=11)
    assert len([w for w in told if w.category is RuntimeWarning]) == 1
    assert all(run.valid_until < 10.0 for run in runs)
    safe = ms.initial.cube(3, 2, seed=0)
    with pytest.warns(RuntimeWarning, match="1 of 2 runs") as told:
        data = ms.observe_many([dyn, dyn], np.stack([TIED, safe]), "clusters", t=10.0, save=11)
    assert len([w for w in told if w.category is RuntimeWarning]) == 1
    assert data.valid_until[0] < 10.0 == data.valid_until[1]


@pytest.mark.slow
def test_5_a_stalled_run_is_called_stalled():
    """x' = e^{x^2} x blows up in finite time."""
    dyn = ms.Dynamics(normalise="unnormalised", geometry="euclidean")
    x, asked = np.array([[[1.0]], [[0.01]]]), {"t": 1.0, "save": 11, "method": "tsit5"}
    status = ms.simulate(dyn, x[0], **asked).status
    assert status in ("stalled", "diverged")
    runs = ms.simulate([dyn, dyn], x, **asked)
    assert [run.status for run in runs] == [status, "done"]
    data = ms.observe_many([dyn, dyn], x, "order", **asked)
    assert data.status.values.tolist() == [status, "done"]
    assert np.isnan(data.order[-1, 0])
    assert np.isfinite(data.order[:, 1]).all()


# --- 6: see tests/conformance/test_new_parts.py; here with as many tokens as it took --------------------------------


@pytest.fixture
def tables():
    held = [ms.masks.MASKS, ms.normalise.NORMALISATIONS, ms.geometry.GEOMETRIES, ms.methods.METHODS]
    before = [dict(table) for table in held]
    yield
    for table, rows in zip(held, before):
        table.clear()
        table.update(rows)


@pytest.mark.parametrize("n", [pytest.param(20, marks=pytest.mark.slow), 700])
def test_6_rows_added_to_tables_work_with_any_number_of_tokens(tables, n):
    ms.normalise.NORMALISATIONS["mine"] = ms.Normalisation(own_softmax, "mine")
    ms.masks.MASKS["mine"] = ms.Mask(lambda i, j: j <= i, name="mine")
    ms.geometry.GEOMETRIES["mine"] = ms.Geometry(ms.geometry.project, ms.geometry.unit, name="mine", fixed_norm=True)
    heun = ms.methods.Explicit("mine", order=2, tableau=ms.methods.Tableau(a=((), (1.0,)), b=(0.5, 0.5)))
    ms.methods.METHODS["mine"] = heun
    x = ms.initial.sphere(n, 3, seed=0)
    dyn = ms.Dynamics(beta=2.0, normalise="mine", mask="mine", geometry="mine")
    run = ms.simulate(dyn, x, t=0.2, save=2, method="mine")
    same = ms.simulate(ms.Dynamics(beta=2.0, mask="causal"), x, t=0.2, save=2, method=heun)
    assert np.abs(run.x - same.x).max() < 1e-11
    assert run.provenance["method"] == "mine"


# --- 7: sinkhorn ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("n", [16, pytest.param(40, marks=pytest.mark.slow)])
def test_7_sinkhorn_converges_or_says_so(n, seed):
    run = ms.simulate(ms.Dynamics(normalise="sinkhorn", geometry="euclidean"), ms.initial.cube(n, 2, seed=seed), t=0.0)
    P = run.attention(-1)[0]
    off = max(np.abs(P.sum(axis=0) - 1).max(), np.abs(P.sum(axis=1) - 1).max())
    assert off < 1e-12
    assert run.status == "done"


@pytest.mark.parametrize("several", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_7_attention_that_misses_its_definition_is_told(several):
    lazy = ms.Normalisation(
        lambda s, seen: own_softmax(s, seen), "lazy", error=lambda A: jnp.abs(A.sum(axis=-2) - 1).max(), masked=False
    )
    x = ms.initial.sphere(6, 3, runs=2) if several else ms.initial.sphere(6, 3)
    run = ms.simulate(ms.Dynamics(beta=3.0, normalise=lazy), x, t=0.5, method="euler", save=3)
    assert run.status == "unconverged"
    assert "lazy" in run.message
    worst = max(np.abs(run.attention(k).sum(axis=-2) - 1).max() for k in range(3))
    assert f"{worst:.1e}" in run.message


# --- 8: plateaus ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("beta", "phi"), [(24.0, np.pi / 2), pytest.param(30.0, 1.8, marks=pytest.mark.slow)])
def test_8_a_plateau_is_not_rest(beta, phi):
    x = np.repeat([[1.0, 0.0], [np.cos(phi), np.sin(phi)]], 2, axis=0)
    run = ms.simulate(ms.Dynamics(beta=beta), x, t=50.0, save=6, until="steady")
    assert run.status == "plateau"
    told = float(re.search(r"until about t = ([\d.]+e[+]\d+)", run.message)[1])
    assert told == pytest.approx(two_cluster_time(phi, 1e-3, beta), rel=0.1)
    assert "at rest" not in run.message.replace("not rest", "")


def test_8_runs_of_a_list_are_judged_each_by_itself():
    x = np.stack([np.repeat(np.eye(2), 2, axis=0), np.tile([1.0, 0.0], (4, 1))])
    dyn = ms.Dynamics(beta=24.0)
    runs = ms.simulate([dyn, dyn], x, t=50.0, save=6, until="steady")
    assert [run.status for run in runs] == ["plateau", "steady"]
    assert "at rest" in runs[1].message
    assert ms.simulate(dyn, x, t=50.0, save=6, until="steady").status == "plateau"  # one Trajectory


@pytest.mark.slow
def test_8_consensus_is_rest():
    run = ms.simulate(ms.Dynamics(beta=1.0), ms.initial.cap(6, 3, angle=0.5), t=100.0, save=101, until="steady")
    assert run.status == "steady"
    assert run.t[-1] < 60.0


# --- 9: noise -------------------------------------------------------------------------------------------------------

STILL = ms.Weights(V=np.zeros((2, 2)))


def test_9_saves_between_grid_points_have_the_law_of_brownian_motion():
    """V = 0 in the plane: x(t) - x(0) has covariance sigma^2 min(s, t), on the grid and off it."""
    dyn = ms.Dynamics(STILL, normalise="unnormalised", beta=0.0, noise=0.7, geometry="euclidean")
    times = np.array([0.25, 0.5, 1.0, 1.5, 2.0])
    run = ms.simulate(dyn, np.zeros((200, 50, 2)), t=2.0, dt=1.0, method="euler", save=times, seed=1)
    w = run.x.reshape(len(times), -1) / 0.7  # 20,000 Brownian motions
    found = w @ w.T / w.shape[1]
    want = np.minimum.outer(times, times)
    assert np.abs(found - want).max() < 5 * 2.0 * np.sqrt(2 / w.shape[1])
    np.testing.assert_allclose(np.diag(found), times, rtol=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3])
def test_9_brownian_motion_on_the_sphere_between_grid_points(d):
    """ORACLES 26: E<x(t), x(0)> = exp(-(d-1) sigma^2 t / 2)."""
    dyn = ms.Dynamics(ms.Weights(V=np.zeros((d, d))), normalise="unnormalised", beta=0.0, noise=0.6)
    x0 = np.tile(np.eye(d)[0], (300, 20, 1))
    times = np.array([0.505, 1.0, 1.4951])
    run = ms.simulate(dyn, x0, t=1.5, dt=0.01, method="euler", save=times, seed=2)
    assert np.abs(run.x[..., 0].mean(axis=(1, 2)) - np.exp(-(d - 1) * 0.18 * times)).max() < 0.02


@pytest.mark.slow
def test_9_chunks_share_no_noise(monkeypatch):
    x = ms.initial.sphere(5, 2, runs=20)
    dyn = ms.Dynamics(beta=2.0, noise=0.4)
    asked = {"t": 1.0, "save": [0.3, 0.95, 1.0], "method": "euler"}

    def last(run):
        return run.to_xarray().x

    whole = ms.observe_many(dyn, x, {"x": last}, seed=3, **asked)
    monkeypatch.setattr(observing, "_MOST_SAVED", 1)  # chunks of eight
    cut = ms.observe_many(dyn, x, {"x": last}, seed=3, **asked)
    np.testing.assert_array_equal(whole.x, cut.x)
    together = ms.simulate(dyn, x, seed=3, **asked)
    np.testing.assert_array_equal(cut.x.transpose("time", "run", ...), together.x)
    same = np.broadcast_to(x[0], x.shape)
    steps = {seed: ms.simulate(dyn, same, seed=seed, **asked).x[-1] for seed in range(12)}
    noises = np.array([steps[seed][run].ravel() for seed in steps for run in range(20)])
    assert len(np.unique(noises.round(12), axis=0)) == len(noises)  # no run of any seed repeats one of another


# --- 10: positions and masks ----------------------------------------------------------------------------------------


def test_10_rotary_tables_of_the_wrong_length():
    x = ms.initial.sphere(5, 4)
    with pytest.raises(ms.InputError, match="3 frequencies"):
        ms.simulate(ms.Dynamics(position=Rotary([1.0, 0.5, 0.2])), x, t=0.1)
    with pytest.raises(ms.InputError, match="1 frequencies|one frequency|frequencies"):
        ms.simulate(ms.Dynamics(position=Rotary([1.0])), x, t=0.1)
    with pytest.raises(ms.InputError, match="even"):
        rotary(3)
    assert ms.simulate(ms.Dynamics(position=Rotary([1.0, 0.1])), x, t=0.1, method="euler", save=2).status == "done"


def test_10_positions_by_name():
    x = ms.initial.sphere(5, 4)
    named = ms.simulate(ms.Dynamics(position="alibi"), x, t=0.5, method="euler", save=2)
    given = ms.simulate(ms.Dynamics(position=Alibi()), x, t=0.5, method="euler", save=2)
    assert np.array_equal(named.x, given.x)
    assert np.abs(named.x - ms.simulate(ms.Dynamics(), x, t=0.5, method="euler", save=2).x).max() > 1e-5
    weights = ms.Weights(Q=np.eye(4), K=np.eye(4))
    named = ms.simulate(ms.Dynamics(weights, position="rotary"), x, t=0.5, method="euler", save=2)
    given = ms.simulate(ms.Dynamics(weights, position=rotary(4)), x, t=0.5, method="euler", save=2)
    assert np.array_equal(named.x, given.x)
    with pytest.raises(ms.InputError, match="did you mean 'alibi'"):
        ms.Dynamics(position="alibbi")
    with pytest.raises(ms.InputError, match="position"):
        ms.Dynamics(position=3.0)
    with pytest.raises(ms.InputError, match="not the class Alibi"):
        ms.Dynamics(position=Alibi)  # the class instead of an object


def test_10_masks_given_as_arrays():
    x = ms.initial.sphere(5, 3)
    for entries in (np.tri(5), np.tri(5, dtype=bool), np.tri(5).tolist(), jnp.asarray(np.tri(5))):
        run = ms.simulate(ms.Dynamics(mask=entries), x, t=0.5, method="euler", save=2)
        assert np.abs(run.x - ms.simulate(ms.Dynamics(mask="causal"), x, t=0.5, method="euler", save=2).x).max() < 1e-13
    for entries, word in (
        (np.ones((5, 4)), r"\(n, n\)"),
        (np.full((5, 5), 0.5), "True and False"),
        (np.ones(5), "n, n"),
        ([[1, 0], [1]], "rows have different lengths"),
    ):
        with pytest.raises(ms.InputError, match=word):
            ms.Dynamics(mask=entries)
    with pytest.raises(ms.InputError, match="4 tokens"):
        ms.simulate(ms.Dynamics(mask=np.tri(4)), x, t=0.5)


# --- 11: records ----------------------------------------------------------------------------------------------------


def test_11_records_with_parts_of_ones_own(tmp_path):
    dyn = ms.Dynamics(mask=lambda i, j: (i - j) % 2 == 0)
    run = ms.simulate(dyn, ms.initial.sphere(5, 3), t=1.0, save=3, seed=4)
    with pytest.warns(UserWarning, match=r"dynamics="):
        run.save(tmp_path / "run")
    again = ms.load(tmp_path / "run")
    with pytest.raises(ms.InputError, match="mask") as refusal:
        again.attention(-1)
    assert "measured in a model" not in str(refusal.value)
    whole = ms.load(tmp_path / "run", dynamics=dyn)
    np.testing.assert_array_equal(whole.attention(-1), run.attention(-1))
    assert np.array_equal(ms.load(tmp_path / "run", partial=True).x, run.x)
    data = run.to_xarray()
    assert (data.attrs["method"], data.attrs["seed"], data.attrs["status"]) == ("rk4", 4, "done")
    assert "valid_until" not in data.attrs
    certified = ms.simulate(ms.Dynamics(), ms.initial.sphere(5, 3), t=1.0, save=3, trust=True)
    assert certified.to_xarray().attrs["valid_until"] == 1.0


# --- 12: Ctrl-C inside a kernel -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["exact", "spectral", "auto"])
def test_12_an_interrupt_inside_a_kernel_leaves_a_record(tmp_path, engine):
    words = ["simulate", "--n", "3000", "--beta", "9", "--mask", "full", "--save", "200", "--no-pictures"]
    words += ["--engine", engine, "--out", str(tmp_path / "run")]
    start = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from metastable.cli import main; raise SystemExit(main(sys.argv[1:]))"
    )

    def begin(t):
        command = [sys.executable, "-c", start, *words, "--t", t]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)

    def interrupted(before):
        """Interrupted once a checkpoint has landed that was not there before; the next one is seconds away."""
        job, mark = begin("4000"), tmp_path / "run" / "state.npz"
        deadline = time.monotonic() + 400
        while (not mark.exists() or mark.stat().st_mtime_ns == before) and job.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=120)
        assert job.returncode == 130, err[-2000:]
        assert "Traceback" not in err + out
        return ms.load(tmp_path / "run", partial=True), mark.stat().st_mtime_ns

    part, landed = interrupted(None)
    assert 0 < len(part.t) < 200
    later, _ = interrupted(landed)
    assert len(later.t) > len(part.t)
    assert np.array_equal(later.x[: len(part.t)], part.x)


@pytest.mark.parametrize("engine", ["exact", "spectral"])
def test_12_an_interrupt_in_a_callback_is_an_interrupt(monkeypatch, engine):
    from metastable.engines.exact import host_engines as callbacks

    x = ms.initial.sphere(40, 3)

    def pressed(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(callbacks, "attend", pressed)
    with pytest.raises(KeyboardInterrupt):
        ms.simulate(ms.Dynamics(), x, t=1.0, save=3, engine=engine)
    monkeypatch.undo()
    run = ms.simulate(ms.Dynamics(), x, t=1.0, save=3, engine=engine)  # and nothing of it is left
    assert run.status == "done"
    assert np.abs(run.x - ms.simulate(ms.Dynamics(), x, t=1.0, save=3, engine="dense").x).max() < 1e-12


# --- 13: long after the merger --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tsit5", pytest.param("dopri8", marks=pytest.mark.slow)])
def test_13_long_after_the_last_merger_nothing_is_wrong(method):
    x = ms.initial.cap(6, 3, angle=0.5)
    run, told = quietly(ms.Dynamics(beta=1.0), x, t=1e9, save=[1.0, 100.0, 1e5, 1e9], method=method)
    assert run.status == "done"
    assert run.t.tolist() == [1.0, 100.0, 1e5, 1e9]
    assert not told
    assert "Raise rtol" not in run.message
    assert np.abs(run.x[-1] - run.x[-1][0]).max() < 1e-8
    assert np.abs(run.x[-1] - run.x[1]).max() < 1e-7


def test_13_a_stalled_run_is_told_what_helps():
    dyn = ms.Dynamics(normalise="unnormalised", geometry="euclidean")
    run = ms.simulate(dyn, [[1.0]], t=5.0, save=51, method="tsit5")
    assert run.status in ("stalled", "diverged")
    assert "Raise rtol" not in run.message


# --- trust (section 2c) ---------------------------------------------------------------------------------------------


def test_trust_is_never_infinite_and_none_unless_measured():
    x = ms.initial.sphere(5, 3)
    assert ms.simulate(ms.Dynamics(), x, t=1.0, save=3).valid_until is None
    assert ms.simulate(ms.Dynamics(), x, t=1.0, save=3, trust=True).valid_until == 1.0
    assert ms.simulate(ms.Dynamics(geometry="rescaled"), x, t=1.0, save=[0.5, 0.9]).valid_until == 0.9


@pytest.mark.parametrize("method", ["rk4", pytest.param("tsit5", marks=pytest.mark.slow)])
def test_trust_finds_out_a_symmetric_start_that_rounding_breaks(method):
    """Four tokens at the corners of a square: an unstable equilibrium, left when rounding has grown."""
    angle = 0.3 + np.pi / 2 * np.arange(4)
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    dyn = ms.Dynamics(beta=1.0)
    with pytest.warns(RuntimeWarning, match="Rounding"):
        run = ms.simulate(dyn, x, t=200.0, save=201, trust=True, method=method)
    assert run.valid_until < 200.0
    if method == "rk4":
        assert 5.0 < run.valid_until < 150.0
        good = run.t <= run.valid_until
        assert np.abs(run.x[good] - x).max() < 1e-5  # the equilibrium itself is the truth


@pytest.mark.slow
@pytest.mark.parametrize(("method", "t"), [("rk4", 2000.0), ("tsit5", 5000.0)])
def test_trust_finds_out_copies_that_part_and_meet_again(method, t):
    """Opposite tokens on a circle meet on one of two sides; a rounding decides, for a run and its copy apart."""
    angle = np.random.default_rng(3).uniform(0.0, 2.0 * np.pi, 8)
    turned = angle[:, None] + np.array([0.0, np.pi])
    x = np.stack([np.cos(turned), np.sin(turned)], axis=-1)  # (8, 2, 2)
    with pytest.warns(RuntimeWarning, match="of 8 of 8 runs"):
        runs = ms.simulate([ms.Dynamics()] * 8, x, t=t, method=method, save=2, trust=True)
    assert [run.valid_until for run in runs] == [0.0] * 8


@pytest.mark.slow
@pytest.mark.parametrize(("normalise", "mask"), [("hardmax", "full"), ("softmax", "window(0)")])
def test_2_contracting_directions_that_underflow_are_not_certified(normalise, mask):
    """Every token attends to itself, so z stays where it is; e^{tV} z is 0 for floats, and z was taken for 0 too."""
    x = np.array([[0.6, 0.8], [-0.8, 0.1], [0.3, -0.9]])
    dyn = ms.Dynamics(ms.Weights(V=-8.0 * np.eye(2)), normalise=normalise, mask=mask, geometry="rescaled")
    run, told = quietly(dyn, x, t=125.0, save=[0.0, 37.5, 125.0])
    assert np.abs(run.x[1] - x).max() < 1e-9
    assert run.valid_until == 37.5
    assert told or "left the range of floats" in run.message  # hardmax: e^{-tV} is inf in JAX
