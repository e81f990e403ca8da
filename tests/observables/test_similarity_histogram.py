"""Pairwise similarities against numpy's histogram of the upper triangle; the order parameter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastable.errors import InputError
from metastable.observables import (
    arrays,
    order_parameter,
    similarity_histogram,
    similarity_mean,
    similarity_share,
)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def upper(x, kind):
    y = unit(x) if kind == "cosine" else x
    return (y @ y.T)[np.triu_indices(len(x), 1)]


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 12),
    d=st.integers(1, 4),
    bins=st.integers(1, 30),
    kind=st.sampled_from(["cosine", "inner"]),
)
def test_histogram_share_and_mean(seed, n, d, bins, kind):
    x = np.random.default_rng(seed).normal(size=(2, 2, n, d))
    counts, edges = similarity_histogram(x, bins, kind)
    share, mean = similarity_share(x, [0.0, 0.9], kind), similarity_mean(x, kind)
    assert counts.shape == (2, 2, bins)
    assert share.shape == (2, 2, 2)
    for k in np.ndindex(2, 2):
        s = upper(x[k], kind)
        # values within rounding of an edge may fall on either side of it
        if np.abs(s[:, None] - edges[1:-1]).min(initial=1.0) > 1e-12:
            assert np.array_equal(counts[k], np.histogram(s.clip(edges[0], edges[-1]), edges)[0])
        assert counts[k].sum() == n * (n - 1) // 2
        assert np.isclose(mean[k], s.mean(), atol=1e-12)
        assert np.isclose(share[(*k, 0)], (s > 0).mean(), atol=0 if np.abs(s).min() > 1e-12 else 1)


def test_no_diagonal_and_rounding_beyond_one():
    many = unit(np.random.default_rng(0).normal(size=(500, 3)))
    past = many[[float(y @ y) > 1 for y in many]]  # <y, y> rounds past 1
    assert len(past) > 10
    for y in past:
        assert similarity_histogram([y, y], bins=5)[0].tolist() == [0, 0, 0, 0, 1]
        assert similarity_histogram([y, -y], bins=5)[0].tolist() == [1, 0, 0, 0, 0]
    x = np.repeat(past[:1], 50, axis=0)
    counts, edges = similarity_histogram(np.concatenate([x, -x]), bins=20)
    assert edges[0] == -1
    assert edges[-1] == 1
    assert counts[-1] == 2 * 50 * 49 // 2
    assert counts[0] == 2500
    assert counts.sum() == 100 * 99 // 2


@pytest.mark.parametrize("bins", [2, 3, 7, 10, 100, 999])
def test_values_on_the_edges_go_right_as_in_numpy(bins):
    from metastable.observables.similarities import _bin

    edges = np.linspace(-1, 1, bins + 1)
    for values in (edges, np.nextafter(edges[1:], -2), np.nextafter(edges[:-1], 2)):
        expected = (np.searchsorted(edges, values, side="right") - 1).clip(max=bins - 1)
        assert np.array_equal(_bin(values, edges), expected)
        assert np.array_equal(np.bincount(_bin(values, edges), minlength=bins), np.histogram(values, edges)[0])


def test_blocks_do_not_change_the_counts(monkeypatch):
    x = np.random.default_rng(0).normal(size=(3, 41, 3))
    whole, share = similarity_histogram(x)[0], similarity_share(x, 0.5)
    monkeypatch.setattr(arrays, "MOST_ENTRIES", 300)
    assert np.array_equal(similarity_histogram(x)[0], whole)
    assert np.array_equal(similarity_share(x, 0.5), share)


def test_orthonormal_and_scaled_tokens():
    assert np.isclose(similarity_mean(np.eye(4)), 0)
    assert similarity_share(5 * np.ones((3, 2)), 0.99) == 1
    assert similarity_share(5 * np.ones((3, 2)), 49.0, "inner") == 1
    counts, _ = similarity_histogram(np.zeros((3, 2)), 4, "inner")  # all inner products 0
    assert counts.tolist() == [0, 0, 3, 0]


def test_memory_stays_small_for_many_tokens():
    x = np.random.default_rng(1).normal(size=(3000, 2))
    assert similarity_histogram(x)[0].sum() == 3000 * 2999 // 2


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: similarity_histogram([[1.0, 0.0]]), "two tokens"),
        (lambda: similarity_mean([[1.0, 0.0]]), "two tokens"),
        (lambda: similarity_share(np.eye(2), np.nan), "nan"),
        (lambda: similarity_histogram(np.eye(2), 0), "bins"),
        (lambda: similarity_histogram(np.eye(2), 1.5), "bins"),
        (lambda: similarity_histogram(np.eye(2), kind="cosin"), "'cosine' or 'inner'"),
        (lambda: similarity_histogram(np.zeros((2, 2))), "no direction"),
        (lambda: similarity_mean(1e200 * np.eye(2), "inner"), "overflow"),
    ],
)
def test_bad_input_gets_a_sentence(call, says):
    with pytest.raises(InputError, match=says):
        call()


def test_order_parameter():
    x = np.random.default_rng(0).normal(size=(4, 3, 7, 2))
    assert np.allclose(order_parameter(x), np.sqrt((x.mean(-2) ** 2).sum(-1)))
    assert order_parameter([[1.0, 0.0], [-1.0, 0.0]]) == 0
    assert np.isclose(order_parameter([[0.6, 0.8]]), 1)
    assert np.isclose(order_parameter([[3e200, 4e200]]), 5e200)


def test_kernel_and_matrix_products_count_the_same_pairs(monkeypatch):
    from metastable.observables import similarities as similarity

    x = np.random.default_rng(5).normal(size=(7, 11, 9, 3))
    plain = similarity.similarity_share(x, above=[0.2, 0.9])
    monkeypatch.setattr(similarity, "_WORTH_A_KERNEL", 0)
    np.testing.assert_array_equal(similarity.similarity_share(x, above=[0.2, 0.9]), plain)
