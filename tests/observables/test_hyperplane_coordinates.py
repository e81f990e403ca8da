"""Left eigenvectors as real directions, projections, and the number of distinct values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastable.errors import InputError
from metastable.observables import (
    cluster_count,
    distinct_values,
    hyperplane_counts,
    left_eigenvectors,
    projections,
)


@given(seed=st.integers(0, 10**6), d=st.integers(1, 7), symmetric=st.booleans())
def test_rows_are_left_eigenvectors_leading_first(seed, d, symmetric):
    V = np.random.default_rng(seed).normal(size=(d, d))
    V = V + V.T if symmetric else V
    values, rows = left_eigenvectors(V)
    assert (np.diff(values.real) <= 1e-12).all()
    assert np.isclose(values.sum(), np.trace(V))
    k = 0
    while k < d:
        if values[k].imag == 0:
            assert np.allclose(rows[k] @ V, values[k].real * rows[k], atol=1e-10)
            assert np.isclose(np.linalg.norm(rows[k]), 1)
            assert rows[k][np.abs(rows[k]).argmax()] > 0 or np.ptp(np.sort(np.abs(rows[k]))[-2:]) < 1e-8
            k += 1
        else:
            phi = rows[k] + 1j * rows[k + 1]
            assert values[k].imag > 0
            assert values[k + 1] == np.conj(values[k])
            assert np.allclose(phi @ V, values[k] * phi, atol=1e-10)
            assert np.isclose(np.linalg.norm(phi), 1)
            assert abs(rows[k] @ rows[k + 1]) < 1e-10
            k += 2


def test_the_published_matrix():
    V = np.array([[0.64709742, 0.81911926], [0.61210449, 0.63263484]])
    values, rows = left_eigenvectors(V)
    assert np.allclose(values.real, [1.348, -0.068], atol=1e-3)
    assert (rows[0] > 0).all()  # Perron


def test_a_rotation_has_two_directions():
    values, rows = left_eigenvectors([[1.0, -2.0], [2.0, 1.0]])
    assert np.allclose(values, [1 + 2j, 1 - 2j])
    assert abs(np.linalg.det(rows)) > 0.1


def test_tokens_on_hyperplanes_are_counted():
    rng = np.random.default_rng(0)
    S = rng.normal(size=(3, 3))
    V = S @ np.diag([2.0, 1.0, -1.0]) @ np.linalg.inv(S)
    zeta = np.stack([rng.choice([-1.0, 0.5, 4.0], 60), rng.normal(size=60), rng.choice([0.0, 7.0], 60)], axis=-1)
    x = zeta @ S.T
    p = projections(x, V)
    assert p.shape == (60, 3)
    assert hyperplane_counts(x, V, tolerance=1e-6).tolist() == [3, 60, 2]
    assert np.allclose(p @ left_eigenvectors(V)[1], x @ left_eigenvectors(V)[1].T @ left_eigenvectors(V)[1])


@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), tolerance=st.floats(0.0, 1.0))
def test_distinct_values_is_linkage_on_a_line(seed, n, tolerance):
    v = np.random.default_rng(seed).normal(size=(2, 3, n))
    count = distinct_values(v, tolerance)
    assert count.shape == (2, 3)
    assert np.array_equal(count, cluster_count(v[..., None], tolerance, "euclidean"))


def test_ensembles_equal_loops_and_one_dimension():
    x = np.random.default_rng(1).normal(size=(4, 2, 9, 3))
    V = np.random.default_rng(2).normal(size=(3, 3))
    for k in np.ndindex(4, 2):
        assert np.allclose(projections(x, V)[k], projections(x[k], V))
        assert np.array_equal(hyperplane_counts(x, V, 0.1)[k], hyperplane_counts(x[k], V, 0.1))
    assert hyperplane_counts([[1.0], [1.0], [3.0]], [[2.0]]).tolist() == [2]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: left_eigenvectors(np.zeros((2, 3))), "square"),
        (lambda: left_eigenvectors(np.zeros((2, 3, 3))), "one head"),
        (lambda: left_eigenvectors([[np.inf]]), "finite"),
        (lambda: projections(np.eye(2), np.eye(3)), "dimension 3"),
        (lambda: distinct_values([0.0, np.nan]), "nan"),
        (lambda: distinct_values([0.0], -1.0), ">= 0"),
    ],
)
def test_bad_input_gets_a_sentence(call, says):
    with pytest.raises(InputError, match=says):
        call()
