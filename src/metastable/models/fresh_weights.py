"""Weights as the library ``transformers`` draws them before training, of the kinds of model that run without it."""

import math
import zlib
from typing import Any

import numpy as np

_PADDED = ("word_embeddings.weight", "embed_tokens.weight")  # tables whose row of the padding token is 0
_INTO_THE_STREAM = "c_proj.weight"  # of GPT-2, whose maps into the residual stream are drawn smaller


def fresh(name: str, values: np.ndarray, config: Any, seed: int) -> np.ndarray:
    """A tensor before training: a matrix normal, a gain 1, a bias 0; tables that are not weights stay.

    The standard deviation is the configuration's ``initializer_range``, that of GPT-2's maps into the residual stream
    smaller by the square root of their number, 2 for a layer. The numbers depend on name and seed alone.

    >>> from types import SimpleNamespace
    >>> fresh("norm.weight", np.array([3.0, 4.0]), SimpleNamespace(model_type="bert"), 0).tolist()
    [1.0, 1.0]
    """
    if not name.endswith(("weight", "bias")) or values.dtype.kind != "f":
        return values
    if values.ndim < 2:
        return np.full_like(values, 0.0 if name.endswith("bias") else 1.0)
    deviation = float(getattr(config, "initializer_range", None) or 0.02)
    if config.model_type == "gpt2" and name.endswith(_INTO_THE_STREAM):
        deviation /= math.sqrt(2 * config.num_hidden_layers)
    drawn = np.random.default_rng([seed, zlib.crc32(name.encode())])
    found = (deviation * drawn.standard_normal(values.shape)).astype(values.dtype)
    padded = name.endswith(_PADDED) or (config.model_type == "roberta" and name.endswith("position_embeddings.weight"))
    if padded and getattr(config, "pad_token_id", None) is not None:
        found[config.pad_token_id] = 0.0
    return found
