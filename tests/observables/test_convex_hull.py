"""Hulls of known bodies, against linear programs, and of clouds that Qhull alone refuses."""

from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from metastable.errors import InputError
from metastable.observables import convex_hull, hull_count, hull_growth, hull_vertices, hull_volume


def cube(d):
    return np.stack(np.meshgrid(*[[0.0, 1.0]] * d), axis=-1).reshape(-1, d)


def is_extreme(x, i):
    """A token is a vertex when no convex combination of the others gives it."""
    others = np.delete(x, i, axis=0)
    A = np.vstack([others.T, np.ones(len(others))])
    return linprog(np.zeros(len(others)), A_eq=A, b_eq=np.append(x[i], 1.0), bounds=(0, None)).status == 2


@pytest.mark.parametrize("d", range(1, 7))
def test_cubes(d):
    rng = np.random.default_rng(d)
    x = np.concatenate([rng.uniform(0.1, 0.9, (10, d)), cube(d)])
    found = convex_hull(x)
    assert found.vertices.tolist() == list(range(10, 10 + 2**d))
    assert np.isclose(found.volume, 1)
    assert np.isclose(hull_volume(x), 1)
    assert hull_count(x) == 2**d
    assert np.allclose(found.outside(x), 0, atol=1e-13)
    y = np.full((1, d), 0.5)
    y[0, 0] = 3.0
    assert np.isclose(found.outside(y)[0], 2)


@pytest.mark.parametrize("d", [2, 5, 8])
def test_cross_polytopes(d):
    x = np.concatenate([0.2 * np.random.default_rng(d).uniform(-1, 1, (30, d)) / d, np.eye(d), -np.eye(d)])
    found = convex_hull(x)
    assert found.vertices.tolist() == list(range(30, 30 + 2 * d))
    assert np.isclose(found.volume, 2**d / factorial(d))
    assert np.allclose(found.outside(2 * np.ones((1, d))), (2 * d - 1) / np.sqrt(d))


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), n=st.integers(1, 9), d=st.integers(1, 4))
@settings(max_examples=40)
def test_vertices_against_linear_programs(seed, n, d):
    x = np.random.default_rng(seed).normal(size=(n, d))
    expected = [n == 1 or is_extreme(x, i) for i in range(n)]
    assert hull_vertices(x).tolist() == expected


@given(seed=st.integers(0, 10**6), n=st.integers(2, 12), m=st.integers(1, 3), extra=st.integers(1, 3))
def test_flat_clouds_have_the_hull_of_their_span(seed, n, m, extra):
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(n, m))
    basis = np.linalg.qr(rng.normal(size=(m + extra, m + extra)))[0][:m]
    x = low @ basis + 3.0
    a, b = convex_hull(low), convex_hull(x)
    assert a.vertices.tolist() == b.vertices.tolist()
    assert a.dimension == b.dimension == min(m, n - 1)
    assert np.isclose(a.volume, b.volume, rtol=1e-6)
    assert hull_volume(x) == 0
    assert np.allclose(b.outside(x), 0, atol=1e-12)
    off = np.linalg.qr(np.vstack([basis, rng.normal(size=(1, m + extra))]).T)[0][:, -1]
    assert np.allclose(b.outside(x + 0.25 * off), 0.25)


def test_collapsed_single_and_identical_tokens():
    for x in (np.ones((5, 3)), [[2.0, 1.0]], [[4.0]], 1e9 + np.zeros((3, 2))):
        found = convex_hull(x)
        assert (found.vertices.tolist(), found.dimension, found.volume) == ([0], 0, 0.0)
        assert hull_count(x) == 1
    rounding = 1.0 + 1e-16 * np.random.default_rng(0).integers(-1, 2, (20, 3))
    assert convex_hull(rounding).dimension == 0
    assert np.isclose(convex_hull(np.ones((5, 3))).outside([[1.0, 1.0, 4.0]])[0], 3)


def test_thin_clouds_are_not_flat():
    """Thickness 1e-8 of the width, which unscaled coordinates would give Qhull as noise."""
    x = cube(3) * [1.0, 1e-4, 1e-8]
    assert convex_hull(x).dimension == 3
    assert hull_count(x) == 8
    assert np.isclose(hull_volume(x), 1e-12, rtol=1e-6)
    assert convex_hull(x, span=1e-6).dimension == 2


def test_collinear_and_coplanar_with_duplicates():
    line = np.outer([0.0, 0.5, 1.0, 0.25, 1.0], [1.0, 2.0, -1.0])
    assert hull_vertices(line).tolist() == [True, False, True, False, False]
    square = np.array([[0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1], [0, 0, 1], [0.5, 0.5, 1]], dtype=float)
    assert hull_count(square) == 4
    assert np.isclose(convex_hull(square).volume, 1)


def test_a_simplex_needs_no_qhull_in_any_dimension():
    x = np.vstack([np.zeros(20), np.eye(20)])
    found = convex_hull(x)
    assert found.dimension == 20
    assert len(found.vertices) == 21
    assert np.isclose(found.volume * factorial(20), 1)
    assert np.allclose(found.outside(np.full((1, 20), 0.01)), 0)
    assert np.isclose(found.outside(np.full((1, 20), -0.5))[0], 0.5)
    assert np.isclose(found.outside(np.full((1, 20), 1.0))[0], 19 / np.sqrt(20))
    triangle = convex_hull(np.eye(3))
    assert np.isclose(triangle.volume, np.sqrt(3) / 2)
    assert hull_count(np.random.default_rng(0).normal(size=(40, 200))) == 40


def test_vertices_at_a_tolerance():
    rng = np.random.default_rng(4)
    x = np.repeat(cube(3), 6, axis=0) + 1e-6 * rng.normal(size=(48, 3))
    assert hull_count(x) > 8
    assert hull_count(x, tolerance=1e-3) == 8
    assert hull_count(x, tolerance=1.1) == 1


@given(st.integers(0, 10**6), st.integers(2, 6), st.sampled_from([1e-15, 1e-13, 1e-9, 1e-4]))
def test_tokens_gathered_at_vertices_never_break_qhull(seed, d, spread):
    rng = np.random.default_rng(seed)
    corners = rng.normal(size=(d + 3, d))
    x = corners[rng.integers(0, d + 3, 40)] + spread * rng.normal(size=(40, d))
    found = convex_hull(x)
    assert (found.outside(x) < 1e-8).all()
    assert 1 <= hull_count(x, tolerance=1e-2) <= d + 3


def test_growth():
    rng = np.random.default_rng(5)
    x0 = rng.normal(size=(2, 15, 3))
    scales = np.array([1.0, 0.8, 0.5, 0.5, 0.1])[:, None, None, None]
    shrinking = scales * x0  # 0 may lie outside, so shrink towards the mean
    shrinking = x0.mean(1, keepdims=True) * (1 - scales) + shrinking
    growth = hull_growth(shrinking)
    assert growth.shape == (5, 2)
    assert growth.max() < 1e-12
    shrinking[4, 1, 3] += 10.0
    again = hull_growth(shrinking)
    assert (again[:4, 1] > 5).all()
    assert again[:, 0].max() < 1e-12
    assert (again[4] == 0).all()
    assert np.array_equal(again[:, 1], hull_growth(shrinking[:, 1]))


def test_growth_onto_a_line_from_a_point():
    x = np.array([[[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [3.0, 4.0]]])
    assert np.allclose(hull_growth(x), [5, 0])


def test_ensembles_equal_loops():
    x = np.random.default_rng(6).normal(size=(2, 3, 12, 2))
    for k in np.ndindex(2, 3):
        assert np.array_equal(hull_vertices(x)[k], hull_vertices(x[k]))
        assert hull_count(x)[k] == hull_count(x[k]) == hull_vertices(x[k]).sum()
        assert hull_volume(x)[k] == hull_volume(x[k])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: convex_hull(np.random.default_rng(0).normal(size=(20, 9))), "up to 8"),
        (lambda: convex_hull(np.zeros((2, 3, 2))), "one cloud"),
        (lambda: hull_growth(np.eye(2)), "time axis"),
        (lambda: hull_count([[np.nan, 0.0]]), "nan"),
        (lambda: hull_count(np.eye(2), tolerance=-1.0), ">= 0"),
    ],
)
def test_bad_input_gets_a_sentence(call, says):
    with pytest.raises(InputError, match=says):
        call()
