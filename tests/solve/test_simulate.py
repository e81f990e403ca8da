"""Orders, saving, stopping, resuming, noise, and bad input of `simulate`."""

import warnings

import jax
import numpy as np
import pytest

import metastable as ms
from metastable.solve import stepping
from metastable.solve.driver import drive
from metastable.solve.plan import make_plan

X = ms.initial.sphere(8, 3, seed=0)
DYN = ms.Dynamics(
    ms.Weights(Q=np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.2]]), K=np.ones((2, 3)), V=np.diag([1.0, 0.6, -0.4])), beta=2.0
)


@pytest.mark.parametrize(("method", "order"), [pytest.param("euler", 1, marks=pytest.mark.slow), ("rk4", 4)])
@pytest.mark.parametrize(
    "geometry", ["sphere", *(pytest.param(name, marks=pytest.mark.slow) for name in ("euclidean", "rescaled"))]
)
def test_orders_of_the_fixed_methods(method, order, geometry):
    dyn = ms.Dynamics(DYN.weights, beta=0.8, geometry=geometry)
    exact = ms.simulate(dyn, X, t=1.0, save=[1.0], method="tsit5", rtol=1e-12).x
    errors = [
        np.abs(ms.simulate(dyn, X, t=1.0, dt=dt, save=[1.0], method=method).x - exact).max()
        for dt in (0.1, 0.05, 0.025)
    ]
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.abs(slopes - order).max() < 0.35


@pytest.mark.parametrize("geometry", ["sphere", "rescaled"])
@pytest.mark.parametrize("method", ["rk4", "euler", pytest.param("tsit5", marks=pytest.mark.slow)])
def test_saving_more_changes_nothing(method, geometry):
    dyn = ms.Dynamics(ms.Weights(), beta=1.0, geometry=geometry)
    few = ms.simulate(dyn, X, t=2.0, save=[0.7, 2.0], method=method)
    many = ms.simulate(dyn, X, t=2.0, save=np.sort(np.r_[np.linspace(0, 2, 33), 0.7]), method=method)
    at = np.flatnonzero(np.isin(many.t, few.t))
    assert np.array_equal(few.x, many.x[at])


@pytest.mark.slow
def test_times_between_steps_keep_the_order():
    exact = ms.simulate(DYN, X, t=1.0, save=[0.33, 0.97], method="dopri8", rtol=1e-12).x
    errors = [np.abs(ms.simulate(DYN, X, t=1.0, dt=dt, save=[0.33, 0.97]).x - exact).max() for dt in (0.1, 0.05)]
    assert errors[0] / errors[1] > 2**3.3


@pytest.mark.slow
def test_a_horizon_that_is_not_a_multiple_of_the_step():
    exact = ms.simulate(DYN, X, t=1.03, save=[1.03], method="dopri8", rtol=1e-12).x
    assert np.abs(ms.simulate(DYN, X, t=1.03, dt=0.02, save=[1.03]).x - exact).max() < 1e-7


def test_tokens_stay_on_the_sphere_at_every_saved_time():
    for method in ("euler", "rk4", "tsit5", "dopri8", "layers"):
        run = ms.simulate(DYN, X, t=3.0, save=[0.0, 1.0, 2.0, 3.0], method=method, rtol=1e-4)
        assert np.abs(np.linalg.norm(run.x, axis=-1) - 1).max() < 1e-15 * 4


@pytest.mark.slow
def test_stop_at_rest_at_a_count_or_when_told():
    dyn = ms.Dynamics(ms.Weights(), beta=1.0)
    rest = ms.simulate(dyn, X, t=200.0, save=401, until="steady")
    assert rest.status == "steady"
    assert rest.t[-1] < 100
    assert np.abs(np.asarray(dyn.velocity(0.0, rest.x[-1]))).max() < 1e-8
    one = ms.simulate(dyn, X, t=200.0, save=401, until=1)
    assert one.status == "stopped"
    assert int(one.observe("clusters")[-1]) == 1
    assert int(one.observe("clusters")[-2]) > 1
    told = ms.simulate(dyn, X, t=200.0, save=401, until=lambda t, x: t >= 3.0, method="tsit5")
    assert told.t[-1] == 3.0


@pytest.mark.slow
def test_a_rescaled_run_that_takes_too_many_steps_returns_what_it_has(monkeypatch, request):
    jax.clear_caches()  # compiled steps hold the number
    request.addfinalizer(jax.clear_caches)
    monkeypatch.setattr(stepping, "MOST_STEPS", 20)
    dyn = ms.Dynamics(ms.Weights(V=np.diag([0.7, -0.4])), beta=3.0, geometry="rescaled")
    run = ms.simulate(dyn, ms.initial.cube(5, 2, seed=3), t=30.0, method="tsit5", rtol=1e-10, save=7)
    assert run.status == "stalled"
    assert 1 <= len(run.t) < 7
    assert "steps in one segment" in run.message


@pytest.mark.slow
def test_an_adaptive_run_that_cannot_go_on_returns_what_it_has():
    """x' = e^{x^2} x blows up in finite time."""
    dyn = ms.Dynamics(ms.Weights(), normalise="unnormalised", geometry="euclidean")
    run = ms.simulate(dyn, [[1.0]], t=5.0, save=51, method="tsit5")
    assert run.status in ("stalled", "diverged")
    assert 1 <= len(run.t) < 51
    assert np.isfinite(run.x).all()
    assert "t = " in run.message
    fixed = ms.simulate(dyn, [[1.0]], t=5.0, save=51, method="rk4")
    assert fixed.status == "diverged"
    assert np.isfinite(fixed.x).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "geometry"), [("rk4", "sphere"), ("tsit5", "sphere"), ("rk4", "rescaled"), ("tsit5", "rescaled")]
)
def test_a_run_taken_up_again_gives_the_same_digits(method, geometry):
    dyn = ms.Dynamics(ms.Weights(), geometry=geometry)
    plan, x = make_plan(dyn, X, t=3.0, save=49, method=method)
    parts = list(drive(plan, x))
    assert len(parts) > 3
    middle = len(parts) // 2
    again = list(drive(plan, x, checkpoint=parts[middle].state))
    whole = np.concatenate([p.x for p in parts])
    assert np.array_equal(np.concatenate([p.x for p in parts[: middle + 1]] + [p.x for p in again]), whole)
    assert np.array_equal(ms.simulate(dyn, X, t=3.0, save=49, method=method).x, whole[:, 0])


@pytest.mark.slow
def test_noise_is_seeded_and_spreads_at_the_right_rate():
    """Brownian motion on S^{d-1}: E<x(t), x(0)> = exp(-sigma^2 (d-1) t / 2); R^d: variance sigma^2 t."""
    w = ms.Weights(V=np.zeros((3, 3)))
    x0 = np.tile([1.0, 0.0, 0.0], (500, 8, 1))
    dyn = ms.Dynamics(w, normalise="unnormalised", beta=0.0, noise=0.5)
    run = ms.simulate(dyn, x0, t=1.0, dt=0.01, save=[0.0, 0.5, 1.0], method="euler", seed=3)
    assert np.abs(run.x[..., 0].mean(axis=(1, 2)) - np.exp(-0.25 * run.t)).max() < 0.015
    again = ms.simulate(dyn, x0, t=1.0, dt=0.01, save=[0.0, 0.5, 1.0], method="euler", seed=3)
    other = ms.simulate(dyn, x0, t=1.0, dt=0.01, save=[0.0, 0.5, 1.0], method="euler", seed=4)
    assert np.array_equal(run.x, again.x)
    assert not np.array_equal(run.x, other.x)
    flat = ms.Dynamics(w, normalise="unnormalised", beta=0.0, noise=0.5, geometry="euclidean")
    run = ms.simulate(flat, x0, t=1.0, dt=0.01, save=[1.0], method="euler")
    assert np.abs(run.x[0].var(axis=(0, 1)) - 0.25).max() < 0.03


@pytest.mark.parametrize("noise", [[0.0, 0.3], [0.3, 0.0]])
def test_noise_of_any_run_of_an_ensemble_needs_a_method_that_takes_it(noise):
    """Only the run of the least beta and noise was looked at; the others went on with Runge-Kutta and noise."""
    with pytest.raises(ms.InputError, match="euler"):
        ms.simulate(ms.Dynamics(noise=np.array(noise)), np.stack([X, X]), t=0.2, method="rk4")


def test_degenerate_sizes():
    for n, d in ((1, 1), (1, 3), (2, 1)):
        run = ms.simulate(ms.Dynamics(), np.ones((n, d)) / np.sqrt(d), t=1.0, save=2)
        assert np.abs(run.x[-1] - run.x[0]).max() < 1e-15  # one place, nobody moves
    run = ms.simulate(ms.Dynamics(), X, t=0.0)
    assert run.t.tolist() == [0.0]
    assert np.array_equal(run.x[0], X)
    assert ms.simulate(ms.Dynamics(), X, t=0.0, method="tsit5").x.shape == (1, 8, 3)
    assert ms.simulate(ms.Dynamics(), X, t=2.0, save=1).t.tolist() == [2.0]


def test_provenance_says_how_it_was_made():
    made = ms.simulate(DYN, X, t=1.0, save=2, seed=5).provenance
    for name in ("method", "dt", "t", "seed", "dtype", "seconds", "metastable", "jax", "numpy", "python", "machine"):
        assert name in made
    assert made["seed"] == 5


def test_tokens_off_the_sphere_are_projected_and_said_so():
    with pytest.warns(UserWarning, match="projected"):
        run = ms.simulate(ms.Dynamics(), 3.0 * X, t=1.0, save=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same = ms.simulate(ms.Dynamics(), X * (1 + 1e-9), t=1.0, save=2)
    assert np.abs(run.x - same.x).max() < 1e-12


BAD = [
    ({"t": -1.0}, "t must"),
    ({"t": float("nan")}, "t must"),
    ({"t": "long"}, "t must"),
    ({"dt": 0.0}, "dt must"),
    ({"dt": -0.1}, "dt must"),
    ({"t": 1e12}, "steps"),
    ({"method": "rk5"}, "did you mean 'rk4'"),
    ({"save": 0}, "save"),
    ({"save": [0.0, 16.0]}, "[0, t]"),
    ({"save": [-1.0]}, "[0, t]"),
    ({"save": [2.0, 1.0]}, "increase"),
    ({"save": []}, "save"),
    ({"save": "all"}, "save"),
    ({"save": [0.5], "method": "layers"}, "whole layers"),
    ({"rtol": 0.0}, "rtol"),
    ({"seed": -1}, "seed"),
    ({"seed": 1.5}, "seed"),
    ({"dtype": "float16"}, "dtype"),
    ({"until": "stead"}, "until"),
    ({"x0": np.zeros((0, 3))}, "shape"),
    ({"x0": np.zeros(3)}, "shape"),
    ({"x0": np.full((2, 3), np.inf)}, "inf"),
    ({"x0": [["a", "b"]]}, "real array"),
    ({"x0": np.eye(4)}, "dimension"),
    ({"x0": np.zeros((2, 3))}, "direction"),
    ({"dynamics": "sphere"}, "Dynamics"),
]


@pytest.mark.parametrize(("change", "word"), BAD, ids=[w + str(i) for i, (_, w) in enumerate(BAD)])
def test_bad_input_gets_one_sentence(change, word):
    with pytest.raises(ms.InputError) as refusal:
        ms.simulate(**{"dynamics": DYN, "x0": X, **change})
    assert word in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_parts_that_do_not_fit_the_tokens():
    from metastable.equation import blocks, positions

    wrong = [
        ms.Dynamics(position=positions.Bias(np.zeros((5, 5)))),
        ms.Dynamics(beta=np.ones(4)),
        ms.Dynamics(geometry="euclidean", block=ms.Block(blocks.MLP(np.ones((2, 4)), np.ones((4, 2))))),
        ms.Dynamics(noise=0.1),
        ms.Dynamics(geometry="euclidean", block=ms.Block(attention_norm=blocks.LayerNorm())),
    ]
    for dyn in wrong:
        with pytest.raises(ms.InputError) as refusal:
            ms.simulate(dyn, X, t=1.0)
        assert "\n" not in str(refusal.value)
