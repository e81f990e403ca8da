"""A model's ``config.json`` as an object, with what the file leaves out filled in as the library does."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from metastable.errors import InputError

_BERT = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "hidden_act": "gelu",
    "max_position_embeddings": 512,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
    "is_decoder": False,
}
_LLAMA = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": None,
    "head_dim": None,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
}
# model type -> entries that a file may leave out, and what they are then
DEFAULTS: dict[str, dict[str, Any]] = {
    "albert": {
        "vocab_size": 30000,
        "embedding_size": 128,
        "hidden_size": 4096,
        "num_hidden_layers": 12,
        "num_hidden_groups": 1,
        "inner_group_num": 1,
        "num_attention_heads": 64,
        "hidden_act": "gelu_new",
        "max_position_embeddings": 512,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
    },
    "bert": _BERT,
    "roberta": _BERT | {"vocab_size": 50265, "pad_token_id": 1},
    "gpt2": {
        "vocab_size": 50257,
        "n_positions": 1024,
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
    },
    "llama": _LLAMA,
    "mistral": _LLAMA | {"num_key_value_heads": 8, "max_position_embeddings": 131072, "sliding_window": 4096},
    "qwen2": _LLAMA
    | {
        "vocab_size": 151936,
        "num_key_value_heads": 32,
        "max_position_embeddings": 32768,
        "use_sliding_window": False,
        "sliding_window": 4096,
        "max_window_layers": 28,
        "layer_types": None,
    },
}
_SAME_NAME = {"gpt2": {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}}


def read_config(name: str, folder: Path) -> dict[str, Any]:
    """The entries of a folder's ``config.json``."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"The folder {name!r} has no config.json, so it is not a saved model.") from error
    except (ValueError, OSError) as error:
        raise InputError(f"The config.json of {name!r} cannot be read; it may be truncated.") from error
    if not isinstance(found, dict):
        raise InputError(f"The config.json of {name!r} cannot be read; it may be truncated.")
    return found


def completed(entries: dict[str, Any]) -> SimpleNamespace:
    """The entries as an object, with the library's values where there are none.

    >>> config = completed({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4})
    >>> config.num_key_value_heads, config.rms_norm_eps
    (4, 1e-06)
    """
    kind = entries["model_type"]
    config = SimpleNamespace(**(DEFAULTS[kind] | entries))
    for name, own in _SAME_NAME.get(kind, {}).items():
        setattr(config, name, getattr(config, own))
    if getattr(config, "num_key_value_heads", 0) is None:
        config.num_key_value_heads = config.num_attention_heads
    if kind == "qwen2":
        config.sliding_window = config.sliding_window if config.use_sliding_window else None
        slides = config.sliding_window is not None
        config.layer_types = config.layer_types or [
            "sliding_attention" if slides and l >= config.max_window_layers else "full_attention"
            for l in range(config.num_hidden_layers)
        ]
    return config
