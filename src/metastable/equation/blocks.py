"""What a transformer block adds to attention: MLP, norms, gains, residual (appendix A.1 of the first paper).

    order "post" (A.1, BERT, ALBERT):       u = norm_1(x + r a(x)),   z = norm_2(u + r m(u))
    order "pre" (GPT-2, Llama, T5):         u = x + r a(norm_1(x)),   z = u + r m(norm_2(u))
    order "parallel" (GPT-J, Pythia, Phi):  z = x + r a(norm_1(x)) + r m(norm_2(x))

There a = out_1 after attention and m = out_2 after the MLP, where out_1 and out_2 are norms (Gemma 2, OLMo 2) or gains
(LayerScale of DINOv2) of what a sublayer gives, or nothing. A field (T5's decoder) is added after attention, r f(u), or
beside it where blocks are parallel. Every array may be a ``Stack`` (one entry per layer) or a function of time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from metastable.backend import is_traced, jax, jnp, register
from metastable.equation.fields import CrossAttention
from metastable.equation.norms import HeadNorm, LayerNorm, RMSNorm, Scale, check_fields
from metastable.equation.part_fields import check_numbers
from metastable.equation.short_forms import part_line
from metastable.equation.weights import varies
from metastable.errors import InputError, door, unknown

__all__ = [
    "ACTIVATIONS", "MLP", "ORDERS", "Block", "CrossAttention", "Experts", "HeadNorm", "LayerNorm", "RMSNorm", "Scale",
]  # fmt: skip

Array = Any
Part = Any

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda a: jnp.maximum(a, 0.0),
    "gelu": lambda a: jax.nn.gelu(a, approximate=False),
    "gelu_tanh": lambda a: jax.nn.gelu(a, approximate=True),
    "quick_gelu": lambda a: a * jax.nn.sigmoid(1.702 * a),
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
    "identity": lambda a: a,
}
ORDERS = ("post", "pre", "parallel")


def _activation(name: str | Callable[[Array], Array]) -> Callable[[Array], Array]:
    if callable(name):
        return name
    if name not in ACTIVATIONS:
        raise unknown("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]


@door
@register
@dataclass(frozen=True, repr=False)
class MLP:
    """W_out act(W_in x + b_in) + b_out, with W_in (m, d), W_out (d, m); ``gate`` (m, d) multiplies as in Llama.

    With a gate: W_out (act(gate x + b_gate) * (W_in x + b_in)) + b_out.
    """

    W_in: Part
    W_out: Part
    b_in: Part = None
    b_out: Part = None
    gate: Part = None
    activation: str | Callable[[Array], Array] = "relu"
    b_gate: Part = None

    __repr__ = part_line

    def __post_init__(self) -> None:
        _activation(self.activation)
        check_fields(self, {"W_in": 2, "W_out": 2, "b_in": 1, "b_out": 1, "gate": 2, "b_gate": 1})
        if self.b_gate is not None and self.gate is None:
            raise InputError("b_gate is the bias of a gate, but there is no gate.")

    def __call__(self, x: Array) -> Array:
        act = _activation(self.activation)
        hidden = _plus(x @ jnp.asarray(self.W_in).T, self.b_in)  # (..., n, m)
        hidden = act(hidden) if self.gate is None else act(_plus(x @ jnp.asarray(self.gate).T, self.b_gate)) * hidden
        return _plus(hidden @ jnp.asarray(self.W_out).T, self.b_out)  # (..., n, d)


def _plus(x: Array, bias: Array | None) -> Array:
    return x if bias is None else x + bias


@door
@register
@dataclass(frozen=True, repr=False)
class Experts:
    """A mixture of MLPs (Mixtral): a token goes to the ``top`` experts that its router scores highest.

    sum_e p_e W_out_e (act(gate_e x) * (W_in_e x)), where p is the softmax of router x, 0 for all but the ``top``
    largest, and divided by its sum if ``normalised``. Every expert is computed for every token, one after the other.

    Parameters
    ----------
    router : array (e, d)
    W_in, gate : arrays (e, m, d)
        Without a gate: act(W_in_e x).
    W_out : array (e, d, m)
    top : int
    normalised : bool
    """

    router: Part
    W_in: Part
    W_out: Part
    gate: Part = None
    top: int = 2
    activation: str | Callable[[Array], Array] = "silu"
    normalised: bool = True

    __repr__ = part_line

    def __post_init__(self) -> None:
        _activation(self.activation)
        check_fields(self, {"router": 2, "W_in": 3, "W_out": 3, "gate": 3})
        if isinstance(self.top, bool) or not isinstance(self.top, int) or self.top < 1:
            raise InputError(f"top must be a whole number of experts >= 1, not {self.top!r}.")

    def __call__(self, x: Array) -> Array:
        maps = {name: jnp.asarray(a) for name in ("W_in", "W_out", "gate") if (a := getattr(self, name)) is not None}

        def one(total: Array, expert: tuple[dict[str, Array], Array]) -> tuple[Array, None]:
            own, p = expert
            return total + p[..., None] * MLP(**own, activation=self.activation)(x), None

        return jax.lax.scan(one, jnp.zeros_like(x), (maps, jnp.moveaxis(self.shares(x), -1, 0)))[0]

    def shares(self, x: Array) -> Array:
        """p_e of every token, (..., n, e)."""
        p = jax.nn.softmax(x @ jnp.asarray(self.router).T, axis=-1)
        if self.top > p.shape[-1]:
            raise InputError(f"A token goes to {self.top} experts, but there are {p.shape[-1]}.")
        least = jax.lax.top_k(p, self.top)[0][..., -1:]  # (..., n, 1)
        p = jnp.where(p >= least, p, 0.0)
        return p / p.sum(axis=-1, keepdims=True) if self.normalised else p


@door
@register
@dataclass(frozen=True, repr=False)
class Block:
    """The parts around attention; see the module's first lines for the three orders.

    Parameters
    ----------
    mlp : MLP, Experts or any function of tokens, optional
    attention_norm, mlp_norm : LayerNorm, RMSNorm or any function of tokens, optional
    order : {"post", "pre", "parallel"}
        Where the norms stand, and whether the MLP sees what attention added.
    residual : float
        Strength r of what attention and MLP add to the token.
    attention_out, mlp_out : LayerNorm, RMSNorm, Scale or any function of tokens, optional
        Applied to what attention and MLP give, before it is added to the token.
    skip : float
        What is left of the token itself in such a sum, 1 in every model: x + r a(x) is skip x + r a(x). For layers with
        norms only.
    field : CrossAttention or any function of tokens, optional
        What moves tokens from outside; it has its own norm.
    """

    mlp: Part = None
    attention_norm: Part = None
    mlp_norm: Part = None
    order: str = "post"
    residual: float = 1.0
    attention_out: Part = None
    mlp_out: Part = None
    skip: float = 1.0
    field: Part = None

    __repr__ = part_line

    def __post_init__(self) -> None:
        if not isinstance(self.order, str) or self.order not in ORDERS:
            raise unknown("order of norms", self.order, ORDERS)
        check_numbers(self, ("residual", "skip"))
        for name in ("mlp", "attention_norm", "mlp_norm", "attention_out", "mlp_out", "field"):
            part = getattr(self, name)
            if part is not None and not callable(part):
                raise InputError(f"{name} must be a part or a function of tokens, not {type(part).__name__}.")
        if not is_traced(self.skip) and self.skip != 1.0 and not self.has_norms:
            raise InputError(f"skip = {self.skip!r} is for layers with norms; this block has none.")

    @property
    def time_dependent(self) -> bool:
        """True when some array is a function of time."""
        return varies(self)

    @property
    def has_norms(self) -> bool:
        """True when a norm stands before or after attention or MLP; a gain (`Scale`) is none."""
        parts = (self.attention_norm, self.mlp_norm, self.attention_out, self.mlp_out)
        return any(part is not None and not isinstance(part, Scale) for part in parts)

    def layer(self, attend: Callable[[Array], Array], x: Array) -> Array:
        """One whole layer x -> z, where ``attend`` is the attention of this layer."""
        first, second = self.attention_norm or _same, self.mlp_norm or _same
        if self.order == "post":
            u = self._pushed(first(self.skip * x + self._attended(attend, x)))
            return second(u if self.mlp is None else self.skip * u + self._fed(u))
        if self.order == "pre":
            u = self._pushed(self.skip * x + self._attended(attend, first(x)))
            return u if self.mlp is None else self.skip * u + self._fed(second(u))
        return self.skip * x + self.pull(attend, x)

    def pull(self, attend: Callable[[Array], Array], x: Array) -> Array:
        """The layer's increment per unit of time, for continuous dynamics (not order "post" with norms)."""
        first, second = self.attention_norm or _same, self.mlp_norm or _same
        added = self._attended(attend, first(x)) + self._fed(second(x))
        return added if self.field is None else added + self.residual * self.field(x)

    def seen_by_attention(self, x: Array) -> Array:
        """What queries, keys and values are made of."""
        return x if self.order == "post" or self.attention_norm is None else self.attention_norm(x)

    def _attended(self, attend: Callable[[Array], Array], x: Array) -> Array:
        return self.residual * (self.attention_out or _same)(attend(x))

    def _pushed(self, x: Array) -> Array:
        return x if self.field is None else x + self.residual * self.field(x)

    def _fed(self, x: Array) -> Array | float:
        return 0.0 if self.mlp is None else self.residual * (self.mlp_out or _same)(self.mlp(x))


def _same(x: Array) -> Array:
    return x
