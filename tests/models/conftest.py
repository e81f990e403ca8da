"""Small random models of every family, built here and saved as folders; no network, no tokenizer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import Model, load, zoo

IDS = [3, 17, 5, 41, 17, 2, 8, 3, 29, 11]
VOCABULARY = 50
SMALL = ("albert", "bert", "roberta", "t5", "gpt2", "llama", "mistral", "qwen2")  # what `build` makes


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)  # small matrices, and the machine is shared


def build(name: str) -> Any:
    """A random model of about four thousand weights, spread out so that nothing is near zero."""
    import torch
    import transformers as tf

    torch.manual_seed(sum(map(ord, name)))
    common = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4}
    wide = common | {"intermediate_size": 24, "max_position_embeddings": 64}
    grouped = wide | {"num_key_value_heads": 2, "head_dim": 4}
    t5 = {"vocab_size": VOCABULARY, "d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 3, "num_heads": 3}
    make = {
        "albert": lambda: tf.AlbertModel(tf.AlbertConfig(**wide, embedding_size=8)),
        "bert": lambda: tf.BertModel(tf.BertConfig(**wide)),
        "roberta": lambda: tf.RobertaModel(tf.RobertaConfig(**wide)),
        "t5": lambda: tf.T5Model(tf.T5Config(**t5, feed_forward_proj="gated-gelu")),
        "gpt2": lambda: tf.GPT2Model(
            tf.GPT2Config(vocab_size=VOCABULARY, n_embd=16, n_layer=3, n_head=4, n_positions=64)
        ),
        "llama": lambda: tf.LlamaModel(tf.LlamaConfig(**grouped)),
        "mistral": lambda: tf.MistralModel(tf.MistralConfig(**grouped, sliding_window=4)),
        "qwen2": lambda: tf.Qwen2Model(tf.Qwen2Config(**wide, num_key_value_heads=2)),
    }
    model = make[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One saved folder per family."""
    home = tmp_path_factory.mktemp("saved")
    for name in SMALL:
        build(name).save_pretrained(home / name)
    return {name: home / name for name in SMALL}


@pytest.fixture(scope="session")
def models(folders: dict[str, Path]) -> dict[str, Model]:
    """Every family, loaded in float64."""
    return {name: load(folder, dtype="float64") for name, folder in folders.items()}


@pytest.fixture(scope="session")
def reactions() -> Model:
    """The zoo's smallest model with its real weights, where it is cached or can be fetched."""
    try:
        return load("reactions-albert", dtype="float64")
    except InputError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def reaction_strings() -> list[str]:
    try:
        return zoo.reactions()
    except InputError as error:
        pytest.skip(str(error))


def plain(model: Model, ids: list[int], layers: int | None = None) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Hidden states and attention maps straight from the library, as float64 arrays."""
    import torch

    stack = model.stack
    before = stack.config.num_hidden_layers
    if layers is not None:
        stack.config.num_hidden_layers = layers
    try:
        with torch.no_grad():
            out = stack(input_ids=torch.tensor([ids]), output_hidden_states=True, output_attentions=True)
    finally:
        if layers is not None:
            stack.config.num_hidden_layers = before
    states = [x[0].double().numpy() for x in out.hidden_states]
    return states, [A[0].double().numpy() for A in out.attentions]
