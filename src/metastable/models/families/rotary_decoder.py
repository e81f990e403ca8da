"""What the kin of Llama share: maps apart, rotary turns, grouped heads, gated MLP, windows by layer.

Tensors are named as in Llama: "layers.0.self_attn.q_proj.weight", "layers.0.mlp.up_proj.weight".
"""

from typing import Any

from metastable.errors import InputError
from metastable.models.families.projections import attention, projection
from metastable.models.families.shared import FeedForward, Positions, Tensors, feed_forward
from metastable.models.rotary import frequencies, parameters_of


def llama_attention(tensors: Tensors, config: Any, l: int, out: str = "o_proj") -> dict[str, Any]:
    """The attention's fields of ``BlockWeights``."""
    att, groups = f"layers.{l}.self_attn", config.num_key_value_heads
    counts = {"q_proj": config.num_attention_heads, "k_proj": groups, "v_proj": groups}
    return attention(tensors, [projection(tensors, f"{att}.{n}", count) for n, count in counts.items()], f"{att}.{out}")


def gated_mlp(tensors: Tensors, l: int, act: object) -> FeedForward:
    """W_down (act(W_gate x) * W_up x)."""
    mlp = f"layers.{l}.mlp"
    return feed_forward(tensors, f"{mlp}.up_proj", f"{mlp}.down_proj", act, gate=f"{mlp}.gate_proj")


def head_width(config: Any) -> int:
    """The width of one head, where the configuration states it or leaves it to the sizes."""
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def turn_scale(tensors: Tensors, config: Any, kind: str | None = None) -> float:
    """What rotary turns multiply scores by: queries and keys may be lengthened (yarn, longrope)."""
    found = tensors.get(_named("attention_scaling", kind))
    return float(frequencies(config, kind=kind)[1] if found is None else found) ** 2


def turns(tensors: Tensors, config: Any, kind: str | None = None, interleaved: bool = False) -> Positions:
    """The rotary frequencies: those that a loaded module holds, computed for a file.

    "longrope" has one table for short texts and one for long ones, and a module holds that of its last text.
    """
    if parameters_of(config, kind)["rope_type"] == "longrope":
        return Positions("rotary", lambda n: frequencies(config, n, kind)[0], interleaved)
    found = tensors.get(_named("inv_freq", kind))
    return Positions("rotary", frequencies(config, kind=kind)[0] if found is None else found, interleaved)


def _named(what: str, kind: str | None) -> str:
    return f"rotary_emb.{kind}_{what}" if kind else f"rotary_emb.{what}"


def sliding(config: Any, l: int) -> bool:
    """Whether layer l sees a window only."""
    kinds: Any = getattr(config, "layer_types", None)
    if not kinds:
        return False
    if kinds[l] not in ("sliding_attention", "full_attention"):
        raise InputError(f"Layer {l} has attention of the kind {kinds[l]!r}, which is not supported.")
    return bool(kinds[l] == "sliding_attention")


def window(width: Any) -> str:
    """A causal window of so many tokens; the library counts the token itself."""
    return f"window({int(width) - 1}, causal)"


def layered_mask(config: Any, l: int) -> str:
    """Causal, or a causal window where the layer slides."""
    return window(config.sliding_window) if sliding(config, l) else "causal"
