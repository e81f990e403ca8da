"""The top rung is the network; the lower ones are what their names say."""

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import ladder, load, texts
from metastable.models.common_texts import several
from metastable.models.rungs import RUNGS, rung
from metastable.models.sphere_rungs import one_length, typical_lengths
from tests.models.conftest import IDS, SMALL, plain

EXACT = {"albert": 1e-10, "bert": 1e-10, "roberta": 1e-10, "gpt2": 1e-10}
OTHER = [2, 9, 30, 4, 44, 12, 6, 21, 7, 33]


DEPTH = 5  # of the ALBERT: deeper than it was made, and the depth at which test_command studies it (compiled once)
QUICK = ("albert", "gpt2", "llama")  # the others take other branches of the same code, and time to compile


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in SMALL])
def test_top_rung_is_the_network(models, name):
    model = models[name]
    layers = DEPTH if model.shared else None
    climb = ladder(model, [IDS, OTHER], layers=layers, rungs=(4,), parts=False, keep=True)
    for t, ids in enumerate((IDS, OTHER)):
        states, maps = plain(model, ids, layers)
        for l, x in enumerate(states):
            assert np.linalg.norm(climb.runs[0].x[l, t] - x) < EXACT.get(name, 1e-5) * np.linalg.norm(x)
        np.testing.assert_allclose(climb.runs[0].attention(1)[t], maps[1], atol=1e-5)
    top = climb.data.sel(rung=4)
    assert float(top["exact_error"].max()) < EXACT.get(name, 1e-5)
    assert float(top["relative_error"].max()) < EXACT.get(name, 1e-5)
    assert float(top["wasserstein"].max()) < 1e-5
    assert float(top["rand_index"].min()) == 1.0


def test_a_float32_model_is_exact_in_float64(folders):
    """The rungs are run in the model's precision, and the top one in float64 as well."""
    climb = ladder(load(folders["gpt2"]), [IDS, OTHER], rungs=(4,), parts=False)
    assert float(climb.data["exact_error"].max()) < 1e-10
    assert 1e-9 < float(climb.data["relative_error"].max()) < 1e-4


def test_real_and_deeper_than_trained(reactions):
    climb = ladder(reactions, "CCO.CC(=O)O>>CCOC(C)=O", layers=16, rungs=(4,), parts=False)
    assert float(climb.data["exact_error"].max()) < 1e-10


@pytest.mark.slow
def test_all_rungs_deep_and_real(reactions, reaction_strings):
    climb = ladder(reactions, sorted(reaction_strings[:50], key=len)[:2], layers=48, parts=False)
    data = climb.data
    assert float(data["exact_error"].max()) < 1e-10
    assert data["part"].values.tolist() == list(RUNGS)
    # without its MLP the model collapses, and the ladder says so
    assert (data["mean_cosine"].sel(rung=3, layer=48) > 0.99).all()
    assert (data["model_mean_cosine"].sel(layer=48) < 0.99).all()
    assert np.isfinite(data["step_error"].sel(rung=[0, 1, 2])).all()
    assert float(data["step_error"].sel(rung=2, layer=0)) < 1e-12


def test_lower_rungs_by_hand(models):
    """One layer of each sphere rung from its formula."""
    model = models["albert"]
    block = model.block(0)
    climb = ladder(model, IDS, layers=DEPTH, rungs=(0, 1, 2), head=2, parts=False, keep=True)
    r = one_length(typical_lengths(climb.real.x[:-1])).token
    y = climb.real.x[0, 0] / np.linalg.norm(climb.real.x[0, 0], axis=1, keepdims=True)
    for run, heads, biased in zip(climb.runs, ([2], range(4), range(4)), (0.0, 0.0, 1.0)):
        moved = y + biased * block.o_bias / r
        for h in heads:
            q, k, v = (
                y @ W[h].T + biased * b[h] / r
                for W, b in ((block.Q, block.q_bias), (block.K, block.k_bias), (block.V, block.v_bias))
            )
            scores = block.scale * r**2 * q @ k.T
            A = np.exp(scores - scores.max(axis=1, keepdims=True))
            A /= A.sum(axis=1, keepdims=True)
            moved = moved + A @ v @ block.O[h].T
        np.testing.assert_allclose(run.x[1, 0], moved / np.linalg.norm(moved, axis=1, keepdims=True), atol=1e-10)


@pytest.mark.slow
def test_distances_by_hand(models):
    from scipy.stats import wasserstein_distance

    model = models["gpt2"]
    climb = ladder(model, [OTHER, IDS], rungs=(1, 3), threshold=0.5, parts=False, keep=True)
    real = climb.real.x[2, 1] / np.linalg.norm(climb.real.x[2, 1], axis=1, keepdims=True)
    rung3 = climb.runs[1].x[2, 1]
    unit = rung3 / np.linalg.norm(rung3, axis=1, keepdims=True)
    i, j = np.triu_indices(10, 1)
    here = climb.data.sel(rung=3, layer=2, text=1)
    np.testing.assert_allclose(here["wasserstein"], wasserstein_distance((unit @ unit.T)[i, j], (real @ real.T)[i, j]))
    np.testing.assert_allclose(
        here["gram_distance"], np.linalg.norm(unit @ unit.T - real @ real.T) / np.linalg.norm(real @ real.T)
    )
    np.testing.assert_allclose(
        here["relative_error"], np.linalg.norm(rung3 - climb.real.x[2, 1]) / np.linalg.norm(climb.real.x[2, 1])
    )
    assert np.isnan(climb.data["relative_error"].sel(rung=1)).all()
    assert np.isnan(climb.data["step_error"]).all()
    assert climb.parts is None


def test_kept_dynamics_are_the_rungs_that_were_run(models):
    """The dynamics that come with a run make the same run, also on the sphere."""
    from metastable.solve.simulate import simulate

    climb = ladder(models["llama"], IDS, rungs=(1, 2), parts=False, keep=True)
    for run in climb.runs:
        again = simulate(run.dynamics, run.x[0, 0], t=3, method="layers", save=4)
        np.testing.assert_allclose(again.x, run.x[:, 0], atol=1e-9)


@pytest.mark.slow
def test_step_error_by_two_runs(models):
    """Layers against the ODE, from the dynamics that came with the run."""
    from metastable.models.token_distances import gram, gram_distance
    from metastable.solve.simulate import simulate

    climb = ladder(models["albert"], [IDS, OTHER], layers=DEPTH, rungs=(1,), parts=False, keep=True)
    dynamics, start = climb.runs[0].dynamics, climb.runs[0].x[0, 0]
    layers = simulate(dynamics, start, t=DEPTH, method="layers", save=DEPTH + 1)
    flow = simulate(dynamics, start, t=float(DEPTH), method="rk4", dt=0.1, save=np.arange(DEPTH + 1.0))
    expected = gram_distance(gram(layers.x), gram(flow.x))
    np.testing.assert_allclose(climb.data["step_error"].sel(rung=1), expected, atol=1e-9)
    assert expected[-1] > 1e-3


def test_fewer_layers_have_no_final_norm(models):
    climb = ladder(models["llama"], IDS, layers=2, rungs=(4,), parts=False, keep=True)
    np.testing.assert_allclose(climb.runs[0].x[:, 0], plain(models["llama"], IDS)[0][:3], rtol=1e-5, atol=1e-6)


def test_texts_of_one_length():
    long = [list(range(k, k + 20)) for k in range(5)]
    assert several([*long, [1, 2], [3]], count=3, tokens=12) == [list(range(k, k + 12)) for k in range(3)]
    assert several([[1, 2, 3], [4, 5], [6, 7, 8, 9]]) == [[1, 2], [4, 5], [6, 7]]
    with pytest.raises(InputError, match="single token"):
        several([[1], [2]])


def test_texts_are_cut_to_the_shortest(models):
    climb = ladder(models["gpt2"], [IDS, OTHER[:7]], rungs=(1,), parts=False)
    assert climb.texts == [IDS[:7], OTHER[:7]]
    assert climb.data.sizes == {"rung": 1, "text": 2, "layer": 4}


def test_what_cannot_be_climbed(models, folders):
    with pytest.raises(InputError, match="rungs 0 to 4, not 5"):
        rung(models["bert"], 5, 10, 3)
    with pytest.raises(InputError, match="rungs 0 to 4, not 5"):
        ladder(models["bert"], IDS, rungs=(5,))
    with pytest.raises(InputError, match="heads 0 to 3, not 4"):
        ladder(models["bert"], IDS, head=4)
    with pytest.raises(InputError, match="single token"):
        ladder(models["llama"], [3])
    with pytest.raises(InputError, match="single token"):
        ladder(models["llama"], [IDS, [3]])
    with pytest.raises(InputError, match="empty"):
        ladder(models["llama"], [])
    with pytest.raises(InputError, match="without a tokenizer"):
        ladder(models["llama"])
    with pytest.raises(InputError, match="cannot be run to 9"):
        ladder(models["llama"], IDS, layers=9)
    with pytest.raises(InputError, match="part='encoder'"):
        ladder(load(folders["t5"], part="decoder"), IDS)


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize(("name", "tolerance"), [("minilm", 1e-10), ("title-t5", 1e-5), ("smollm2", 1e-5)])
def test_real_weights(name, tolerance):
    text = next(texts("english"))[:150]
    climb = ladder(name, text, rungs=(4,), parts=False)
    assert float(climb.data["exact_error"].max()) < tolerance
