"""A model's own layers as the simulator's parts: exactly the network, as one ``Dynamics``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from metastable.equation import blocks as parts
from metastable.equation import positions as kinds
from metastable.equation import scores
from metastable.equation.dynamics import Dynamics
from metastable.equation.fields import CrossAttention
from metastable.equation.masks import by_layer
from metastable.equation.weights import Stack, Weights, stacked
from metastable.errors import InputError
from metastable.models.families import BlockWeights, FeedForward, Norm, Positions
from metastable.models.families.shared import Cross, Experts, HeadNorm

_MAPS = ("K", "V", "O", "k_bias", "v_bias", "o_bias")


def network(
    blocks: Sequence[BlockWeights],
    positions: Sequence[Positions],
    masks: Sequence[str],
    with_mlp: bool = True,
    outside: Any = None,
) -> Dynamics:
    """The layers of a model as one dynamics, whose time is the layer; one entry for a shared block.

    Scores, masks and rotary frequencies may differ from layer to layer; layers of unlike structure (a norm that only
    some of them have) are refused, and can be made one by one.

    Parameters
    ----------
    blocks, positions, masks : sequences
        Of each layer, as ``Parts`` gives them.
    with_mlp : bool
        False leaves the MLP out.
    outside : array (..., m, d), optional
        The last states of a decoder's encoder, which its layers look at.
    """
    if len(blocks) == 1:
        return one_layer(blocks[0], position_part(positions), masks[0], score_part(blocks[0].cap), with_mlp, outside)
    scales = {block.scale for block in blocks}
    beta = scales.pop() if len(scales) == 1 else 1.0
    caps = {block.cap for block in blocks}
    if len(caps) > 1:
        raise InputError("The layers of this model differ in the cap of their scores; take them one by one.")
    return Dynamics(
        stacked([network_weights(block, block.scale / beta) for block in blocks]),
        beta,
        mask=masks[0] if len(set(masks)) == 1 else by_layer(masks),
        geometry="euclidean",
        score=score_part(caps.pop()),
        position=position_part(positions),
        block=stacked([network_block(block, with_mlp, outside) for block in blocks]),
    )


def one_layer(
    block: BlockWeights,
    position: kinds.Position | None,
    mask: str,
    score: scores.Score,
    with_mlp: bool = True,
    outside: Any = None,
) -> Dynamics:
    """A single layer, its positions and scores given as parts; its numbers may be traced."""
    return Dynamics(
        network_weights(block),
        block.scale,
        mask=mask,
        geometry="euclidean",
        score=score,
        position=position,
        block=network_block(block, with_mlp, outside),
    )


def network_weights(block: BlockWeights, scale: float = 1.0) -> Weights:
    """The maps of a layer's attention; queries are multiplied by ``scale``."""
    own: dict[str, Any] = {name: getattr(block, name) for name in _MAPS}
    norm = block.q_norm
    if norm is not None:  # a norm forgets the length of what it is given
        norm = replace(norm, gain=norm.gain * scale, bias=None if norm.bias is None else norm.bias * scale)
        scale = 1.0
    bias = None if block.q_bias is None else block.q_bias * scale
    return Weights(Q=block.Q * scale, q_bias=bias, q_norm=_head_norm(norm), k_norm=_head_norm(block.k_norm), **own)


def _head_norm(norm: HeadNorm | None) -> parts.HeadNorm | None:
    if norm is None:
        return None
    return parts.HeadNorm(norm.gain, norm.bias, norm.eps, centred=norm.kind == "layer", joint=norm.joint)


def network_block(block: BlockWeights, with_mlp: bool = True, outside: Any = None) -> parts.Block:
    """What stands around a layer's attention."""
    if block.cross is not None and outside is None:
        raise InputError("The layers of a decoder look at its encoder's last states, which were not given.")
    return parts.Block(
        mlp=_mlp(block.mlp) if with_mlp else None,
        attention_norm=norm_part(block.attention_norm),
        mlp_norm=norm_part(block.mlp_norm),
        order=block.order,
        attention_out=norm_part(block.attention_out),
        mlp_out=norm_part(block.mlp_out),
        field=None if block.cross is None else _field(block.cross, outside),
    )


def _field(cross: Cross, outside: Any) -> CrossAttention:
    weights = Weights(Q=cross.Q, K=cross.K, V=cross.V, O=cross.O)
    return CrossAttention(weights, outside, norm_part(cross.norm), cross.scale)


def _mlp(mlp: FeedForward | Experts) -> parts.MLP | parts.Experts:
    if isinstance(mlp, Experts):
        return parts.Experts(mlp.router, mlp.W_in, mlp.W_out, mlp.gate, mlp.top, mlp.activation, mlp.normalised)
    return parts.MLP(mlp.W_in, mlp.W_out, mlp.b_in, mlp.b_out, mlp.gate, mlp.activation, mlp.b_gate)


def norm_part(norm: Norm | None) -> parts.LayerNorm | parts.RMSNorm | parts.Scale | None:
    """A norm of a model as a part of the equation."""
    if norm is None:
        return None
    if norm.kind == "scale":
        return parts.Scale(norm.gain)
    return (parts.LayerNorm if norm.kind == "layer" else parts.RMSNorm)(norm.gain, norm.bias, norm.eps)


def score_part(cap: float | None) -> scores.Score:
    """The dot product, capped where the model does."""
    return scores.DOT if cap is None else scores.capped(cap)


def position_part(found: Sequence[Positions]) -> kinds.Position | None:
    """What layers add to the scores to tell positions, or None; rotary frequencies may differ between them."""
    first = found[0]
    if any((one.kind, one.interleaved) != (first.kind, first.interleaved) for one in found):
        raise InputError("The layers of this model tell positions in different ways; take them one by one.")
    if first.kind == "embedded":
        return None
    tables = np.stack([np.asarray(one.table, dtype=float) for one in found])
    alike = bool((tables == tables[0]).all())
    if first.kind == "rotary":
        return kinds.Rotary(tables[0] if alike else Stack(tables), partial=True, interleaved=first.interleaved)
    if not alike:
        raise InputError("The layers of this model add different biases to their scores; take them one by one.")
    return kinds.Relative(tables[0]) if first.kind == "relative" else kinds.Bias(tables[0])
