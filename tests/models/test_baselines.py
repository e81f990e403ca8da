"""Baselines, recomputed plainly, and who wins."""

import numpy as np
import pytest
import xarray
from scipy.stats import wasserstein_distance

from metastable.models.baselines import BASELINES, baselines, best_constant, compared, verdict


def cosines(layers, texts, n, seed=0):
    x = np.random.default_rng(seed).normal(size=(layers, texts, n, 5)) + 0.7
    x = x / np.linalg.norm(x, axis=-1, keepdims=True)
    return x @ np.swapaxes(x, -1, -2)


@pytest.fixture(scope="module")
def H():
    return cosines(4, 3, 6)


def plain_distances(G, H):
    i, j = np.triu_indices(len(H), 1)
    return np.linalg.norm(G - H) / np.linalg.norm(H), wasserstein_distance(G[i, j], H[i, j])


def test_every_baseline_by_hand(H):
    data = baselines(H, 0.9)
    assert data.baseline.values.tolist() == list(BASELINES)
    c = dict(zip(data.distance.values, data["constant"].values))
    for text in range(3):
        for layer in range(4):
            here, own = data.sel(text=text, layer=layer), H[layer, text]
            for k, key in enumerate(("gram_distance", "wasserstein")):
                others = [H[0, text], np.ones((6, 6)), np.where(np.eye(6) > 0, 1.0, c[key])]
                expected = [plain_distances(G, own)[k] for G in others]
                np.testing.assert_allclose(here[key], expected, atol=1e-12)
    assert np.isnan(data["rand_index"].sel(baseline="best constant")).all()
    assert (data["gram_distance"].sel(baseline="frozen tokens", layer=0) == 0).all()


def test_no_other_constant_is_better(H):
    for k, name in enumerate(("gram_distance", "wasserstein")):

        def mean(c, k=k):
            found = [plain_distances(np.where(np.eye(6) > 0, 1.0, c), h)[k] for layer in H[1:] for h in layer]
            return np.mean(found)

        best = best_constant(H, name)
        assert all(mean(best) <= mean(c) + 1e-9 for c in np.linspace(-1, 1, 401))


def dataset(axis, names, values):
    """Distances that are the same in both measures, for 4 texts and 3 layers."""
    noise = 0.01 * np.array([1.0, -1.0, 0.5, -0.5])[None, :, None]
    table = np.asarray(values)[:, None, None] + noise * np.ones((len(values), 1, 3))
    both = dict.fromkeys(("gram_distance", "wasserstein"), ((axis, "text", "layer"), table))
    return xarray.Dataset(both, {axis: names})


def test_who_wins():
    climbed = dataset("rung", [0, 1, 4], [1.9, 1.5, 0.0])
    beside = dataset("baseline", list(BASELINES), [0.8, 1.7, 2.0])
    said = verdict(climbed, beside)
    assert said[0] == (
        "Tokens that do not move at all are nearer to the model than every rung below the exact network, in both "
        "distances (Gram distance 0.80, Wasserstein 0.80; the best of them, rung 1: Gram distance 1.50, "
        "Wasserstein 1.50)."
    )
    assert "rung 1 is nearer to the model in both distances; rung 0 is farther in both." in said[1]
    assert "rungs 0, 1 are nearer to the model in both distances." in said[2]
    assert [compared(climbed.sel(rung=k), beside.sel(baseline="one point")) for k in (0, 1)] == [1, -1]


def test_distances_that_disagree_name_no_winner():
    climbed = dataset("rung", [0, 4], [1.0, 0.0])
    beside = dataset("baseline", ["frozen tokens"], [0.5])
    beside["wasserstein"] = beside["wasserstein"] + 1.0
    assert "rung 0 is not told apart by both" in verdict(climbed, beside)[0]
