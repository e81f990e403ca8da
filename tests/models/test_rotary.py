"""Rotary frequencies agree with the library's own, for every way of stretching them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from metastable.errors import InputError
from metastable.models.rotary import frequencies

SIZES = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 256}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
TABLES = {"short_factor": [1.0 + m for m in range(8)], "long_factor": [2.0 + m for m in range(8)]}
SCALINGS: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "factor": 3.0},
    "llama3": {"rope_type": "llama3", **LLAMA3},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "yarn, all given": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 64,
        "beta_fast": 4.0,
        "beta_slow": 0.5,
        "truncate": False,
        "attention_factor": 1.7,
    },
    "yarn, two lengths": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 64,
        "mscale": 1.0,
        "mscale_all_dim": 0.5,
    },
    "longrope": {"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 64, **TABLES},
}


@pytest.mark.parametrize("name", list(SCALINGS))
@pytest.mark.parametrize("theta", [10000.0, 500000.0])
def test_as_the_library_has_them(name: str, theta: float) -> None:
    config = LlamaConfig(**SIZES, rope_parameters={**SCALINGS[name], "rope_theta": theta})
    judge = LlamaRotaryEmbedding(config)
    table, factor = frequencies(config)
    np.testing.assert_allclose(table, judge.inv_freq.numpy(), rtol=1e-6)
    assert factor == pytest.approx(judge.attention_scaling, rel=1e-12)


def test_long_texts_have_their_own_table() -> None:
    config = LlamaConfig(**SIZES, rope_parameters={**SCALINGS["longrope"], "rope_theta": 10000.0})
    short, long = frequencies(config, 64)[0], frequencies(config, 65)[0]
    np.testing.assert_allclose(short / long, np.array(TABLES["long_factor"]) / TABLES["short_factor"], rtol=1e-6)


def test_older_words_and_parts_of_a_head() -> None:
    older = SimpleNamespace(**SIZES, rope_theta=10000.0, rope_scaling={"type": "linear", "factor": 2.0})
    newer = LlamaConfig(**SIZES, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0})
    np.testing.assert_array_equal(frequencies(older)[0], frequencies(newer)[0])
    part = SimpleNamespace(**SIZES, partial_rotary_factor=0.25)
    assert frequencies(part)[0].shape == (2,)
    nested = {"full_attention": {"rope_type": "default", "rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    layers = SimpleNamespace(**SIZES, rope_parameters=nested)
    assert frequencies(layers, kind="full_attention")[0][1] < frequencies(layers, kind="sliding_attention")[0][1]


@pytest.mark.parametrize("given", [{"rope_type": "ntk"}, {"rope_type": "linear"}, {"rope_type": "longrope"}])
def test_what_is_not_known_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="rotary scaling"):
        frequencies(SimpleNamespace(**SIZES, rope_parameters=given))
