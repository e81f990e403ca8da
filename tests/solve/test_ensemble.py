"""A run in an ensemble and the same run alone agree to 1e-12."""

import numpy as np
import pytest

import metastable as ms

SLOW = [pytest.param(geometry, "tsit5", marks=pytest.mark.slow) for geometry in ("sphere", "rescaled")]


@pytest.mark.parametrize(("geometry", "method"), [("sphere", "rk4"), ("rescaled", "rk4"), *SLOW])
def test_members_equal_runs_alone(method, geometry, monkeypatch):
    from metastable.engines import dense

    monkeypatch.setattr(dense, "_MOST_ENTRIES", 2 * 36)  # chunks of two or four members
    members = [
        ms.Dynamics(ms.Weights(V=ms.weights.perron(3, seed)), beta=0.5 + seed, geometry=geometry, mask="causal")
        for seed in range(5)
    ]
    x0 = ms.initial.sphere(6, 3, seed=1, runs=5)
    runs = ms.simulate(members, x0, t=3.0, save=[0.0, 1.0, 2.95, 3.0], method=method, rtol=1e-9)
    for k, run in enumerate(runs):
        alone = ms.simulate(members[k], x0[k], t=3.0, save=[0.0, 1.0, 2.95, 3.0], method=method, rtol=1e-9)
        # adaptive rescaled members share the lengths of their segments, so they agree to the tolerance only
        tolerance = 1e-12 if method == "rk4" or geometry == "sphere" else 1e-7
        assert np.abs(run.x - alone.x).max() < tolerance * max(1.0, np.abs(alone.x).max())
        assert np.abs(run.attention(-1) - alone.attention(-1)).max() < max(1e-10, 10 * tolerance)
        assert run.dynamics is members[k]


def test_mixed_structures_are_refused():
    with pytest.raises(ms.InputError, match="same parts"):
        ms.simulate([ms.Dynamics(), ms.Dynamics(mask="causal")], ms.initial.sphere(4, 3, runs=2))
    with pytest.raises(ms.InputError, match="need tokens"):
        ms.simulate([ms.Dynamics()], ms.initial.sphere(4, 3))


# --- observe_many: every run for itself -------------------------------------------------------------------------------

BLOWS_UP = ms.Dynamics(normalise="unnormalised", geometry="euclidean")  # x' = e^{x^2} x of one token


@pytest.mark.parametrize("given", ["one", "betas", "list"])
def test_a_run_that_ends_early_leaves_the_others_alone(given):
    x = np.array([[[0.01]], [[1.0]], [[0.02]], [[1.2]]])
    beta = np.array([1.0, 1.0, 1.1, 1.0]) if given == "betas" else 1.0
    dyn = ms.Dynamics(normalise="unnormalised", geometry="euclidean", beta=beta)
    asked = {"t": 1.0, "dt": 0.05, "method": "euler", "save": [0.0, 0.1, 0.5, 1.0]}
    data = ms.observe_many([BLOWS_UP] * 4 if given == "list" else dyn, x, ["order", "hull", "cluster_sizes"], **asked)
    assert data.status.values.tolist() == ["done", "diverged", "done", "diverged"]
    assert data.order.dims == ("time", "run")
    assert data.cluster_sizes.dims == ("time", "run", "cluster")
    for k in range(4):
        own = ms.Dynamics(normalise="unnormalised", geometry="euclidean", beta=float(np.broadcast_to(beta, 4)[k]))
        run = ms.simulate(own, x[k], **asked)
        assert run.status == data.status.values[k]
        np.testing.assert_array_equal(data.order[: len(run), k], np.abs(run.x[:, 0, 0]))
        assert np.isnan(data.order[len(run) :, k]).all()
        assert len(run) == (4 if run.status == "done" else int(np.isfinite(data.order[:, k]).sum()))


def test_a_run_of_which_nothing_is_saved_is_nan():
    x = np.array([[[1.5]], [[0.01]]])
    asked = {"t": 1.0, "dt": 0.05, "method": "euler", "save": [1.0]}
    data = ms.observe_many(BLOWS_UP, x, "order", **asked)
    assert data.status.values.tolist() == ["diverged", "done"]
    assert np.isnan(data.order.values).tolist() == [[True, False]]
    data = ms.observe_many(BLOWS_UP, x[:1], ["order", "sinks"], **asked)
    assert data.status.values.tolist() == ["diverged"]
    assert np.isnan(data.order.values).all()
    assert np.isnan(data.sinks.values).all()


def test_certificates_are_those_of_each_run():
    """Three equal tokens on a circle of opposite pairs part by rounding; a cloud in a cap does not."""
    angles = 2 * np.pi * np.arange(4) / 4
    square = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    x = np.stack([ms.initial.cap(4, 2, seed=1), square, ms.initial.cap(4, 2, seed=2)])
    asked = {"t": 60.0, "save": 7, "trust": True}
    with pytest.warns(RuntimeWarning, match="1 of 3 runs"):
        data = ms.observe_many(ms.Dynamics(), x, "order", **asked)
    with pytest.warns(RuntimeWarning, match="Rounding"):
        alone = ms.simulate(ms.Dynamics(), square, **asked)
    assert data.valid_until.values.tolist() == [60.0, alone.valid_until, 60.0]
    assert alone.valid_until < 60.0


def test_chunks_decide_nothing(monkeypatch):
    from metastable.solve import observe

    x = np.repeat([[[0.01]], [[1.0]], [[0.02]]], 4, axis=0)
    asked = {"t": 1.0, "dt": 0.05, "method": "euler", "save": 6}
    whole = ms.observe_many(BLOWS_UP, x, ["order", "clusters"], **asked)
    monkeypatch.setattr(observe, "_MOST_SAVED", 1)
    monkeypatch.setattr(observe, "_MOST_OF_FEW", 5 * 6)
    done = []
    cut = ms.observe_many(BLOWS_UP, x, ["order", "clusters"], **asked, progress=done.append)
    assert done == [5, 10, 12]
    assert whole.identical(cut)


UNTIL = {"clusters": 1, "steady": "steady", "function": lambda t, x: not np.isfinite(x).all()}


@pytest.mark.parametrize("rule", UNTIL)
def test_a_run_that_ended_keeps_its_status_and_holds_up_no_stop(rule):
    """One pair leaves the range of floats, the other stays at 0, an unstable place: it is stopped where it is alone."""
    x = np.array([[[1.2], [-1.2]], [[0.0], [0.0]]])
    asked = {"t": 2.0, "dt": 0.05, "method": "euler", "save": 81}  # several saves in a segment
    runs = ms.simulate([BLOWS_UP, BLOWS_UP], x, until=UNTIL[rule], **asked)
    assert [run.status for run in runs] == ["diverged", "plateau" if rule == "steady" else "stopped"]
    assert np.isfinite(runs[0].x).all()
    assert len(runs[1]) == len(runs[0]) + 1 < 81
    assert (runs[1].x == 0.0).all()


def test_an_adaptive_method_takes_no_steps_for_a_run_that_ended():
    """Tokens that are nan took 100,000 steps in each segment, and every other run with them."""
    from metastable.engines import ENGINES
    from metastable.engines.interface import Stops
    from metastable.solve.driver import _Course
    from metastable.solve.plan import make_plan
    from metastable.solve.segments import Fate

    plan, x = make_plan(ms.Dynamics(), ms.initial.sphere(3, 2, runs=2), t=1.0, method="tsit5")
    course = _Course.begin(plan, ENGINES["dense"], x)
    course.note({1: Fate(0, "stalled", "")})
    stops = Stops(np.ones(1), 1.0, np.zeros(1, np.int64), np.ones(1), np.ones(1, bool))
    state, saved = ENGINES["dense"].advance(plan, course.state, stops)
    assert not saved.exhausted.any()
    assert saved.reached.tolist() == [1.0, 0.0]
    assert np.isfinite(state["x"]).all(axis=(1, 2)).tolist() == [True, False]


@pytest.mark.parametrize("seed", [3, [3, 4, 5, 6]])
def test_observables_that_make_runs_again_do_so_with_their_noise(seed):
    """Runs that outlive others keep their own seeds or numbers, by which `at` draws the noise between saves."""
    x = np.array([[[0.1]], [[1e308]], [[0.2]], [[0.3]]])
    asked = {"t": 1.0, "method": "euler", "save": [0.0, 0.2, 1.0], "seed": seed}
    dyn = ms.Dynamics(geometry="euclidean", noise=0.2)

    def between(run):
        return np.broadcast_to(run.at(0.35).x[0, ..., 0, 0] if run.t[-1] == 1.0 else np.nan, (len(run), *run.runs))

    data = ms.observe_many(dyn, x, between, **asked)
    alone = ms.simulate([dyn] * 4, x, **{**asked, "save": [0.0, 0.2, 0.35, 1.0]})
    assert data.status.values.tolist() == ["done", "diverged", "done", "done"]
    for k in (0, 2, 3):
        np.testing.assert_allclose(data.between[0, k], alone[k].x[2, 0, 0], rtol=1e-14)
