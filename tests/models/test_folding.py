"""The maps that move tokens: the norm in front of attention is part of them."""

import numpy as np
import pytest

from metastable.models.folding import folded
from tests.models.conftest import IDS, plain

PRE = ("gpt2", "llama", "t5", "qwen2")


def normed(norm, x):
    """The norm itself, written out."""
    x = x - x.mean(axis=-1, keepdims=True) if norm.kind == "layer" else x
    z = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + norm.eps)
    return norm.gain * z + (0.0 if norm.bias is None else norm.bias)


def unscaled(norm, x):
    """x over the root mean square that the norm divides by."""
    inside = x - x.mean(axis=-1, keepdims=True) if norm.kind == "layer" else x
    return x / np.sqrt((inside**2).mean(axis=-1, keepdims=True) + norm.eps)


@pytest.mark.parametrize("name", PRE)
def test_folded_maps_on_unscaled_tokens_are_the_maps_on_normed_ones(models, name):
    model = models[name]
    block = model.block(1)
    maps = folded(block)
    x = plain(model, IDS)[0][1]  # what enters layer 1
    n, z = normed(block.attention_norm, x), unscaled(block.attention_norm, x)
    for W, bias, F, moved in (
        (block.Q, block.q_bias, maps.Q, maps.q_bias),
        (block.K, block.k_bias, maps.K, maps.k_bias),
        (block.V, block.v_bias, maps.V, maps.v_bias),
    ):
        stored = np.einsum("hkd,nd->hnk", W, n) + (0.0 if bias is None else bias[:, None])
        found = np.einsum("hkd,nd->hnk", F, z) + (0.0 if moved is None else moved[:, None])
        np.testing.assert_allclose(found, stored, rtol=1e-10, atol=1e-12)
    assert maps.O is block.O
    assert maps.scale == block.scale


@pytest.mark.parametrize("name", ["albert", "bert"])
def test_a_post_norm_layer_reads_the_token_as_it_is(models, name):
    block = models[name].block(0)
    maps = folded(block)
    for field in ("Q", "K", "V", "O", "q_bias", "k_bias", "v_bias", "o_bias"):
        assert getattr(maps, field) is getattr(block, field)


def test_a_layer_norm_centres(models):
    """Adding a constant to all coordinates changes nothing that a LayerNorm's maps see."""
    maps = folded(models["gpt2"].block(0))
    np.testing.assert_allclose(maps.V @ np.ones(16), 0.0, atol=1e-12)
    assert np.abs(folded(models["llama"].block(0)).V @ np.ones(16)).max() > 0.1
