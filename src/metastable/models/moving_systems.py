"""Many systems made of one model's layers, moved together from layer to layer: every layer's weights are read once.

A system is a layer of the model with some of its parts switched off, or its particles on the sphere. A switch is a
number that the compiled step multiplies by, so that one program serves all systems of one structure, all layers and
all texts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from metastable.backend import Array, Tokens, jax, jnp, register
from metastable.equation.blocks import Block, Scale
from metastable.equation.dynamics import Dynamics
from metastable.equation.geometry import unit
from metastable.models.layer_parts import network, norm_part
from metastable.models.model import Model
from metastable.models.sphere_rungs import Length, LongToken, sphere

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


def climb(
    model: Model, systems: Mapping[str, System], depth: int, lengths: Sequence[Length]
) -> Iterator[dict[str, Array]]:
    """The tokens (texts, n, d) of every system after layers 0 to ``depth``.

    ``lengths`` are those of the tokens that enter each layer; only particles on the sphere use them.
    """
    x = {name: jnp.asarray(_unit(s.start) if s.on_sphere else s.start) for name, s in systems.items()}
    wanted = {(s.kind, x[name].dtype) for name, s in systems.items()}
    n = max(start.shape[-2] for start in x.values())
    made: dict[tuple[str, Any], Dynamics] = {}
    yield x
    for layer in range(depth):
        if layer == 0 or not model.shared:
            made = _layer(model, layer, n, lengths[layer], wanted)
        x = {name: _moved(made[s.kind, x[name].dtype], s, x[name]) for name, s in systems.items()}
        yield x if layer < depth - 1 else _normed(model, systems, x, depth)


def _moved(dynamics: Dynamics, system: System, x: Tokens) -> Tokens:
    """The tokens of a system after one layer; particles that a block moves are put back on the sphere."""
    after = _step(dynamics, system.switches, x)
    return unit(after) if system.on_sphere and not dynamics.geometry.fixed_norm else after


def _unit(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))


def _normed(model: Model, systems: Mapping[str, System], x: dict[str, Array], depth: int) -> dict[str, Array]:
    """The last state as the library shows it, after the final norm; directions have none."""
    norm = norm_part(model.require_parts().final_norm()) if depth == model.depth else None
    if norm is None:
        return x
    return {name: v if systems[name].on_sphere else _cast(norm, v.dtype)(v) for name, v in x.items()}


def _layer(model: Model, layer: int, n: int, length: Length, wanted: set[tuple[str, Any]]) -> dict[Any, Dynamics]:
    """The dynamics of one layer for every structure and precision that is wanted."""
    block, mask = model.block(layer), model.mask(layer)
    position = model.require_parts().position(layer, n)
    found: dict[Any, Dynamics] = {}
    for dtype in {dtype for _, dtype in wanted}:
        kinds = {kind for kind, other in wanted if other == dtype}
        whole = _cast(network([block], [position], [mask]), dtype)
        assert whole.block is not None
        found["network", dtype] = whole
        found["network without MLP", dtype] = replace(whole, block=replace(whole.block, mlp=None))
        found["network without norms", dtype] = replace(whole, block=_without_norms(whole.block))
        if any(kind.startswith("sphere") for kind in kinds):
            particles = _cast(sphere([block], [length], [position], [mask]), dtype)
            found["sphere", dtype] = particles
            found["sphere with MLP", dtype] = replace(particles, block=_with_mlp(particles, whole.block, length, dtype))
    return found


def _with_mlp(particles: Dynamics, whole: Block, length: Length, dtype: Any) -> Block:
    """The block of particles that are moved by the MLP as well.

    As in the papers' equation attention and MLP read the same token and are added, y + attention(y) + MLP(y), whatever
    the model's own order.
    """
    norm = None if whole.order == "post" else whole.mlp_norm
    mlp = LongToken(whole.mlp, norm, whole.mlp_out, jnp.asarray(length.token, dtype))
    own = particles.block
    return Block(mlp=mlp) if own is None else replace(own, mlp=mlp, order="parallel")


def _same(x: Tokens) -> Tokens:
    return x


def _without_norms(block: Block) -> Block:
    """Norms become the identity; a gain on what a sublayer gives is none, and stays."""
    attention_out, mlp_out = (p if isinstance(p, Scale) else None for p in (block.attention_out, block.mlp_out))
    return replace(block, attention_norm=_same, mlp_norm=_same, attention_out=attention_out, mlp_out=mlp_out)


def _cast(part: Any, dtype: Any) -> Any:
    """A part with all its numbers in one precision, so that the whole step is computed in it."""
    return jax.tree.map(lambda a: jnp.asarray(np.asarray(a, dtype)), part)


@jax.jit
def _step(dynamics: Dynamics, switches: Switches, x: Tokens) -> Tokens:
    """One layer."""
    now = _switched(dynamics, switches)
    if now.geometry.fixed_norm:
        moved: Tokens = now.geometry.retract(switches.residual * x + now.pull(0.0, x))
        return moved
    return now.layer(0.0, x, 1.0)


def _switched(dynamics: Dynamics, switches: Switches) -> Dynamics:
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
