"""Ranks of attention maps are those that NumPy gives from the library's own maps, and stand in probe and study."""

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import from_arrays, ladder, load, probe
from metastable.models.attention_ranks import LARGEST, attention_ranks
from metastable.models.conclusions import findings
from metastable.models.controls import random_tokens
from metastable.models.study_figures import every_picture
from metastable.models.study_steps import _ranks
from tests.models.conftest import IDS, plain
from tests.models.study_records import made_study
from tests.models.tiny_models import LAYERS, build


def effective(A):
    s = np.linalg.svd(A, compute_uv=False)
    p = s / s.sum(-1, keepdims=True)
    return np.exp(-(p * np.log(np.maximum(p, 1e-300))).sum(-1))


@pytest.mark.parametrize("name", [pytest.param("bert", marks=pytest.mark.slow), "gpt2"])
def test_ranks_are_those_of_the_librarys_maps(models, name):
    model = models[name]
    maps = plain(model, IDS)[1]
    found = probe(model, [IDS, IDS[:4]]).ranks
    n = 4 if len(IDS) <= 8 else len(IDS)  # texts are cut to the shortest that is half as long as the longest
    assert found.tokens.values.tolist() == [n] * found.sizes["text"]
    found = attention_ranks(model, [IDS], model.depth)
    for layer, A in enumerate(maps):
        np.testing.assert_allclose(found["effective_rank"][layer, :, 0], effective(A), rtol=1e-9)
        s = np.linalg.svd(A, compute_uv=False)
        np.testing.assert_array_equal(found["rank"][layer, :, 0], (s > 1e-3 * s[:, :1]).sum(-1))
    even = np.tril(np.ones((len(IDS),) * 2)) if model.causal else np.ones((len(IDS),) * 2)
    np.testing.assert_allclose(found["even"], effective(even / even.sum(1, keepdims=True)), rtol=1e-9)


def test_ranks_of_given_maps_and_of_none():
    rng = np.random.default_rng(0)
    states, maps = rng.normal(size=(3, 5, 4)), np.tile(np.eye(5), (2, 3, 1, 1))
    given = from_arrays(states, maps)
    np.testing.assert_allclose(given.ranks["effective_rank"], 5.0)
    assert from_arrays(states).ranks is None
    long = LARGEST + 1
    one = np.full((1, 1, long, long), 1.0 / long, dtype=np.float32)
    assert from_arrays(rng.normal(size=(2, long, 2)), one).ranks is None  # its singular values would take too long


def test_ranks_of_controls_are_those_of_the_changed_models(models):
    """A study measures them on the same inputs, a seed after the other."""
    model, texts = models["bert"], [[3, 17, 5, 41, 17, 2, 8], [9, 4, 4, 30, 2, 2, 17]]
    found = probe(model, texts, control=("init", "tokens"), seeds=2, measure=("similarity",))
    own = _ranks(model, found)
    beside = own["controls_ranks"]["effective_rank"]
    assert beside.dims == ("control", "seed", "layer", "head", "text")
    fresh = attention_ranks(model.untrained(1), texts, model.depth)["effective_rank"]
    np.testing.assert_array_equal(beside.sel(control="init", seed=1), fresh)
    drawn = list(random_tokens(model, texts, model.longest, 0))
    assert drawn != texts
    expected = attention_ranks(model, drawn, model.depth)["effective_rank"]
    np.testing.assert_array_equal(beside.sel(control="tokens", seed=0), expected)
    assert set(_ranks(model, probe(model, texts, measure=("similarity",)))) == {"ranks"}


def test_the_page_says_them(tmp_path):
    study = made_study(tmp_path)
    said = " ".join(next(one for one in findings(study) if one.name == "heads").sentences)
    assert (
        "On 2 inputs of 6 tokens the effective rank of the attention maps is 2.5 in the median head and 1.0 to 4.0"
        in said
    )
    assert "evenly spread attention has 1.0" in said
    assert "ranks" in every_picture(study)


@pytest.mark.slow
def test_the_ladder_is_climbed_on_pictures(tmp_path):
    build("vit").save_pretrained(tmp_path / "vit")
    model = load(tmp_path / "vit")
    rng = np.random.default_rng(0)
    pictures = [rng.normal(size=(3, 6, 6)).astype(np.float32) for _ in range(3)]
    climb = ladder(model, pictures)
    assert climb.data.sizes == {"rung": 5, "text": 3, "layer": LAYERS + 1}
    assert float(climb.data["exact_error"].max()) < 1e-5
    assert ladder(model, pictures[0], parts=False).data.sizes["text"] == 1
    with pytest.raises(InputError, match="reads no text; give pictures"):
        ladder(model)
    with pytest.raises(InputError, match="must be of one size"):
        ladder(model, [pictures[0], np.zeros((3, 6, 8), dtype=np.float32)])
