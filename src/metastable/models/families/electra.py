"""ELECTRA: BERT, after a narrower embedding in its small size."""

from typing import Any

import numpy as np

from metastable.models.families import bert
from metastable.models.families.shared import Array, Norm, Tensors, layer_norm


def embedding(tensors: Tensors, config: Any, rows: slice) -> Array:
    """Word embeddings, mapped into the hidden space where they are narrower, (rows, d)."""
    words, into = tensors.rows("embeddings.word_embeddings.weight", rows), tensors.get("embeddings_project.weight")
    return words if into is None else np.asarray(words @ into.T)


def input_norm(tensors: Tensors, config: Any) -> Norm | None:
    """The norm of the embedded text, where nothing is mapped after it."""
    if config.embedding_size != config.hidden_size:
        return None
    return layer_norm(tensors, "embeddings.LayerNorm", config.layer_norm_eps)


FAMILY = bert.FAMILY._replace(name="electra", embedding=embedding, input_norm=input_norm)
