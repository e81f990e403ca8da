"""Controls: what they change, what they leave, and that they are measured as the model itself is."""

import gc
import json
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import load, probe
from metastable.models.controls import ABOUT, chosen, random_tokens, seeds_of, shuffled
from metastable.models.model import Model
from metastable.models.module_model import ModuleModel
from metastable.models.tokens import Tokenizer, is_punctuation
from tests.models.conftest import IDS, SMALL, VOCABULARY, build

rng = np.random.default_rng(5)
TEXTS = [IDS, [3, 9, 9, 4], *(rng.integers(0, 50, n).tolist() for n in (12, 7))]


def weights(model):
    return {name: p.numpy(force=True).copy() for name, p in model.whole.named_parameters()}


@pytest.mark.parametrize("name", SMALL)
def test_fresh_weights_are_the_library_s_own(models, name):
    """As the class itself draws them; gains 1, biases 0; the model keeps its own."""
    model = models[name]
    before = weights(model)
    made, again, other = model.untrained(3), model.untrained(3), model.untrained(4)
    assert type(made) is type(model)
    assert (made.depth, made.heads, made.dimension, made.dtype) == (model.depth, model.heads, 16, "float64")
    first, second, third = weights(made), weights(again), weights(other)
    assert {k: v.shape for k, v in first.items()} == {k: v.shape for k, v in before.items()}
    assert all(np.array_equal(first[k], second[k]) for k in first)
    changed = [k for k, v in first.items() if v.ndim > 1]
    assert not any(np.array_equal(first[k], third[k]) or np.array_equal(first[k], before[k]) for k in changed)
    assert all(np.array_equal(weights(model)[k], v) for k, v in before.items())
    expected = {k: v.std() for k, v in build_fresh(name).items()}
    for key in changed:
        if first[key].size >= 256 and key in expected:
            np.testing.assert_allclose(first[key].std(), expected[key], rtol=0.35, err_msg=key)
    assert all(set(np.unique(v)) <= {0.0, 1.0} for v in first.values() if v.ndim == 1)


def build_fresh(name):
    """Weights of the library's model of this family, by their names in the measured part."""
    import torch

    torch.manual_seed(0)
    model = type(build(name))(build(name).config)
    prefix = "encoder." if name == "t5" else ""
    found = {k.removeprefix(prefix): v.numpy(force=True) for k, v in model.named_parameters() if k.startswith(prefix)}
    return found | ({"embed_tokens.weight": model.shared.weight.numpy(force=True)} if name == "t5" else {})


def test_a_decoder_gets_fresh_weights_with_its_encoder(folders):
    made = load(folders["t5"], part="decoder").untrained(0)
    assert made.stack is made.whole.decoder
    assert made.whole.shared.weight.std() > 0.8, "T5 draws its embeddings with standard deviation 1"
    assert np.isfinite(probe(made, [IDS]).similarity["mean"]).all()


def test_torch_s_own_random_numbers_are_left_alone(models):
    import torch

    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    models["bert"].untrained(0)
    assert torch.rand(1) == expected


@pytest.mark.parametrize("name", ["albert", "gpt2", "t5"])
def test_shuffled_matrices_keep_their_entries(models, name):
    model = models[name]
    before = weights(model)
    after = weights(model.altered(lambda key, values: shuffled(key, values, 0)))
    other = weights(model.altered(lambda key, values: shuffled(key, values, 1)))
    for key, values in before.items():
        if values.ndim < 2:
            assert np.array_equal(after[key], values), "gains and biases stay"
        else:
            assert np.array_equal(np.sort(after[key], axis=None), np.sort(values, axis=None))
            assert not np.array_equal(after[key], values)
            assert not np.array_equal(after[key], other[key])
    assert all(np.array_equal(weights(model)[k], v) for k, v in before.items())


def test_whole_numbers_and_tables_are_no_weights():
    places = np.arange(6).reshape(2, 3)
    assert shuffled("position_ids", places, 0) is places


def with_tokenizer(model):
    pieces = ("[CLS]", "[SEP]", *(f"w{i}" for i in range(2, 40)))  # fewer than the model's vocabulary
    encode = lambda text: [0, *(int(word) for word in text.split()), 1]  # noqa: E731
    return replace(model, tokenizer=Tokenizer(encode, pieces, frozenset({0, 1}), frozenset({1}), is_punctuation))


def test_random_tokens(models):
    model = with_tokenizer(models["bert"])
    texts = ["5 5 5 7 8", "  ", "9 " * 300, [0, 4, 4, 1, 6]]
    drawn = list(random_tokens(model, texts, 20, 0))
    assert [len(ids) for ids in drawn] == [7, 0, 20, 5]
    assert [ids[0] for ids in drawn if ids] == [0, 0, 0]
    assert (drawn[0][-1], drawn[3][3]) == (1, 1), "special tokens keep their places"
    inner = [i for ids in drawn for i in ids if i > 1]
    assert len(inner) == 5 + 19 + 3
    assert max(inner) < 40, "an id without a token is not drawn"
    assert drawn == list(random_tokens(model, texts, 20, 0))
    assert drawn != list(random_tokens(model, texts, 20, 1))
    (none,) = random_tokens(models["bert"], [[1, 2, 3] * 40], 200, 0)
    assert 0 <= min(none) < max(none) < VOCABULARY


def test_controls_are_measured_as_the_model_itself_is(models):
    model = models["albert"]
    found = probe(model, TEXTS, layers=6, bins=20, control=("tokens", "init", "shuffle"), seeds=2)
    assert found.controls is not None
    similarity, heads, sinks = found.controls.similarity, found.controls.heads, found.controls.sinks
    assert similarity.sizes["control"] == 3
    assert similarity["mean"].dims == ("control", "seed", "layer", "kind")
    assert similarity.control.values.tolist() == ["init", "shuffle", "tokens"]
    assert similarity.layer.values.tolist() == list(range(7)), "beyond the trained depth, as the model itself"
    assert heads["correlation"].sizes == {"control": 3, "seed": 2, "layer": 6, "head": 4, "other": 4}
    assert "received" not in heads
    assert json.loads(sinks.attrs["about"]) == ABOUT
    by_hand = {
        "init": probe(model.untrained(1), TEXTS, layers=6, bins=20),
        "shuffle": probe(model.altered(lambda k, v: shuffled(k, v, 1)), TEXTS, layers=6, bins=20),
        "tokens": probe(model, list(random_tokens(model, TEXTS, 64, 1)), layers=6, bins=20),
    }
    for name, alone in by_hand.items():
        for data, own in ((similarity, alone.similarity), (heads, alone.heads), (sinks, alone.sinks)):
            here = data.sel(control=name, seed=1)
            for key in here.data_vars:
                np.testing.assert_array_equal(here[key], own[key], err_msg=f"{name} {key}")
    plain = probe(model, TEXTS, layers=6, bins=20)
    assert plain.controls is None
    np.testing.assert_array_equal(plain.similarity["mean"], found.similarity["mean"])


def test_a_generator_of_texts_and_chosen_seeds(models):
    done: list[tuple[int, int | None]] = []
    options = {"measure": "similarity", "control": "init", "seeds": [7, 11]}
    found = probe(models["llama"], iter(TEXTS), progress=lambda *p: done.append(p), **options)
    assert found.controls.similarity.seed.values.tolist() == [7, 11]
    assert found.controls.heads is None
    assert done == [(k + 1, 12) for k in range(12)]


def test_an_interrupted_control_is_resumed(models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from metastable.models import stream

    monkeypatch.setattr(stream, "_SAVE_EVERY", 0.0)
    model, path = models["bert"], tmp_path / "state.npz"
    options = {"control": ("init", "tokens"), "seeds": 2}
    whole = probe(model, TEXTS, **options)

    class Killed(Exception):
        pass

    for moment in (3, 6, 11, 18):

        def stop(done, total, at=moment):
            if done == at:
                raise Killed

        with pytest.raises(Killed):
            probe(model, TEXTS, resume=path, progress=stop, **options)
    found = probe(model, TEXTS, resume=path, **options)
    for name in ("similarity", "heads", "sinks"):
        assert getattr(found.controls, name).identical(getattr(whole.controls, name))
    names = ["state.npz", *(f"state-{c}-{s}.npz" for c in ("init", "tokens") for s in (0, 1))]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)
    with pytest.raises(InputError, match="other settings"):  # a control of another model
        probe(model.untrained(9), TEXTS, resume=path, **options)


@pytest.mark.slow
def test_one_changed_copy_at_a_time(models, monkeypatch: pytest.MonkeyPatch):
    made: list[weakref.ref] = []

    def counted(real):
        def make(self, what):
            gc.collect()
            assert not any(ref() is not None for ref in made)
            model = real(self, what)
            made.append(weakref.ref(model.whole))
            return model

        return make

    for name in ("untrained", "altered"):
        monkeypatch.setattr(ModuleModel, name, counted(getattr(ModuleModel, name)))
    probe(models["bert"], TEXTS, measure="similarity", control=("init", "shuffle"), seeds=2)
    assert len(made) == 4


class Bare(Model):
    """States that fall from the sky: no weights, no vocabulary."""

    name, tokenizer, kind, depth, heads, dimension, dtype = "bare", None, "none", 2, 0, 3, "float64"
    longest, vocabulary, parameters, digest = 9, None, 0, ""

    def mask(self, layer):
        return "full"

    def watch(self, ids, layers, states, attention):
        for layer in range(layers + 1):
            states(layer, np.eye(3)[np.asarray(ids) % 3])


def test_controls_that_are_not_possible():
    with pytest.raises(InputError, match=r"'init' is left out: the weights of 'bare'.*'tokens' is left out"):
        probe(Bare(), [IDS], control=("init", "tokens"))

    class Reader(Bare):
        vocabulary = 50

    found = probe(Reader(), [IDS], control=("shuffle", "tokens"), seeds=1)
    assert found.controls.similarity.control.values.tolist() == ["tokens"]
    assert any("'shuffle' is left out" in note for note in found.notes)


def test_names_and_seeds_are_checked(models):
    assert chosen("init,shuffle") == ("init", "shuffle")
    assert seeds_of((4, 2)) == (4, 2)
    with pytest.raises(InputError, match="did you mean 'shuffle'"):
        probe(models["bert"], [IDS], control=("shufle",))
    for wrong in (0, -1, [], [1, 1], [-2]):
        with pytest.raises(InputError, match="seeds must be"):
            probe(models["bert"], [IDS], control="init", seeds=wrong)


def test_controls_of_a_model_without_the_library(folders, models):
    """Shuffled weights and random tokens are those of the library's model; fresh ones other numbers of the same law."""
    own = load(folders["albert"], dtype="float64", library="own")
    options = {"layers": 5, "measure": "similarity", "control": tuple(ABOUT), "seeds": 1}
    found, expected = (probe(model, TEXTS[:2], **options).controls.similarity for model in (own, models["albert"]))
    for name in ("shuffle", "tokens"):
        np.testing.assert_allclose(found["mean"].sel(control=name), expected["mean"].sel(control=name), atol=1e-9)
    assert np.isfinite(found["mean"].sel(control="init", kind="raw")).all()
