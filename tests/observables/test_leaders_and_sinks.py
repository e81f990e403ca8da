"""Leaders by attention, Renyi centres (ORACLES 14, by sampling), sinks and their baselines."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc

from metastable.errors import InputError
from metastable.observables import (
    followers,
    is_leader,
    received,
    renyi_centers,
    sink_baseline,
    sink_mass,
    strong_renyi_centers,
)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# --- attention ---


@given(seed=st.integers(0, 10**6), n=st.integers(1, 7), threshold=st.sampled_from([0.0, 0.3, 0.5, 0.9]))
def test_followers_by_loops(seed, n, threshold):
    P = softmax(4 * np.random.default_rng(seed).normal(size=(2, 3, n, n)))
    found, got = followers(P, threshold), received(P)
    for k in np.ndindex(2, 3):
        for j in range(n):
            others = [P[k][i, j] for i in range(n) if i != j]
            assert np.isclose(got[k][j], sum(others), atol=1e-12)
            assert found[k][j] == sum(p > threshold for p in others)
    assert np.array_equal(is_leader(P, threshold), found > 0)


def test_a_boolean_attention_has_the_leaders_one_sees():
    P = np.eye(5)[[0, 0, 0, 3, 3]]
    assert is_leader(P).tolist() == [True, False, False, True, False]
    assert followers(P).tolist() == [2, 0, 0, 1, 0]
    assert not is_leader(np.eye(5)).any()  # each its own
    assert not is_leader(np.full((5, 5), 0.2)).any()  # nobody holds anybody
    assert not is_leader([[1.0]]).any()


def test_unnormalised_rows_count_by_share():
    assert is_leader([[5.0, 1.0], [30.0, 10.0]]).tolist() == [True, False]


@pytest.mark.parametrize("threshold", [-0.1, 1.0, np.nan])
def test_a_bad_threshold_gets_a_sentence(threshold):
    with pytest.raises(InputError, match="share of attention"):
        followers(np.eye(2), threshold)


# --- positions ---


def parked(points, delta, distance):
    centers, strong = [], []
    for i, p in enumerate(points):
        if all(distance(p, points[c]) > delta for c in centers):
            centers.append(i)
        if all(distance(p, points[j]) > delta for j in range(i)):
            strong.append(i)
    n = len(points)
    return np.isin(np.arange(n), centers), np.isin(np.arange(n), strong)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 15), d=st.integers(1, 4), delta=st.floats(0.0, 4.0))
def test_centers_by_loops(seed, n, d, delta):
    x = np.random.default_rng(seed).normal(size=(2, n, d))
    for geometry, distance in (
        ("euclidean", lambda p, q: np.sqrt(((p - q) ** 2).sum())),
        ("sphere", lambda p, q: 2 * np.arcsin(min(1.0, np.linalg.norm(p - q) / 2))),
    ):
        y = unit(x) if geometry == "sphere" else x
        for k in range(2):
            centers, strong = parked(y[k], delta, distance)
            assert np.array_equal(renyi_centers(x, delta, geometry)[k], centers)
            assert np.array_equal(strong_renyi_centers(x, delta, geometry)[k], strong)


@pytest.mark.parametrize(("d", "delta", "n"), [(2, 0.3, 40), (3, 0.5, 60), (5, 1.0, 50), (4, 1.5, 30)])
def test_oracle_14_expected_number_of_strong_centers(d, delta, n):
    x = unit(np.random.default_rng(d).normal(size=(4000, n, d)))
    counts = strong_renyi_centers(x, delta).sum(-1)
    c = betainc((d - 1) / 2, 0.5, np.sin(delta) ** 2) / 2
    expected = (1 - (1 - c) ** n) / c
    assert abs(counts.mean() - expected) < 4 * counts.std() / np.sqrt(len(counts))


@pytest.mark.parametrize(("d", "limit"), [(2, np.pi / 0.4), (3, 1 / np.sin(0.2) ** 2)])
def test_oracle_14_many_tokens(d, limit):
    x = unit(np.random.default_rng(8).normal(size=(500, 400, d)))
    counts = strong_renyi_centers(x, 0.4).sum(-1)
    assert abs(counts.mean() - limit) < 4 * counts.std() / np.sqrt(len(counts))


def test_oracle_14_parking_on_the_circle():
    """About 0.7476 * 2 pi / delta once no further token fits."""
    delta = 0.03
    angles = np.random.default_rng(9).uniform(0, 2 * np.pi, (8, 15_000))
    x = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    counts = renyi_centers(x, delta).sum(-1)
    assert abs(counts.mean() / (0.7476 * 2 * np.pi / delta) - 1) < 0.01


def test_ties_and_extremes():
    x = np.array([[0.0], [1.0], [2.0]])
    assert renyi_centers(x, 1.0, "euclidean").tolist() == [True, False, True]  # distance delta is not farther
    assert renyi_centers(unit(np.ones((4, 2))), 0.0).tolist() == [True, False, False, False]
    assert renyi_centers(np.eye(3), 10.0).tolist() == [True, False, False]
    with pytest.raises(InputError, match=">= 0"):
        renyi_centers(np.eye(3), -1.0)


# --- sinks ---


@given(seed=st.integers(0, 10**6), n=st.integers(1, 7), kind=st.sampled_from(["full", "causal", "window"]))
def test_sinks_by_loops(seed, n, kind):
    i, j = np.arange(n)[:, None], np.arange(n)
    seen = {"full": i + j >= 0, "causal": j <= i, "window": (abs(i - j) <= 1)}[kind]
    P = softmax(np.where(seen, np.random.default_rng(seed).normal(size=(2, 3, n, n)), -np.inf))
    mass = sink_mass(P, seen)
    for k in np.ndindex(2, 3):
        for j in range(n):
            viewers = [i for i in range(n) if seen[i, j]]
            assert np.isclose(mass[k][j], np.mean([P[k][i, j] for i in viewers]))
    base = sink_baseline(n, seen)
    assert np.allclose(base, [np.mean([1 / seen[i].sum() for i in range(n) if seen[i, j]]) for j in range(n)])
    assert np.allclose(sink_mass(P, seen, per="token").sum(-1), 1)
    assert np.allclose(sink_mass(P, seen, "token") / sink_baseline(n, seen, "token"), mass / base)


def test_the_causal_baseline_is_the_formula():
    n = 9
    formula = [sum(1 / i for i in range(j, n + 1)) for j in range(1, n + 1)]
    causal = np.tri(n, dtype=bool)
    assert np.allclose(sink_baseline(n, causal, "token"), np.array(formula) / n)
    assert np.allclose(sink_baseline(n, causal), np.array(formula) / np.arange(n, 0, -1))
    assert np.allclose(sink_baseline(n), 1 / n)
    uniform = causal / causal.sum(1, keepdims=True)
    assert np.allclose(sink_mass(uniform, causal), sink_baseline(n, causal))


@pytest.mark.parametrize(
    ("visible", "per", "says"),
    [
        (np.ones((2, 2)), "viewer", "boolean"),
        (np.ones((3, 3), bool), "viewer", "boolean"),
        (np.array([[True, False], [True, False]]), "viewer", "seen by one"),
        (None, "head", "'viewer' or 'token'"),
    ],
)
def test_bad_visibility_gets_a_sentence(visible, per, says):
    with pytest.raises(InputError, match=says):
        sink_mass(np.eye(2), visible, per)
