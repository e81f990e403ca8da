"""The control 'init' without PyTorch: tensor by tensor the law of the library's own initialisation."""

from types import SimpleNamespace

import numpy as np
import pytest

from metastable.models import load
from metastable.models.file_config import DEFAULTS
from metastable.models.fresh_weights import fresh

BERT = SimpleNamespace(model_type="bert", initializer_range=0.05, pad_token_id=3)


@pytest.mark.parametrize("kind", DEFAULTS)
def test_every_tensor_is_drawn_by_the_library_s_law(kind, tmp_path):
    """Deviations agree within five standard errors of both; what is constant (gains, biases, padding rows) is equal."""
    import torch
    import transformers as tf

    sizes = {"vocab_size": 60, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 40, "max_position_embeddings": 48, "initializer_range": 0.05, "pad_token_id": 2}
    sizes |= {"num_key_value_heads": 2} if kind in ("llama", "mistral", "qwen2") else {}
    torch.manual_seed(0)
    judge = tf.AutoModel.from_config(tf.AutoConfig.for_model(kind, **sizes))
    trained = {name: torch.full_like(weight, 0.3) for name, weight in judge.state_dict().items()}
    judge.save_pretrained(tmp_path, state_dict=trained)
    made = load(tmp_path, library="own").untrained(1).parts.tensors
    theirs = {name: weight.detach().double().numpy() for name, weight in judge.named_parameters() if name in made}
    assert len(theirs) > 8
    for name, there in theirs.items():
        here = made[name]
        constant = (there == there.flat[0]).all() if there.ndim == 1 else (there == 0.0).all(axis=1)
        np.testing.assert_array_equal(here[constant], there[constant], err_msg=name)
        if there.ndim > 1:
            drawn, judged = here[~constant], there[~constant]
            assert abs(drawn.std() / judged.std() - 1.0) < 5.0 / np.sqrt(drawn.size), name
            assert abs(drawn.mean()) < 5.0 * judged.std() / np.sqrt(drawn.size), name
            assert np.unique(drawn).size > 0.9 * drawn.size, name


def test_numbers_depend_on_name_and_seed_alone():
    tables = {"rotary_emb.inv_freq": np.array([0.5]), "position_ids": np.arange(6).reshape(2, 3)}
    assert all(fresh(name, table, BERT, 0) is table for name, table in tables.items())
    drawn = [
        fresh(name, np.zeros((40, 50), np.float32), BERT, seed) for name, seed in (("a.weight", 0), ("b.weight", 0))
    ]
    assert drawn[0].dtype == np.float32
    assert np.array_equal(drawn[0], fresh("a.weight", np.ones((40, 50), np.float32), BERT, 0))
    assert not np.array_equal(*drawn)
    assert not np.array_equal(drawn[0], fresh("a.weight", np.zeros((40, 50), np.float32), BERT, 1))
