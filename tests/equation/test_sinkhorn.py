"""Doubly stochastic attention: sums summed exactly, uniqueness against long sweeps in mpmath, derivatives, extremes."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.optimize import linear_sum_assignment

import metastable as ms
from metastable.backend import jax, jnp
from metastable.equation.sinkhorn import sinkhorn, sinkhorn_error
from metastable.errors import InputError

scaled = jax.jit(sinkhorn)


def exact_error(A):
    """Largest deviation of a row or column sum from 1, summed without rounding."""
    return max(abs(math.fsum(line) - 1.0) for line in [*A, *A.T])


def is_a_scaling(A, s):
    """log A - s is a sum of a row term and a column term, wherever A is not too small to have digits."""
    excess = np.log(np.maximum(A, 1e-300)) - s
    i, j = np.unravel_index(np.argmax(A), A.shape)
    mixed = excess - excess[[i], :] - excess[:, [j]] + excess[i, j]
    seen = (A > 1e-250) & (A[[i], :] > 1e-250) & (A[:, [j]] > 1e-250)
    return np.abs(mixed[seen]).max() < 1e-12 * (1.0 + np.abs(s).max())


def tokens(kind, n, d, rng):
    if kind == "cube":
        return rng.uniform(-5.0, 5.0, (n, d))
    if kind == "clustered":
        return rng.uniform(-5.0, 5.0, (3, d))[rng.integers(0, 3, n)] + 1e-6 * rng.standard_normal((n, d))
    x = rng.standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 5, 16, 64])
def test_random_attention_is_doubly_stochastic(n):
    rng = np.random.default_rng(n)
    s = [ms.initial.cube(n, 2) @ ms.initial.cube(n, 2).T]  # with n = 16 plain sweeps leave columns off by 4e-4
    for k in range(59):  # 240 instances in all
        x = tokens(["cube", "sphere", "clustered"][k % 3], n, int(rng.integers(1, 9)), rng)
        s.append(np.exp(rng.uniform(np.log(0.1), np.log(20.0))) * x @ x.T)
    A = np.asarray(scaled(jnp.asarray(s)))
    assert max(exact_error(a) for a in A) < 1e-12
    assert all(is_a_scaling(a, b) for a, b in zip(A, s))
    assert np.abs(np.asarray(sinkhorn_error(A)) - [exact_error(a) for a in A]).max() < 1e-14


def test_it_agrees_with_long_sweeps_in_forty_digits():
    x = ms.initial.cube(4, 2, side=1.5, seed=1)
    with mp.workdps(40):
        P = [[mp.exp(mpf(float(a @ b))) for b in x] for a in x]
        for _ in range(4000):
            P = [[p / sum(row) for p in row] for row in P]
            columns = [sum(row[j] for row in P) for j in range(4)]
            P = [[row[j] / columns[j] for j in range(4)] for row in P]
            if max(abs(c - 1) for c in columns) < mpf(10) ** -25:
                break
    assert np.abs(np.asarray(scaled(jnp.asarray(x @ x.T))) - np.array(P, dtype=float)).max() < 1e-13


def test_two_tokens_have_a_closed_form():
    s = np.random.default_rng(0).uniform(-40.0, 40.0, (50, 2, 2))
    same = 1.0 / (1.0 + np.exp(-(s[:, 0, 0] + s[:, 1, 1] - s[:, 0, 1] - s[:, 1, 0]) / 2.0))
    A = np.asarray(scaled(jnp.asarray(s)))
    assert np.abs(A[:, 0, 0] - same).max() < 1e-12
    assert scaled(jnp.array([[-7.0]])).tolist() == [[1.0]]


def test_huge_scores_give_the_best_assignment():
    s = np.random.default_rng(0).standard_normal((6, 40, 40)) * 1e5
    A = np.asarray(scaled(jnp.asarray(s)))
    for a, b in zip(A, s):
        assert exact_error(a) < 1e-12
        assert a[linear_sum_assignment(b, maximize=True)].min() > 0.5


def test_ties_duplicates_offsets_and_far_potentials():
    rng = np.random.default_rng(4)
    i = np.arange(40.0)
    x = np.repeat(rng.uniform(-5.0, 5.0, (10, 2)), 4, axis=0)
    s = np.stack(
        [
            1e5 * rng.integers(0, 2, (40, 40)),  # ties at a size where other entries vanish
            1e4 * np.triu(np.ones((40, 40))),  # only the identity survives
            20.0 * x @ x.T,  # four copies of each token
            -((i[:, None] - 1.3 * i) ** 2),  # column factors from 1 to e^{-thousands}
            1e5 * rng.standard_normal((40, 1)) + 1e5 * rng.standard_normal(40) + rng.standard_normal((40, 40)),
            1e3 * rng.standard_normal((40, 40)),
        ]
    )
    A = np.asarray(scaled(jnp.asarray(s)))
    assert max(exact_error(a) for a in A) < 1e-12
    assert np.abs(A[2] - A[2][::4, ::4].repeat(4, 0).repeat(4, 1)).max() < 1e-12  # copies are treated alike
    assert np.allclose(A[1], np.eye(40), atol=1e-12)


@pytest.mark.slow
def test_a_thousand_tokens():
    x = ms.initial.sphere(1000, 3)
    A = np.asarray(scaled(jnp.asarray(9.0 * x @ x.T)))
    assert exact_error(A) < 1e-12


@pytest.mark.slow
def test_derivatives_agree_with_central_differences():
    rng = np.random.default_rng(2)
    s = jnp.asarray(rng.standard_normal((3, 1, 6, 6)) * np.array([1.0, 5.0, 20.0])[:, None, None, None])
    weight, way = jnp.asarray(rng.standard_normal((2, 3, 1, 6, 6)))

    def value(a):
        return (weight * jnp.tanh(3.0 * sinkhorn(a))).sum(axis=(1, 2, 3))  # (3,)

    total = jax.grad(lambda a: value(a).sum())
    reverse = jax.jit(lambda a: (total(a) * way).sum(axis=(1, 2, 3)))
    forward = jax.jit(lambda a: jax.jvp(value, (a,), (way,))[1])
    twice = jax.jit(lambda a: (jax.jvp(total, (a,), (way,))[1] * way).sum(axis=(1, 2, 3)))
    value, h = jax.jit(value), 1e-5
    central = np.asarray(value(s + h * way) - value(s - h * way)) / (2 * h)
    assert np.abs(np.asarray(reverse(s)) - central).max() < 1e-6 * np.abs(central).max()
    assert np.abs(np.asarray(forward(s)) - central).max() < 1e-6 * np.abs(central).max()
    curved = np.asarray(reverse(s + h * way) - reverse(s - h * way)) / (2 * h)
    assert np.abs(np.asarray(twice(s)) - curved).max() < 1e-6 * np.abs(curved).max()


@pytest.mark.slow
def test_derivatives_keep_the_sums_and_ignore_row_and_column_terms():
    along = jax.jit(lambda a, b: jax.jvp(sinkhorn, (a,), (b,))[1])
    s = jnp.asarray(np.random.default_rng(3).uniform(-30.0, 30.0, (12, 12)))
    moved = along(s, jnp.asarray(np.random.default_rng(1).standard_normal((12, 12))))
    assert max(float(jnp.abs(moved.sum(axis=a)).max()) for a in (0, 1)) < 1e-12
    still = along(s, jnp.arange(12.0)[:, None] - jnp.arange(12.0) ** 2)
    assert float(jnp.abs(still).max()) < 1e-11


@pytest.mark.slow
def test_batches_vmap_and_float32():
    s = jnp.asarray(np.random.default_rng(0).uniform(-9.0, 9.0, (2, 3, 4, 6, 6)))
    A = scaled(s)
    assert A.shape == s.shape
    assert sinkhorn_error(A).shape == (2, 3, 4)
    assert float(jnp.abs(A - jax.jit(jax.vmap(sinkhorn))(s)).max()) < 1e-12
    assert float(jnp.abs(A[1, 2, 3] - scaled(s[1, 2, 3])).max()) < 1e-12
    narrow = scaled(s.astype(jnp.float32))
    assert narrow.dtype == jnp.float32
    assert float(sinkhorn_error(narrow).max()) < 1e-6


def test_what_cannot_be_scaled_is_refused_or_nan():
    with pytest.raises(InputError, match="mask"):
        sinkhorn(jnp.zeros((3, 3)), jnp.ones((3, 3), bool))
    with pytest.raises(InputError, match="as many queries"):
        sinkhorn(jnp.zeros((1, 2, 3)))
    assert np.isnan(sinkhorn_error(scaled(jnp.array([[np.nan, 1.0], [1.0, 0.0]]))))
