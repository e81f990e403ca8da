"""Particles on the sphere move as the directions of the model's tokens do under attention alone."""

from dataclasses import replace

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import load
from metastable.models.rungs import rung
from metastable.models.sphere_rungs import Length, one_length, read_length, typical_lengths
from tests.models.conftest import IDS, build


def attention_of_first_layer(stack, name, x):
    """What the first layer's attention adds to tokens x (n, d), straight from the library's modules."""
    import torch

    x = torch.tensor(x)[None]
    with torch.no_grad():
        if name == "gpt2":
            mask = torch.full((x.shape[1], x.shape[1]), -torch.inf, dtype=x.dtype).triu(1)[None, None]
            return stack.h[0].attn(stack.h[0].ln_1(x), attention_mask=mask)[0][0].numpy()
        if name == "t5":
            layer = stack.encoder.block[0].layer[0]
            return layer.SelfAttention(layer.layer_norm(x))[0][0].numpy()
        layer = stack.layers[0]
        places = stack.rotary_emb(x, torch.arange(x.shape[1])[None])
        mask = torch.full((x.shape[1], x.shape[1]), -torch.inf, dtype=x.dtype).triu(1)[None, None]
        return layer.self_attn(layer.input_layernorm(x), position_embeddings=places, attention_mask=mask)[0][0].numpy()


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_long_tokens_turn_as_the_models_own(name, tmp_path):
    """Tokens of length r = 400: the particle's step is the model's attention step, to second order in 1/r."""
    module = build(name).double()
    module.save_pretrained(tmp_path)
    model = load(tmp_path, dtype="float64")
    y = np.random.default_rng(0).normal(size=(len(IDS), 16))
    y = y / np.linalg.norm(y, axis=1, keepdims=True)
    if name == "gpt2":  # a LayerNorm's length depends on the mean coordinate: nearly the same for all
        y = y - y.mean(axis=1, keepdims=True) + 0.05
        y = y / np.linalg.norm(y, axis=1, keepdims=True)
        inner = np.linalg.norm(y - y.mean(axis=1, keepdims=True), axis=1)
        assert np.ptp(inner) < 0.1
    r = 400.0
    added = attention_of_first_layer(module.double(), name, r * y)
    model_turn = r * y + added
    model_turn = model_turn / np.linalg.norm(model_turn, axis=1, keepdims=True) - y
    found = rung(model, 2, len(IDS), 1, lengths=typical_lengths((r * y)[None]))
    turn = np.asarray(found.layer(0.0, y, 1.0)) - y
    rough = 0.05 if name == "gpt2" else 1e-7
    np.testing.assert_allclose(turn, model_turn, atol=rough * np.abs(model_turn).max())
    tangent = added - (added * y).sum(axis=1, keepdims=True) * y
    np.testing.assert_allclose(turn, tangent / r, atol=max(rough, 0.1) * np.abs(turn).max())


def test_ten_times_longer_tokens_turn_ten_times_slower(models):
    y = np.random.default_rng(1).normal(size=(6, 16))
    y = y / np.linalg.norm(y, axis=1, keepdims=True)
    turns = [
        np.linalg.norm(rung(models["llama"], 1, 6, 1, lengths=[Length(r, r)]).layer(0.0, y, 1.0) - y)
        for r in (1000.0, 10000.0)
    ]
    np.testing.assert_allclose(turns[0] / turns[1], 10.0, rtol=1e-2)


def test_lengths(models):
    x = np.random.default_rng(2).normal(size=(2, 3, 5, 16)) + 0.5
    found = typical_lengths(x)
    assert len(found) == 2
    np.testing.assert_allclose(found[1].token, np.median(np.linalg.norm(x[1], axis=-1)))
    np.testing.assert_allclose(
        found[1].centred, np.median(np.linalg.norm(x[1] - x[1].mean(axis=-1, keepdims=True), axis=-1))
    )
    assert one_length([Length(1.0, 1.0), Length(3.0, 2.0), Length(2.0, 1.5)]) == Length(2.0, 1.5)
    block = models["gpt2"].block(0)
    np.testing.assert_allclose(read_length(block, Length(5.0, 3.0)), 4 * 5 / np.sqrt(9 + 16 * block.attention_norm.eps))
    assert read_length(replace(block, order="post"), Length(5.0, 3.0)) == 5.0


def test_lengths_are_needed(models):
    with pytest.raises(InputError, match="need the lengths of the tokens of 3 layers, not 0"):
        rung(models["bert"], 1, 10, 3)
