"""Coalesced runs against runs that merge nothing, and against the integrator of the package."""

import numpy as np
import pytest

import metastable as ms
from metastable.errors import InputError
from metastable.reduced import coalesce, weighted
from metastable.reduced.coalesce import tolerance_for
from metastable.reduced.mergers import _cells, _frames, _left_apart

V = np.diag([1.0, 0.6, 0.3])


@pytest.mark.slow
def test_without_mergers_it_is_the_rk4_of_the_package():
    x0 = ms.initial.sphere(50, 3, seed=0)
    dyn = ms.Dynamics(ms.Weights(V=V), beta=3.0)
    times = [0.0, 0.35, 1.0, 2.0]
    plain = ms.simulate(dyn, x0, t=2.0, save=times)
    assert np.abs(coalesce(dyn, x0, 2.0, save=times, tolerance=0.0).x - plain.x).max() < 1e-13


@pytest.mark.parametrize(
    ("d", "parts"),
    [
        pytest.param(3, {"beta": 9.0}, marks=pytest.mark.slow),
        pytest.param(2, {"beta": 1.0, "normalise": "unnormalised"}, marks=pytest.mark.slow),
        pytest.param(3, {"weights": ms.Weights(V=V), "beta": 2.0}, marks=pytest.mark.slow),
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


@pytest.mark.parametrize(
    ("d", "parts"),
    [
        (2, {"beta": 300.0}),
        (3, {"beta": 1.0, "normalise": "unnormalised"}),
        pytest.param(
            3,
            {"weights": ms.Weights(Q=2.0 * np.eye(3)[[1, 2, 0]], V=np.stack([V, -V])), "beta": 2.0},
            marks=pytest.mark.slow,
        ),
        (5, {"beta": 2.0}),
    ],
)
def test_every_way_to_sum_gives_the_same_step(d, parts, monkeypatch):
    """Loops for a few tokens, one thread for more, `attend` for many; onlookers behind the tokens."""
    dyn, x = ms.Dynamics(**parts), ms.initial.sphere(60, d, seed=1)
    w = np.random.default_rng(0).uniform(0.5, 3.0, 40)
    steps = weighted.runge_kutta(dyn, d, weighted.velocity(dyn, d))
    found = [steps(x, w, 0.05, 2)]
    for few in ("_FEWEST_PAIRS", "_FEW_PAIRS"):
        monkeypatch.setattr(weighted, few, 0)
        monkeypatch.setattr(weighted, "_FEW_WIDE_PAIRS", 0 if few == "_FEW_PAIRS" else 20_000)
        found.append(steps(x, w, 0.05, 2))
    assert np.abs(found[0] - found[1]).max() < 1e-13
    assert np.abs(found[0] - found[2]).max() < 1e-13


def test_cells_are_numbered_as_they_appear(rng):
    X, start = rng.normal(size=(500, 3)), np.array([0.1, 0.7, 0.3])
    number, first = np.empty(500, int), np.empty(500, int)
    count = _cells(X, 0.8, start, number, first)
    corner = np.floor(X / 0.8 + start)
    assert count == len(np.unique(corner, axis=0)) < 400
    assert np.array_equal(corner[first[:count]][number], corner)
    assert np.all(np.diff(first[:count]) > 0)
    apart = np.bincount(number) <= 3
    meant = apart[number]
    left = _left_apart(number, first, count, apart)
    members = np.bincount(number)
    assert len(members) == left > count
    assert np.all((members[number] == 1) == meant)
    assert np.array_equal(number[first[:left]], np.arange(left))


def test_frames_are_orthonormal_and_tangent():
    for d in (2, 3, 6):
        X = np.concatenate([ms.initial.sphere(20, d, seed=0), np.eye(d), -np.eye(d)])
        basis = np.concatenate([X[:, None], _frames(X)], axis=1)
        assert np.abs(basis @ np.swapaxes(basis, 1, 2) - np.eye(d)).max() < 1e-14


@pytest.mark.slow
def test_many_tokens_that_merge_keep_to_the_accuracy():
    dyn, x0 = ms.Dynamics(beta=9.0), ms.initial.sphere(500, 3, seed=3)
    whole = coalesce(dyn, x0, 30.0, save=7, tolerance=0.0)
    run = coalesce(dyn, x0, 30.0, save=7, tolerance=1e-6)
    assert run.counts[-1] < 20
    assert np.abs(run.x - whole.x).max() < 1e-10


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


@pytest.mark.parametrize(
    ("V", "beta", "n", "spread", "t"),
    [
        ([[-1.0, 0.0], [0.0, -1.0]], 4.0, 20, 1e-6, 20.0),
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -2.0]], 1.0, 60, 1e-7, 12.0),
    ],
)
def test_tokens_that_part_are_not_held_together(V, beta, n, spread, t):
    """A repelling V: what merging leaves out would grow with the group."""
    rng = np.random.default_rng(0)
    d = len(V)
    x = np.eye(d)[-1] + spread * rng.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    dyn = ms.Dynamics(ms.Weights(V=V), beta=beta)
    made = coalesce(dyn, x, t, accuracy=1e-10, save=3)
    assert np.abs(made.x - ms.simulate(dyn, x, t, 0.1, save=3).x).max() < 1e-10


def test_a_group_that_comes_apart_is_let_go_and_told():
    """V turned against its tokens: a group that was contracting and has merged begins to spread."""
    from metastable.reduced import mergers

    x = np.array([[1.0, 0.0], [1.0, 1e-7], [0.0, 1.0]])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    nearer = mergers.begun(x)._replace(before=np.array([[1.0, -1e-6], [1.0, 1e-6], [0.0, 1.0]]))
    merged = mergers.looked(nearer, 1e-5, 1, thrifty=False)
    assert merged.label.tolist() == [0, 0, 1]
    arm = merged.companions[0, 0]
    away = merged._replace(points=np.concatenate([merged.X, [arm + 3e-6 * np.array([0.0, np.sign(arm[1])])]]))
    freed = mergers.looked(away, 1e-5, 2, thrifty=False)
    assert freed.freed == 1
    assert len(freed.w) == 3
    np.testing.assert_allclose(np.sort(freed.w), 1.0)
    assert np.abs(mergers.everyone(freed) - mergers.everyone(away)).max() < 1e-15
