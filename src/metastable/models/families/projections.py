"""Query, key and value maps by head, however a model keeps them: apart, stacked, or woven head by head."""

from typing import Any, NamedTuple, overload

import numpy as np

from metastable.models.families.shared import Array, HeadNorm, Tensors, bias_by_head, by_head, output_by_head


class Projection(NamedTuple):
    """A map by head, (h, k, d), with its bias (h, k) or None."""

    weight: Array
    bias: Array | None


def projection(tensors: Tensors, path: str, heads: int) -> Projection:
    """The linear map at a path, its rows by head."""
    return Projection(by_head(tensors[f"{path}.weight"], heads), bias_by_head(tensors.get(f"{path}.bias"), heads))


def stacked(tensors: Tensors, path: str, heads: int, groups: int) -> list[Projection]:
    """Queries, keys and values of one map whose rows are all queries, then all keys, then all values."""
    weight, bias = tensors[f"{path}.weight"], tensors.get(f"{path}.bias")
    width = len(weight) // (heads + 2 * groups)
    at = [heads * width, (heads + groups) * width]
    biases = [None] * 3 if bias is None else np.split(bias, at)
    counts = (heads, groups, groups)
    return [
        Projection(by_head(w, count), bias_by_head(b, count))
        for w, b, count in zip(np.split(weight, at), biases, counts)
    ]


def woven(tensors: Tensors, path: str, heads: int, groups: int) -> list[Projection]:
    """Queries, keys and values of one map whose rows are, group by group, its queries, its key and its value."""
    weight, bias = tensors[f"{path}.weight"], tensors.get(f"{path}.bias")
    d = weight.shape[-1]
    w = weight.reshape(groups, heads // groups + 2, -1, d)  # (g, queries + 2, k, d)
    b = None if bias is None else bias.reshape(*w.shape[:-1])
    made = [Projection(w[:, :-2].reshape(heads, -1, d), None if b is None else b[:, :-2].reshape(heads, -1))]
    return made + [Projection(w[:, i], None if b is None else b[:, i]) for i in (-2, -1)]


def attention(tensors: Tensors, made: list[Projection], out: str) -> dict[str, Any]:
    """The attention's fields of ``BlockWeights`` from query, key and value maps and the path of the output map.

    Every key and value head is repeated for the queries it serves.
    """
    query, key, value = made
    heads = len(query.weight)
    return {
        "Q": query.weight,
        "K": expand(key.weight, heads),
        "V": expand(value.weight, heads),
        "O": output_by_head(tensors[f"{out}.weight"], heads),
        "q_bias": query.bias,
        "k_bias": expand(key.bias, heads),
        "v_bias": expand(value.bias, heads),
        "o_bias": tensors.get(f"{out}.bias"),
        "groups": len(key.weight),
    }


@overload
def expand(grouped: Array, heads: int) -> Array: ...
@overload
def expand(grouped: Array | None, heads: int) -> Array | None: ...
def expand(grouped: Array | None, heads: int) -> Array | None:
    """Key or value heads (g, ...) repeated to (h, ...): query head h uses group h // (heads / g)."""
    return None if grouped is None else np.repeat(grouped, heads // grouped.shape[0], axis=0)


def head_norms(
    tensors: Tensors, query: str, key: str, eps: float, kind: str = "rms", offset: float = 0.0
) -> dict[str, Any]:
    """The norms of queries and keys at two paths, one gain (k,) for all heads; Gemma keeps its gains less 1."""
    made = {}
    for name, path in (("q_norm", query), ("k_norm", key)):
        bias = tensors.get(f"{path}.bias")
        gain = tensors[f"{path}.weight"][None] + offset  # (1, k)
        made[name] = HeadNorm(kind, gain, None if bias is None else bias[None], float(eps))
    return made
