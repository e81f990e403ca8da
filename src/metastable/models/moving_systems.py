"""Many systems made of one model's layers, moved together from layer to layer: every layer's weights are read once.

A system is a layer of the model with some of its parts switched off, or its particles on the sphere. A switch is a
number that the compiled step multiplies by, so that one program serves all systems of one structure, side by side, all
layers and all texts. Weights enter it as they are stored; gains and lengths are folded in by the program.

Particles that a single head moves are computed with that head alone: the others, switched off, would be most of the
work.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from metastable.backend import Tokens, jax, jnp, register
from metastable.equation.blocks import Block, Scale
from metastable.equation.dynamics import Dynamics
from metastable.equation.geometry import unit
from metastable.equation.positions import Rotary
from metastable.models.families import BlockWeights
from metastable.models.families.shared import HeadNorm
from metastable.models.layer_parts import norm_part, one_layer, position_part, score_part
from metastable.models.model import Model
from metastable.models.sphere_rungs import Length, LongToken, on_sphere, particle_block

KINDS = ("network", "network without MLP", "network without norms", "sphere", "sphere with MLP")


@register
@dataclass(frozen=True)
class Switches:
    """What is left of a layer's parts: 1.0 as they are, 0.0 gone; ``heads`` (h,) has a number for each head.

    Without ``softmax`` all scores are equal: attention is uniform over the tokens that the mask leaves visible.
    """

    heads: Any
    attention: Any = 1.0
    softmax: Any = 1.0
    biases: Any = 1.0
    positions: Any = 1.0
    residual: Any = 1.0


class System(NamedTuple):
    """What is run: a structure (of KINDS) with its switches, from tokens (texts, n, d) in their precision."""

    kind: str
    switches: Switches
    start: np.ndarray

    @property
    def on_sphere(self) -> bool:
        """Whether its tokens are directions."""
        return self.kind.startswith("sphere")

    def lone_head(self, block: BlockWeights) -> int | None:
        """The head that moves particles where all others are switched off; a norm over all heads needs them all."""
        on = np.flatnonzero(self.switches.heads)
        joint = any(norm is not None and norm.joint for norm in (block.q_norm, block.k_norm))
        return int(on[0]) if self.on_sphere and len(on) == 1 and not joint else None


@register
@dataclass(frozen=True)
class Layer:
    """One layer of a model as the compiled step takes it; ``token`` and ``centred`` are its `Length`."""

    block: BlockWeights
    position: Any
    mask: str
    score: Any
    token: Any
    centred: Any


class _Together(NamedTuple):
    """Systems of one structure, moved by one call: their names, switches (s, ...) and tokens (s, texts, n, d).

    ``head`` is the one that is computed, None for all.
    """

    kind: str
    head: int | None
    names: list[str]
    switches: Switches
    x: Tokens

    def moved(self, layer: Layer) -> "_Together":
        head = None if self.head is None else np.int32(self.head)  # traced: another head is the same program
        return self._replace(x=_step(self.kind, layer, head, self.switches, self.x))

    def normed(self, norm: Any) -> "_Together":
        """After a model's final norm; directions have none."""
        return self if self.kind.startswith("sphere") else self._replace(x=norm(self.x).astype(self.x.dtype))


def climb(
    model: Model, systems: Mapping[str, System], depth: int, lengths: Sequence[Length]
) -> Iterator[dict[str, np.ndarray]]:
    """The tokens (texts, n, d) of every system after layers 0 to ``depth``.

    ``lengths`` are those of the tokens that enter each layer; only particles on the sphere use them.
    """
    groups = _grouped(systems, model.block(0))
    n, kinds = max(s.start.shape[-2] for s in systems.values()), {str(g.x.dtype) for g in groups}
    made = _layer(model, 0, n, lengths[0], kinds)
    yield _by_name(systems, groups)
    for layer in range(depth):
        groups = [group.moved(made[str(group.x.dtype)]) for group in groups]  # dispatched, not waited for
        if layer + 1 == depth:
            norm = norm_part(model.require_parts().final_norm()) if depth == model.depth else None
            groups = groups if norm is None else [group.normed(norm) for group in groups]
        elif not model.shared:
            made = _layer(model, layer + 1, n, lengths[layer + 1], kinds)
        yield _by_name(systems, groups)


def _grouped(systems: Mapping[str, System], block: BlockWeights) -> list[_Together]:
    found: dict[Any, list[str]] = {}
    for name, system in systems.items():
        key = (system.kind, system.start.shape, system.start.dtype.str, system.lone_head(block))
        found.setdefault(key, []).append(name)
    return [_together([(name, systems[name]) for name in names], key[-1]) for key, names in found.items()]


def _together(each: Sequence[tuple[str, System]], head: int | None) -> _Together:
    start = np.stack([system.start for _, system in each])
    numbers = [jax.tree.map(lambda a: np.asarray(a, start.dtype), system.switches) for _, system in each]
    switches: Switches = jax.tree.map(lambda *a: np.stack(a), *numbers)
    if head is not None:
        switches = replace(switches, heads=switches.heads[:, head : head + 1])
    x = _unit(start) if each[0][1].on_sphere else start
    return _Together(each[0][1].kind, head, [name for name, _ in each], switches, jnp.asarray(x))


def _by_name(systems: Mapping[str, System], groups: Sequence[_Together]) -> dict[str, np.ndarray]:
    """The tokens of every system, in the order in which systems were given."""
    found = {name: x for group in groups for name, x in zip(group.names, np.asarray(group.x))}
    return {name: found[name] for name in systems}


def _unit(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))


def _layer(model: Model, layer: int, n: int, length: Length, kinds: set[str]) -> dict[str, Layer]:
    """One layer for n tokens in every precision that is wanted."""
    block = model.block(layer)
    around = (position_part([model.require_parts().position(layer, n)]), model.mask(layer), score_part(block.cap))
    made = Layer(replace(block, cap=None), *around, *length)
    wide: Layer = jax.device_put(jax.tree.map(lambda a: np.asarray(a, np.float64), made), may_alias=True)
    return {kind: wide if kind == "float64" else _cast(wide, kind) for kind in kinds}


@partial(jax.jit, static_argnums=1)
def _cast(wide: Layer, dtype: str) -> Layer:
    """A layer with all its numbers in one precision, so that the whole step is computed in it."""
    found: Layer = jax.tree.map(lambda a: a.astype(dtype), wide)
    return found


# --- the compiled step --------------------------------------------------------------------------------------------


@partial(jax.jit, static_argnums=0)
def _step(kind: str, layer: Layer, head: Any, switches: Switches, x: Tokens) -> Tokens:
    """One layer of systems of one kind, each with its switches and its tokens (texts, n, d); None is all heads."""
    dynamics = layer_dynamics(kind, layer if head is None else _with_one_head(layer, head))
    moved: Tokens = jax.vmap(lambda switch, tokens: _moved(dynamics, switch, tokens, kind))(switches, x)
    return moved


def _moved(dynamics: Dynamics, switches: Switches, x: Tokens, kind: str) -> Tokens:
    """The tokens of a system after one layer; particles that a block moves are put back on the sphere."""
    now = switched(dynamics, switches)
    if now.geometry.fixed_norm:
        moved: Tokens = now.geometry.retract(switches.residual * x + now.pull(0.0, x))
        return moved
    after = now.layer(0.0, x, 1.0)
    return unit(after) if kind.startswith("sphere") else after


def _with_one_head(layer: Layer, head: Any) -> Layer:
    """A layer of which one head is left, its number traced."""

    def one(array: Any) -> Any:
        return array if array is None or len(array) == 1 else jax.lax.dynamic_slice_in_dim(array, head, 1)

    def of_norm(norm: HeadNorm | None) -> HeadNorm | None:
        return None if norm is None else replace(norm, gain=one(norm.gain), bias=one(norm.bias))

    block, position = layer.block, layer.position
    maps = {name: one(getattr(block, name)) for name in ("Q", "K", "V", "O", "q_bias", "k_bias", "v_bias")}
    block = replace(block, **maps, q_norm=of_norm(block.q_norm), k_norm=of_norm(block.k_norm))
    return replace(
        layer, block=block, position=position if isinstance(position, Rotary) else jax.tree.map(one, position)
    )


def layer_dynamics(kind: str, layer: Layer) -> Dynamics:
    """The dynamics of one layer for a structure of KINDS."""
    whole = one_layer(layer.block, layer.position, layer.mask, layer.score)
    assert whole.block is not None
    if kind == "network":
        return whole
    if kind == "network without MLP":
        return replace(whole, block=replace(whole.block, mlp=None))
    if kind == "network without norms":
        return replace(whole, block=_without_norms(whole.block))
    length = Length(layer.token, layer.centred)
    made = particle_block(layer.block, length)
    particles = on_sphere(one_layer(made, layer.position, layer.mask, layer.score, with_mlp=False))
    return particles if kind == "sphere" else replace(particles, block=_with_mlp(particles, whole.block, length))


def _with_mlp(particles: Dynamics, whole: Block, length: Length) -> Block:
    """The block of particles that are moved by the MLP as well.

    As in the papers' equation attention and MLP read the same token and are added, y + attention(y) + MLP(y), whatever
    the model's own order.
    """
    norm = None if whole.order == "post" else whole.mlp_norm
    mlp = LongToken(whole.mlp, norm, whole.mlp_out, length.token)
    own = particles.block
    return Block(mlp=mlp) if own is None else replace(own, mlp=mlp, order="parallel")


def _same(x: Tokens) -> Tokens:
    return x


def _without_norms(block: Block) -> Block:
    """Norms become the identity; a gain on what a sublayer gives is none, and stays."""
    attention_out, mlp_out = (p if isinstance(p, Scale) else None for p in (block.attention_out, block.mlp_out))
    return replace(block, attention_norm=_same, mlp_norm=_same, attention_out=attention_out, mlp_out=mlp_out)


def switched(dynamics: Dynamics, switches: Switches) -> Dynamics:
    """A layer with what its switches leave of it."""
    w = dynamics.weights
    on = jnp.asarray(switches.heads, w.O.dtype) * switches.attention  # (h,)
    biases = {
        name: getattr(w, name) * switches.biases
        for name in ("q_bias", "k_bias", "v_bias")
        if getattr(w, name) is not None
    }
    if w.o_bias is not None:
        biases["o_bias"] = w.o_bias * (switches.biases * switches.attention)
    block = dynamics.block
    return replace(
        dynamics,
        weights=replace(w, O=w.O * on[:, None, None], **biases),
        beta=dynamics.beta * switches.softmax,
        position=jax.tree.map(lambda table: table * (switches.positions * switches.softmax), dynamics.position),
        block=block if block is None or not block.has_norms else replace(block, skip=switches.residual),
    )
