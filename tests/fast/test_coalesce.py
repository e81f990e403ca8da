"""Coalesced runs against runs that merge nothing, and against the integrator of the package."""

import numpy as np
import pytest

import metastable as ms
from metastable.errors import InputError
from metastable.fast import coalesce
from metastable.fast.coalesce import tolerance_for

V = np.diag([1.0, 0.6, 0.3])


def test_without_mergers_it_is_the_rk4_of_the_package():
    x0 = ms.initial.sphere(50, 3, seed=0)
    dyn = ms.Dynamics(ms.Weights(V=V), beta=3.0)
    times = [0.0, 0.35, 1.0, 2.0]
    plain = ms.simulate(dyn, x0, t=2.0, save=times)
    assert np.abs(coalesce(dyn, x0, 2.0, save=times, tolerance=0.0).x - plain.x).max() < 1e-13


@pytest.mark.parametrize(
    ("d", "parts"),
    [
        (3, {"beta": 9.0}),
        (2, {"beta": 1.0, "normalise": "unnormalised"}),
        (3, {"weights": ms.Weights(V=V), "beta": 2.0}),
        (5, {"beta": 2.0}),
    ],
)
def test_error_stays_below_the_asked_accuracy_at_all_times(d, parts):
    dyn, x0 = ms.Dynamics(**parts), ms.initial.sphere(80, d, seed=2)
    whole = coalesce(dyn, x0, 25.0, save=26, tolerance=0.0)
    for accuracy in (1e-6, 1e-10):
        run = coalesce(dyn, x0, 25.0, save=26, accuracy=accuracy)
        assert run.counts[-1] < 20 < run.counts[0] == 80
        assert np.abs(run.x - whole.x).max() < accuracy


def test_the_error_falls_with_the_square_of_the_tolerance():
    dyn, x0 = ms.Dynamics(beta=9.0), ms.initial.sphere(60, 3, seed=5)
    whole = coalesce(dyn, x0, 20.0, save=21, tolerance=0.0).x
    off = [np.abs(coalesce(dyn, x0, 20.0, save=21, tolerance=t).x - whole).max() for t in (1e-2, 1e-3, 1e-4)]
    assert off[0] < 0.1
    assert off[1] < 5e-2 * off[0]
    assert off[2] < 5e-2 * off[1]


def test_labels_tell_who_has_merged():
    run = coalesce(ms.Dynamics(beta=9.0), ms.initial.sphere(60, 3, seed=0), 30.0, save=7)
    last = run.labels[-1]
    assert run.counts.tolist() == [label.max() + 1 for label in run.labels]
    assert np.all(np.diff(run.counts) <= 0)
    assert np.bincount(last).tolist() == run.weights.tolist()
    for c, centre in enumerate(run.centres):
        assert np.abs(run.x[-1][last == c] - centre).max() < 2 * run.tolerance
    assert np.abs(np.linalg.norm(run.x, axis=-1) - 1).max() < 1e-15 * 4


def test_tokens_that_start_together_merge_at_once():
    x0 = np.repeat(ms.initial.sphere(4, 3, seed=1), 10, axis=0)
    run = coalesce(ms.Dynamics(beta=2.0), x0, 1.0, save=2)
    assert run.counts.tolist() == [40, 4]
    assert np.abs(run.x - coalesce(ms.Dynamics(beta=2.0), x0, 1.0, save=2, tolerance=0.0).x).max() < 1e-13


def test_the_tolerance_follows_from_accuracy_and_beta():
    assert tolerance_for(1e-10, 9.0) < tolerance_for(1e-10, 1.0) < tolerance_for(1e-6, 1.0) <= 1e-2


@pytest.mark.parametrize(
    "parts",
    [{"mask": "causal"}, {"geometry": "euclidean"}, {"normalise": "hardmax"}, {"noise": 0.1}, {"beta": np.ones(2)}],
)
def test_what_may_not_be_merged_is_refused(parts):
    with pytest.raises(InputError, match="Coalescence needs"):
        coalesce(ms.Dynamics(**parts), np.eye(3))


def test_bad_numbers_are_refused():
    for change in ({"dt": 0.0}, {"accuracy": -1.0}, {"tolerance": -1.0}, {"t": -1.0}):
        with pytest.raises(InputError, match="must be"):
            coalesce(ms.Dynamics(), np.eye(3), **change)


@pytest.mark.slow
def test_the_long_run_of_the_benchmark():
    dyn, x0 = ms.Dynamics(beta=9.0), ms.initial.sphere(3000, 3, seed=0)
    whole = coalesce(dyn, x0, 60.0, save=13, tolerance=0.0, summation="exact")
    run = coalesce(dyn, x0, 60.0, save=13, tolerance=1e-6, summation="exact")
    assert np.abs(run.x - whole.x).max() < 1e-10
