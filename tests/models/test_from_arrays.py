"""States and maps that somebody else computed, in every shape people have them."""

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import from_arrays, ladder, load, probe, spectra
from metastable.trajectory import Trajectory
from tests.models.conftest import IDS, build, plain

rng = np.random.default_rng(7)


def softmax(scores):
    A = np.exp(scores)
    return A / A.sum(-1, keepdims=True)


STATES = [rng.standard_normal((4, n, 6)) for n in (9, 5, 12)]
MAPS = [softmax(rng.standard_normal((3, 2, x.shape[1], x.shape[1]))) for x in STATES]
WORDS = [[f"w{k % 4}" for k in range(x.shape[1])] for x in STATES]


def same(a, b, measures=("similarity", "heads", "sinks")):
    for name in measures:
        left, right = getattr(a, name), getattr(b, name)
        for key in left.data_vars:
            np.testing.assert_allclose(left[key], right[key], rtol=1e-9, atol=1e-12, err_msg=f"{name}/{key}")


@pytest.mark.parametrize("name", ["albert", "llama"])
def test_a_models_own_states_give_what_its_probe_gives(models, name):
    """The same numbers, whether a model is run here or its states were kept elsewhere."""
    model, texts = models[name], [IDS, IDS[:4], IDS[::-1]]
    outputs = [plain(model, ids) for ids in texts]
    found = from_arrays([np.stack(x) for x, _ in outputs], [np.stack(A) for _, A in outputs], texts)
    same(found, probe(model, texts))
    assert found.model.mask(0) == model.mask(0)
    np.testing.assert_array_equal(found.x, np.stack(outputs[0][0]))
    np.testing.assert_array_equal(found.attention(1), outputs[0][1][1])


def test_one_text_is_a_trajectory():
    found = from_arrays(STATES[0], MAPS[0], WORDS[0])
    assert isinstance(found.trajectory, Trajectory)
    assert found.trajectory.x.shape == (4, 9, 6)
    assert found.observe("clusters").sizes["time"] == 4
    assert (found.texts, found.tokens, found.layers) == (1, 9, 3)
    assert found.heads["word"].values.tolist() == WORDS[0]
    assert float(found.similarity["same_token_base"][0, 0]) > 0


def test_without_maps_there_are_similarities():
    found = from_arrays(STATES)
    assert found.heads is None
    assert found.sinks is None
    assert found.notes == ("arrays does not show attention maps of every layer, so heads and sinks are left out.",)
    assert float(found.similarity["same_token_base"].max()) == 0.0  # every token counts as another
    same(found, from_arrays(STATES, MAPS), ("similarity",))


def test_every_shape_is_the_same(tmp_path):
    whole = from_arrays(STATES[0], MAPS[0], WORDS[0])
    np.save(tmp_path / "x.npy", STATES[0])
    np.savez(tmp_path / "x.npz", states=STATES[0], attention=MAPS[0], tokens=np.array(WORDS[0]))
    same(from_arrays(tmp_path / "x.npz"), whole)
    same(from_arrays(str(tmp_path / "x.npy"), MAPS[0], WORDS[0]), whole)
    same(from_arrays({"states": STATES[0], "attention": MAPS[0], "tokens": WORDS[0]}), whole)
    same(from_arrays(STATES[:1], MAPS[:1], WORDS[:1]), whole)
    same(from_arrays(list(STATES[0]), MAPS[0], WORDS[0]), whole)  # layer by layer
    several = {f"{name}_{k}": v for name, vs in (("states", STATES), ("attention", MAPS)) for k, v in enumerate(vs)}
    np.savez(tmp_path / "many.npz", **several)
    same(from_arrays(tmp_path / "many.npz"), from_arrays(STATES, MAPS))
    block = rng.standard_normal((2, 4, 9, 6))
    same(from_arrays(block), from_arrays(list(block)), ("similarity",))


def test_a_probe_takes_states_as_it_takes_a_model(tmp_path):
    """Whoever has arrays need not know that there is a second name for it."""
    whole = {"states": STATES[0], "attention": MAPS[0], "tokens": WORDS[0]}
    np.savez(tmp_path / "x.npz", states=STATES[0], attention=MAPS[0], tokens=np.array(WORDS[0]))
    np.save(tmp_path / "x.npy", STATES[0])
    expected = from_arrays(**whole)
    same(probe(whole), expected)
    same(probe(str(tmp_path / "x.npz")), expected)
    for given in (STATES[0], list(STATES[0]), tmp_path / "x.npy"):
        same(probe(given, tokenizer=WORDS[0]), expected, ("similarity",))
    assert probe(tmp_path / "x.npy").model.name == "x.npy"
    with pytest.raises(InputError, match="cannot read a text"):
        probe(whole, ["a text"])
    with pytest.raises(InputError, match="no file"):
        probe(tmp_path / "none.npy")
    with pytest.raises(InputError, match="as the tuple they are"):
        probe(STATES[0][:, None])  # layers first, then a batch of one


def test_outputs_of_transformers_as_they_are(models):
    import torch

    model = models["bert"]
    texts = [IDS, IDS[::-1]]
    with torch.no_grad():
        out = model.stack(torch.tensor(texts), output_hidden_states=True, output_attentions=True)
    expected = probe(model, texts)
    same(from_arrays(out.hidden_states, out.attentions, texts), expected)
    same(from_arrays(out, tokens=texts), expected)


def test_torch_and_half_precision():
    import torch

    x = torch.tensor(STATES[0]).to(torch.bfloat16)
    found = from_arrays(x.requires_grad_(), torch.tensor(MAPS[0]).to(torch.float16))
    assert found.model.dtype == "float32"
    np.testing.assert_array_equal(found.x, x.detach().float().numpy())
    assert len(found.notes) <= 1


def test_special_tokens_and_punctuation_are_read_off_the_words():
    words = ["[CLS]", "a", ",", "b", ".", "[SEP]", "c", "<s>", "!"]
    found = from_arrays(STATES[0], MAPS[0], words)
    assert int(found.similarity["pairs"][0, 0]) == 36
    assert int(from_arrays(STATES[0], MAPS[0], words, special=False).similarity["pairs"][0, 0]) == 15
    uniform = found.sinks["uniform"]
    np.testing.assert_allclose(uniform.sel(kind=["separator", "punctuation"]), [1 / 9, 3 / 9])


def test_maps_that_are_no_averages_are_named():
    found = from_arrays(STATES[0], 0.5 * MAPS[0])
    assert found.notes == (
        "Rows of the attention maps do not sum to 1 (they are off by up to 0.5); they are taken as given.",
    )


@pytest.mark.parametrize("factor", [1e-300, 1e-155, 1e200, 1e307])
def test_directions_do_not_depend_on_lengths(factor):
    """Squares overflow or vanish: such tokens were left out, and statistics were nan without a word."""
    x = STATES[0].astype(np.float64)
    x /= np.abs(x).max()
    long = x * np.where(np.arange(9) == 4, factor, 1.0)[:, None]
    for given in (factor * x, long):
        found, expected = from_arrays(given).similarity, from_arrays(x).similarity
        np.testing.assert_allclose(found["mean"], expected["mean"], atol=1e-14)


def test_arrays_that_make_no_sense(tmp_path):
    x, A = STATES[0], MAPS[0]
    wrong = {
        r"at least two layers; those of text 0 are \(4, 9\)": (x[..., 0],),
        r"those of text 0 are \(1, 9, 6\)": (x[:1],),
        r"here \(3, h, 9, 9\), but those of text 0 are \(2, 2, 9, 9\)": (x, A[:2]),
        "nan or inf at layer 2": (np.where(np.arange(4)[:, None, None] == 2, np.nan, x),),
        "after softmax": (x, np.log(A)),
        "9 tokens in its states, but 3 are named": (x, A, ["a", "b", "c"]),
        "not Ellipsis|not ellipsis": (...,),
        "of numbers, not complex numbers": (x + 1j,),
        "holds no 'states'; it holds 'x'": ({"x": x},),
        "There is no file": (tmp_path / "none.npy",),
        r"those of text 0 are \(0,\)": ([],),
    }
    for sentence, given in wrong.items():
        with pytest.raises(InputError, match=sentence):
            from_arrays(*given)
    with pytest.raises(InputError, match="attention is of 1 texts, but the states are of 3"):
        from_arrays(STATES, MAPS[:1])
    with pytest.raises(InputError, match="differ in their layers and width"):
        from_arrays([x, x[:3]])
    (tmp_path / "bad.npz").write_bytes(b"PK nothing")
    with pytest.raises(InputError, match="cannot be read"):
        from_arrays(tmp_path / "bad.npz")
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(InputError, match="cannot be read"):
        from_arrays(tmp_path / "objects.npy")


def test_tokens_in_every_shape_people_have_them():
    """A list, an array, a tensor; a tokenizer, which a model would take, is refused by its name."""
    torch = pytest.importorskip("torch")
    ids = list(range(9))
    expected = from_arrays(STATES[0], MAPS[0], tokens=ids)
    for tokens in (tuple(ids), np.array(ids), torch.tensor(ids), [ids], np.array([ids]), torch.tensor([ids])):
        same(from_arrays(STATES[0], MAPS[0], tokens=tokens), expected)

    class Tokenizer:
        def __call__(self, text):
            return {"input_ids": []}

    for wrong in (Tokenizer(), "a text", np.array(3)):
        with pytest.raises(InputError, match=rf"list of ids or words.* not {type(wrong).__name__}|not int"):
            probe(STATES[0], tokenizer=wrong)


def test_what_states_cannot_do():
    model = from_arrays(STATES).model
    for refused in (lambda: spectra(model), lambda: model.block(0)):
        with pytest.raises(InputError, match="states and maps without weights"):
            refused()
    with pytest.raises(InputError, match="cannot read a text"):
        probe(model, ["a text"])
    with pytest.raises(InputError, match="without weights"):
        ladder(model, [1, 2, 3])
    with pytest.raises(InputError, match="What is .* to read"):
        probe(load(build("bert")))
    assert probe(model).texts == 3


def test_one_head_may_come_without_its_axis():
    same(from_arrays(STATES[0], MAPS[0][:, 0]), from_arrays(STATES[0], MAPS[0][:, :1]))
