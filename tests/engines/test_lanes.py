"""Steps of small systems in vector lanes against the same steps in NumPy."""

import numpy as np
import pytest

from metastable.engines.lanes.batch import Scheme, advance
from tests.engines.tableaus import TABLEAUS, hermite, intervals, step

DT = 0.1


def velocity(A, V, low, high, tangent):
    """(t, x) -> x' for x (n, d), A = beta Q^T K and V (h, d, d)."""

    def field(t, x):
        size = np.linalg.norm(x, axis=1, keepdims=True) if tangent else 1.0
        u = x / size
        j = np.arange(len(x))
        seen = (j >= low[:, None]) & (j < high[:, None])
        pull = np.zeros_like(x)
        for a, v in zip(A, V):
            s = np.where(seen, u @ a @ u.T, -np.inf)
            e = np.exp(s - s.max(axis=1, keepdims=True))
            pull += (e @ u / e.sum(axis=1, keepdims=True)) @ v.T
        return size * (pull - (u * pull).sum(axis=1, keepdims=True) * u) if tangent else pull

    return field


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def transcribed(A, V, x, counts, thetas, scheme):
    """The saves of one run, (m, n, d)."""
    field = velocity(A, V, scheme.low, scheme.high, scheme.tangent)
    back = unit if scheme.sphere else lambda x: x
    saved, before = [], x
    for count, theta in zip(counts, thetas):
        for _ in range(count):
            before, (x, _) = x, step(field, 0.0, x, DT, scheme.tableau)
            x = back(x)
        ends = (before, field(0.0, before), x, field(0.0, x))
        saved.append(back(hermite(theta, DT, *ends)) if theta < 1 else x)
    return np.stack(saved)


def case(runs, n, d, heads=1, mask="full", tableau="rk4", sphere=True, tangent=None, seed=0):
    rng = np.random.default_rng(seed)
    A, V = (rng.normal(size=(runs, heads, d, d)) / np.sqrt(d) for _ in range(2))
    x = rng.normal(size=(runs, n, d))
    scheme = Scheme(DT, TABLEAUS[tableau], *intervals(mask, n), sphere, sphere if tangent is None else tangent)
    return A, V, unit(x) if sphere else 0.5 * x, scheme


COUNTS, THETAS = np.array([0, 3, 0, 4]), np.array([1.0, 0.4, 1.0, 1.0])


def check(A, V, x, scheme, tolerance=1e-12):
    _, saved = advance(A, V, np.stack([x, x]), COUNTS, THETAS, scheme)
    for b in range(len(x)):
        one = transcribed(A[b % len(A)], V[b % len(V)], x[b], COUNTS, THETAS, scheme)
        np.testing.assert_allclose(saved[:, b], one, rtol=0, atol=tolerance * np.abs(one).max())
    return saved


@pytest.mark.parametrize("tableau", TABLEAUS)
@pytest.mark.parametrize(("runs", "n"), [(11, 7), (1, 21)])  # runs in lanes, and tokens in lanes
def test_any_explicit_tableau(tableau, runs, n):
    check(*case(runs, n, 3, tableau=tableau))
    check(*case(runs, n, 2, tableau=tableau, sphere=False))


@pytest.mark.parametrize("mask", ["full", "causal", "window", "window, causal", "ragged"])
@pytest.mark.parametrize(("runs", "n", "d", "heads"), [(9, 10, 3, 2), (1, 29, 3, 1), (2, 19, 5, 1), (9, 6, 4, 1)])
def test_any_interval(mask, runs, n, d, heads):
    check(*case(runs, n, d, heads, mask))


@pytest.mark.parametrize(("runs", "n", "d"), [(9, 1, 3), (9, 1, 1), (9, 4, 1), (1, 1, 3), (1, 8, 2), (3, 20, 3)])
def test_smallest_systems(runs, n, d):
    check(*case(runs, n, d, sphere=False))


@pytest.mark.parametrize("runs", [1, 9])
def test_layers_on_the_sphere_take_the_pull_itself(runs):
    A, V, x, scheme = case(runs, 17, 3, tableau="euler", tangent=False)
    counts, thetas = np.array([0, 5]), np.ones(2)
    _, saved = advance(A, V, np.stack([x, x]), counts, thetas, scheme)
    one = transcribed(A[0], V[0], x[0], counts, thetas, scheme)
    np.testing.assert_allclose(saved[:, 0], one, atol=1e-13)


@pytest.mark.parametrize("mask", ["full", "causal", "window", "ragged"])
@pytest.mark.parametrize("d", [3, 5])
def test_a_run_has_the_same_digits_alone_and_among_others(mask, d):
    A, V, x, scheme = case(11, 20, d, mask=mask)
    ends = np.stack([x, x])
    _, together = advance(A, V, ends, COUNTS, THETAS, scheme)
    _, few = advance(A[3:5], V[3:5], ends[:, 3:5], COUNTS, THETAS, scheme)
    _, alone = advance(A[4:5], V[4:5], ends[:, 4:5], COUNTS, THETAS, scheme)
    assert np.array_equal(together[:, 3:5], few)
    assert np.array_equal(together[:, 4:5], alone)


def test_one_map_may_serve_all_runs():
    A, V, x, scheme = case(9, 6, 3)
    check(A[:1], V[:1], x, scheme)


@pytest.mark.parametrize("runs", [1, 9])
def test_taken_up_again_it_is_the_same_run(runs):
    A, V, x, scheme = case(runs, 13, 3)
    _, whole = advance(A, V, np.stack([x, x]), np.array([2, 3, 0]), np.array([1.0, 0.3, 0.7]), scheme)
    ends, first = advance(A, V, np.stack([x, x]), np.array([2, 3]), np.array([1.0, 0.3]), scheme)
    _, rest = advance(A, V, ends, np.array([0]), np.array([0.7]), scheme)
    assert np.array_equal(np.concatenate([first, rest]), whole)


def test_scores_beyond_floats_are_not_passed_over():
    A, V, x, scheme = case(1, 5, 2, sphere=False)
    _, saved = advance(A, V, 1e200 * np.stack([x, x]), np.array([1]), np.ones(1), scheme)
    assert not np.isfinite(saved).all()
