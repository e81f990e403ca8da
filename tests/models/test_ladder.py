"""The top rung is the network; the lower ones are what their names say."""

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import ladder, load, texts
from metastable.models.rungs import RUNGS, rung
from metastable.models.spectra import squared_length
from tests.models.conftest import IDS, NAMES, plain

EXACT = {"albert": 1e-10, "bert": 1e-10, "roberta": 1e-10, "gpt2": 1e-10}


DEPTH = 5  # of the ALBERT: deeper than it was made, and the depth at which test_command studies it (compiled once)
QUICK = ("albert", "gpt2", "llama")  # the others take other branches of the same code, and time to compile


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NAMES])
def test_top_rung_is_the_network(models, name):
    model = models[name]
    layers = DEPTH if model.shared else None
    climb = ladder(model, IDS, layers=layers, rungs=(4,))
    states, maps = plain(model, IDS, layers)
    for l, x in enumerate(states):
        assert np.linalg.norm(climb.runs[0].x[l] - x) < EXACT.get(name, 1e-5) * np.linalg.norm(x)
    top = climb.data.sel(rung=4)
    assert float(top["relative_error"].max()) < EXACT.get(name, 1e-5)
    assert float(top["wasserstein"].max()) < 1e-5
    assert float(top["rand_index"].min()) == 1.0
    np.testing.assert_allclose(climb.runs[0].attention(1), maps[1], atol=1e-5)


def test_real_and_deeper_than_trained(reactions):
    climb = ladder(reactions, "CCO.CC(=O)O>>CCOC(C)=O", layers=16, rungs=(4,))
    assert float(climb.data["relative_error"].max()) < 1e-10


@pytest.mark.slow
def test_all_rungs_deep_and_real(reactions, reaction_strings):
    text = min(reaction_strings[:50], key=len)
    climb = ladder(reactions, text, layers=48)
    data = climb.data
    assert float(data["relative_error"].sel(rung=4).max()) < 1e-10
    assert data["part"].values.tolist() == list(RUNGS)
    # without its MLP the model collapses, and the ladder says so
    assert float(data["mean_cosine"].sel(rung=3, layer=48)) > 0.99 > float(data["model_mean_cosine"].sel(layer=48))
    assert np.isfinite(data["step_error"].sel(rung=[0, 1, 2])).all()
    assert float(data["step_error"].sel(rung=2, layer=0)) < 1e-12


def test_lower_rungs_by_hand(models):
    """One layer of each sphere rung from its formula."""
    model = models["albert"]
    block = model.block(0)
    climb = ladder(model, IDS, layers=DEPTH, rungs=(0, 1, 2), head=2)
    r2 = squared_length(model, 0)
    y = climb.real.x[0] / np.linalg.norm(climb.real.x[0], axis=1, keepdims=True)
    for run, heads, biased in zip(climb.runs, ([2], range(4), range(4)), (0.0, 0.0, 1.0)):
        moved = y + biased * block.o_bias / np.sqrt(r2)
        for h in heads:
            q, k, v = (
                y @ W[h].T + biased * b[h] / np.sqrt(r2)
                for W, b in ((block.Q, block.q_bias), (block.K, block.k_bias), (block.V, block.v_bias))
            )
            scores = block.scale * r2 * q @ k.T
            A = np.exp(scores - scores.max(axis=1, keepdims=True))
            A /= A.sum(axis=1, keepdims=True)
            moved = moved + A @ v @ block.O[h].T
        np.testing.assert_allclose(run.x[1], moved / np.linalg.norm(moved, axis=1, keepdims=True), atol=1e-10)


@pytest.mark.slow
def test_distances_by_hand(models):
    from scipy.stats import wasserstein_distance

    model = models["gpt2"]
    climb = ladder(model, IDS, rungs=(1, 3), threshold=0.5)
    real = climb.real.x[2] / np.linalg.norm(climb.real.x[2], axis=1, keepdims=True)
    rung3 = climb.runs[1].x[2]
    unit = rung3 / np.linalg.norm(rung3, axis=1, keepdims=True)
    i, j = np.triu_indices(10, 1)
    here = climb.data.sel(rung=3, layer=2)
    np.testing.assert_allclose(here["wasserstein"], wasserstein_distance((unit @ unit.T)[i, j], (real @ real.T)[i, j]))
    np.testing.assert_allclose(
        here["gram_distance"], np.linalg.norm(unit @ unit.T - real @ real.T) / np.linalg.norm(real @ real.T)
    )
    np.testing.assert_allclose(
        here["relative_error"], np.linalg.norm(rung3 - climb.real.x[2]) / np.linalg.norm(climb.real.x[2])
    )
    assert np.isnan(climb.data["relative_error"].sel(rung=1)).all()
    assert np.isnan(climb.data["step_error"]).all()


def test_fewer_layers_have_no_final_norm(models):
    climb = ladder(models["llama"], IDS, layers=2, rungs=(4,))
    np.testing.assert_allclose(climb.runs[0].x, plain(models["llama"], IDS)[0][:3], rtol=1e-5, atol=1e-6)


def test_what_cannot_be_climbed(models, folders):
    with pytest.raises(InputError, match="rungs 0 to 4, not 5"):
        rung(models["bert"], 5, 10, 3)
    with pytest.raises(InputError, match="heads 0 to 3, not 4"):
        ladder(models["bert"], IDS, head=4)
    with pytest.raises(InputError, match="single token"):
        ladder(models["llama"], [3])
    with pytest.raises(InputError, match="empty"):
        ladder(models["llama"], [])
    with pytest.raises(InputError, match="part='encoder'"):
        rung(load(folders["t5"], part="decoder"), 4, 10, 3)


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize(("name", "tolerance"), [("minilm", 1e-10), ("title-t5", 1e-5), ("smollm2", 1e-5)])
def test_real_weights(name, tolerance):
    text = next(texts("english"))[:150]
    climb = ladder(name, text, rungs=(4,))
    assert float(climb.data["relative_error"].max()) < tolerance
