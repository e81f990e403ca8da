"""Models that are put together in unusual ways: what they show is measured, what cannot be told is refused."""

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import load, probe
from tests.models.conftest import IDS

PLAIN = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4}
PLAIN |= {"intermediate_size": 24, "max_position_embeddings": 64, "pad_token_id": 0}
# type -> its configuration, and the heads and masks that are found
SHOWN = {
    "deberta-v2": (PLAIN | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, 4, "full"),
    "xlnet": ({"vocab_size": 50, "d_model": 16, "n_layer": 3, "n_head": 4, "d_inner": 24}, 4, "full"),
    "longformer": (PLAIN | {"attention_window": [4, 4, 4]}, 0, "full"),
    "fnet": ({k: v for k, v in PLAIN.items() if k != "num_attention_heads"}, 0, "full"),
    "mamba": ({"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 3, "state_size": 4}, 0, "full"),
}
PEGASUS = {"vocab_size": 50, "d_model": 16, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4}
PEGASUS |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "num_global_tokens": 2}
PEGASUS |= {"block_size": 4}
REFORMER = {
    **{"vocab_size": 50, "hidden_size": 16, "attn_layers": ["local"] * 3, "num_attention_heads": 4},
    **{"attention_head_size": 4, "feed_forward_size": 24, "axial_pos_shape": [8, 8], "axial_pos_embds_dim": [8, 8]},
    **{"max_position_embeddings": 64, "local_attn_chunk_length": 4},
}


def made(kind, sizes):
    import torch
    import transformers as tf

    torch.manual_seed(0)
    return tf.AutoModel.from_config(tf.AutoConfig.for_model(kind, **sizes)).eval()


@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k == "longformer" else pytest.mark.slow) for k in SHOWN])
def test_what_a_model_shows_is_measured(kind, tmp_path):
    sizes, heads, mask = SHOWN[kind]
    made(kind, sizes).save_pretrained(tmp_path)
    model = load(tmp_path)
    found = probe(model, [IDS, IDS[:7]])
    assert (model.depth, model.heads, model.mask(0)) == (3, heads, mask)
    assert found.tokens == 17
    assert np.isfinite(found.similarity["mean"].sel(kind="raw")).all()
    assert (found.heads is None) == (heads == 0)
    assert ("does not show attention maps" in " ".join(found.notes)) == (heads == 0)


def test_a_text_that_is_filled_up_is_refused():
    """A Reformer computes whole chunks: ten tokens come back as twelve states."""
    model = load(made("reformer", REFORMER))
    with pytest.raises(InputError, match="makes 12 states of 10 tokens"):
        probe(model, [IDS])
    assert probe(model, [IDS[:8]]).tokens == 8


def test_states_in_several_parts_are_refused():
    """Those of a Pegasus-X are pairs: local and global tokens."""
    with pytest.raises(InputError, match="states in several parts"):
        probe(made("pegasus_x", PEGASUS), [IDS])
