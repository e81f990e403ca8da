"""Rank, effective rank and distance to Boolean on known matrices and against plain formulas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastable.errors import InputError
from metastable.observables import boolean_distance, effective_rank, rank


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 8), tolerance=st.sampled_from([0.0, 1e-3, 0.3, 1.0]))
def test_ensembles_against_plain_formulas(seed, n, tolerance):
    P = softmax(3 * np.random.default_rng(seed).normal(size=(2, 3, n, n)))
    ranks, soft, far = rank(P, tolerance), effective_rank(P), boolean_distance(P)
    for k in np.ndindex(2, 3):
        s = np.sqrt(np.linalg.eigvalsh(P[k].T @ P[k]).clip(0))
        if tolerance:
            assert abs(ranks[k] - (s > tolerance * s.max()).sum()) == 0 or np.isclose(s / s.max(), tolerance).any()
        p = np.linalg.svd(P[k])[1]
        p = p[p > 0] / p.sum()
        assert np.isclose(soft[k], np.prod(p ** (-p)), rtol=1e-10)
        nearest = np.eye(n)[P[k].argmax(1)]
        assert np.isclose(far[k], np.abs(P[k] - nearest).sum(1).max() / 2, atol=1e-12)
        assert 1 - 1e-12 <= soft[k] <= n + 1e-9


def test_known_matrices():
    n = 6
    uniform = np.full((n, n), 1 / n)
    assert (rank(uniform), rank(np.eye(n))) == (1, n)
    assert np.isclose(effective_rank(uniform), 1)
    assert np.isclose(effective_rank(np.eye(n)), n)
    assert np.isclose(boolean_distance(uniform), 1 - 1 / n)
    boolean = np.eye(n)[[0, 0, 3, 3, 3, 0]]
    assert boolean_distance(boolean) == 0
    assert rank(boolean) == 2
    assert rank(np.diag([1.0, 0.5, 0.01]), tolerance=0.01) == 2  # ends excluded
    assert rank(np.diag([1.0, 0.5, 0.01]), tolerance=0.009) == 3


def test_one_token_and_unnormalised_rows():
    assert (rank([[1.0]]), effective_rank([[1.0]]), boolean_distance([[1.0]])) == (1, 1.0, 0.0)
    P = np.array([[4.0, 1.0], [0.0, 7.0]])
    assert np.isclose(boolean_distance(P), 0.2)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: rank(np.zeros((2, 3))), "n, n"),
        (lambda: rank(np.zeros((0, 0))), "n >= 1"),
        (lambda: rank([[np.nan]]), "nan"),
        (lambda: rank(np.eye(2), -1.0), ">= 0"),
        (lambda: effective_rank(np.zeros((2, 2))), "zero everywhere"),
        (lambda: boolean_distance(np.diag([1.0, 0.0])), "zero"),
        (lambda: boolean_distance([[-1.0]]), "negative"),
    ],
)
def test_bad_input_gets_a_sentence(call, says):
    with pytest.raises(InputError, match=says):
        call()
