"""Single linkage against scipy's dendrogram and brute force, by each of its methods, and where naive ones fail."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster
from scipy.cluster.hierarchy import linkage as dendrogram

from metastable.errors import InputError
from metastable.observables import cluster_count, cluster_labels, cluster_sizes, count_of, linkage, sizes_of


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def brute(points, radius):
    """Depth-first search over all pairs, written plainly."""
    labels, found = [-1] * len(points), 0
    for first in range(len(points)):
        if labels[first] >= 0:
            continue
        stack = [first]
        while stack:
            i = stack.pop()
            if labels[i] >= 0:
                continue
            labels[i] = found
            stack += [j for j in range(len(points)) if np.sqrt(((points[i] - points[j]) ** 2).sum()) <= radius]
        found += 1
    return labels


METHODS = {"dense": lambda x, r: linkage._dense(x[None], r)[0], "tree": linkage._tree, "sweep": linkage._sweep}


@pytest.mark.parametrize("method", METHODS)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 25),
    d=st.integers(2, 7),
    radius=st.sampled_from([0.0, 0.1, 0.6, 1.0, 2.0]),
    grid=st.booleans(),
)
def test_every_method_equals_brute_force(method, seed, n, d, radius, grid):
    x = np.random.default_rng(seed).normal(size=(n, d))
    if grid:  # ties: many distances equal to the radius, many tokens identical
        x = np.round(x)
    labels = linkage.first_seen(METHODS[method](x, radius))
    assert labels.tolist() == brute(x, radius)


@pytest.mark.parametrize(("d", "radius"), [(2, 0.02), (3, 0.08), (3, 0.2), (8, 0.6), (9, 0.6), (30, 1.2)])
def test_larger_clouds_equal_the_dendrogram(d, radius):
    x = unit(np.random.default_rng(d).normal(size=(1500, d)))
    expected = linkage.first_seen(fcluster(dendrogram(x, "single"), radius, "distance"))
    assert np.array_equal(cluster_labels(x, radius, "euclidean"), expected)
    assert 1 <= expected.max() + 1 < 1500


@pytest.mark.parametrize("d", [2, 3, 8, 12])
def test_two_dense_blobs_joined_by_one_link(d):
    """The eight nearest of every token lie in its own blob: only the search between components sees the link."""
    rng = np.random.default_rng(1)
    blobs = 1e-4 * rng.uniform(-1, 1, (2, 400, d))
    blobs[1, :, 0] += 1.0
    x = np.concatenate([blobs[0], blobs[1]])
    gap = np.sqrt(((blobs[0][:, None] - blobs[1][None]) ** 2).sum(-1)).min()
    assert cluster_count(x, gap * (1 + 1e-12), "euclidean") == 1
    assert cluster_count(x, gap * (1 - 1e-12), "euclidean") == 2


@pytest.mark.parametrize("d", [2, 9])
def test_links_that_nearer_components_hide(d):
    """Along the line every other gap is larger, so the first search between components finds only half the links."""
    rng = np.random.default_rng(6)
    places = np.cumsum([0.0, 0.9, 0.5, 0.9, 0.5, 0.9, 0.5, 0.9])
    x = 1e-3 * rng.uniform(-1, 1, (8, 40, d))
    x[..., 0] += places[:, None]
    x = x.reshape(320, d)
    assert cluster_count(x, 1.0, "euclidean") == 1
    assert cluster_count(x, 0.7, "euclidean") == 5
    assert cluster_count(x, 0.4, "euclidean") == 8


def test_a_chain_of_six_is_one_cluster():
    angles = 0.009 * np.arange(6)
    x = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    assert cluster_count(x) == 1
    assert cluster_sizes(x).tolist() == [6, 0, 0, 0, 0, 0]
    assert cluster_count(x, tolerance=0.008) == 6


@pytest.mark.parametrize("d", [2, 12])
def test_a_long_shuffled_chain(d):
    rng = np.random.default_rng(0)
    x = np.zeros((2000, d))
    x[:, 0] = rng.permutation(2000)
    assert cluster_count(x, 1.0, "euclidean") == 1
    assert cluster_count(x, 0.999, "euclidean") == 2000


@pytest.mark.parametrize("d", [1, 3, 16])
@pytest.mark.parametrize("spread", [0.0, 1e-12, 1e-3])
def test_thirty_thousand_collapsed_tokens_are_quick(d, spread):
    rng = np.random.default_rng(2)
    x = np.ones(d) + spread * rng.uniform(-1, 1, (30_000, d)) / np.sqrt(d)
    start = time.process_time()
    assert cluster_count(x, 0.01, "euclidean") == 1
    assert time.process_time() - start < 5  # all pairs would be 9e8


def test_several_collapsed_clusters_in_high_dimension_are_quick():
    rng = np.random.default_rng(3)
    centers = unit(rng.normal(size=(7, 64)))
    kind = np.concatenate([np.arange(7), rng.integers(0, 7, 20_000)])
    x = centers[kind] + 1e-7 * rng.normal(size=(len(kind), 64))
    start = time.process_time()
    assert np.array_equal(cluster_labels(x), kind)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("angle", [1e-12, 1e-9, 1e-5, 0.3, 3.0])
def test_tiny_angles_are_told_apart(angle):
    x = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    assert cluster_count(x, tolerance=angle * (1 + 1e-6)) == 1
    assert cluster_count(x, tolerance=angle * (1 - 1e-6)) == 2


@pytest.mark.parametrize("d", [2, 6, 40])
def test_tiny_distances_far_from_the_origin(d):
    """Distances by |x|^2 + |y|^2 - 2<x,y> would be all rounding here."""
    x = np.full((3, d), 1.0)
    x[1, 0] += 1e-12
    x[2, 1] += 5e-12
    assert cluster_labels(x, 2e-12, "euclidean").tolist() == [0, 0, 1]


def test_the_angle_ignores_lengths_and_pi_joins_all():
    x = np.array([[1.0, 0.0], [50.0, 0.1], [-1e-3, 0.0]])
    assert cluster_labels(x, 0.01).tolist() == [0, 0, 1]
    assert cluster_labels(x, np.pi).tolist() == [0, 0, 0]


def test_one_token_one_dimension_and_ties():
    assert cluster_labels([[3.0, 4.0]]).tolist() == [0]
    assert cluster_labels([[1.0], [-1.0], [1.0]]).tolist() == [0, 1, 0]
    assert cluster_labels([[0.0], [0.5], [-0.5], [2.0]], 0.5, "euclidean").tolist() == [0, 0, 0, 1]
    assert cluster_labels([[7.0, 1.0], [7.0, 1.0], [7.0, 1.0 + 1e-9]], 0.0, "rescaled").tolist() == [0, 0, 1]


def test_huge_and_tiny_tokens():
    x = np.array([[1e300, 0.0], [1e300, 1e290], [-1e300, 0.0]])
    assert cluster_labels(x, 1e291, "euclidean").tolist() == [0, 0, 1]
    for d in (1, 3, 9):
        for n in (5, 300):
            assert cluster_count(np.arange(1.0, n * d + 1).reshape(n, d), 1e200, "euclidean") == 1
    assert cluster_labels(x * 1e-300 * 1e-300, 0.1).tolist() == [0, 0, 1]


@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), d=st.integers(1, 5))
def test_ensembles_equal_loops_and_labels_are_canonical(seed, n, d):
    x = unit(np.random.default_rng(seed).normal(size=(3, 2, n, d)))
    labels = cluster_labels(x, 0.8)
    for a, b in np.ndindex(3, 2):
        assert np.array_equal(labels[a, b], cluster_labels(x[a, b], 0.8))
        assert np.array_equal(labels[a, b], linkage.first_seen(labels[a, b]))
        assert sizes_of(labels)[a, b].tolist() == [int((labels[a, b] == k).sum()) for k in range(n)]
        assert count_of(labels)[a, b] == len(set(labels[a, b].tolist()))


def test_ensembles_of_large_clouds_and_empty_ensembles():
    x = np.random.default_rng(0).uniform(size=(3, 300, 2))
    assert np.array_equal(cluster_labels(x, 0.05, "euclidean")[1], cluster_labels(x[1], 0.05, "euclidean"))
    for n in (1, 5, 300):
        assert cluster_count(np.zeros((0, n, 2)), 0.1, "euclidean").shape == (0,)


def test_many_clouds_cross_the_memory_pieces():
    x = np.random.default_rng(0).uniform(size=(600, 100, 2))
    labels = cluster_labels(x, 0.05, "euclidean")
    for k in (0, 205, 210, 415, 599):
        assert np.array_equal(labels[k], cluster_labels(x[k], 0.05, "euclidean"))


@pytest.mark.parametrize(
    ("x", "options", "says"),
    [
        (np.zeros((0, 3)), {}, "n, d >= 1"),
        (np.zeros((3, 0)), {}, "n, d >= 1"),
        (np.zeros(3), {}, "shape"),
        ([[np.nan, 1.0]], {}, "nan"),
        ([[np.inf, 1.0]], {}, "nan or inf"),
        ([["a", "b"]], {}, "real array"),
        ([[0.0, 0.0]], {}, "no direction"),
        ([[1.0, 0.0]], {"tolerance": -1.0}, ">= 0"),
        ([[1.0, 0.0]], {"tolerance": np.nan}, ">= 0"),
        ([[1.0, 0.0]], {"geometry": "spher"}, "did you mean 'sphere'"),
    ],
)
def test_bad_input_gets_a_sentence(x, options, says):
    with pytest.raises(InputError, match=says):
        cluster_labels(x, **options)


@pytest.mark.parametrize("labels", [[], [0.5], [-1, 0], [5, 0]])
def test_bad_labels_get_a_sentence(labels):
    with pytest.raises(InputError, match="Labels"):
        sizes_of(labels)


def test_counts_on_the_circle_are_those_of_the_labels():
    rng = np.random.default_rng(0)
    angles = np.concatenate([rng.uniform(-4, 4, size=(200, 12)), 0.02 * rng.normal(size=(50, 12)) + np.pi])
    x = np.stack([np.cos(angles), np.sin(angles)], axis=-1) * rng.uniform(0.5, 2.0, size=(250, 12, 1))
    for tolerance in (0.0, 0.01, 0.3, 1.0, 4.0):
        np.testing.assert_array_equal(cluster_count(x, tolerance), count_of(cluster_labels(x, tolerance)))
    with pytest.raises(InputError, match="no direction"):
        cluster_count(np.zeros((3, 2)))
