"""The one equation, with exchangeable parts.

    x_i' = T( x_i,  sum_h sum_j A^h_ij V_h x_j  [+ MLP(x_i)] )  [+ noise]
    A^h  = normalise( score_h(y_i, y_j) [+ position_ij],  mask ),   y = lift(t, x)

| where the papers' formulas are                                    | here                                          |
|-------------------------------------------------------------------|-----------------------------------------------|
| first paper, sec. 2.4 (attention on the sphere)                   | geometry="sphere"                             |
| first paper, eq. (3) (causal attention)                           | mask="causal", geometry="sphere"              |
| second paper, eq. (1) and (2)                                     | geometry="euclidean": `pull`, `attention`     |
| second paper, eq. (4) (rescaled tokens)                           | geometry="rescaled"; `engines/chart/state.py` |
| second paper, eq. (3) and Remark 1 (discrete time)                | method="layers": `layer`                      |
| second paper, Remark 4 (rescaled discrete time)                   | `engines/chart/steps.py`: `layers`            |
| second paper, Definition 1 ("good triple")                        | `theory/hypotheses.py`: `good_triple`         |
| first paper, A.1 (transformer block)                              | block=Block(...), method="layers"             |
"""

from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass
from typing import Any

import numpy as np

from metastable.backend import Array, Scores, Tokens, is_traced, jnp, ready, register
from metastable.equation import geometry as geometries
from metastable.equation import masks, noises, normalise, positions, scores
from metastable.equation.attention import matrix
from metastable.equation.attention import mix as dense_mix
from metastable.equation.blocks import Block
from metastable.equation.short_forms import dynamics_card, dynamics_line
from metastable.equation.weights import Weights, resolve_time, varies
from metastable.errors import InputError, door, numbers

Mix = Callable[["Dynamics", Weights, Tokens, Tokens], Tokens]  # (dynamics, weights now, y, x) -> sum over tokens


@door
@register
@dataclass(frozen=True, repr=False)
class Dynamics:
    """Tokens as particles under self-attention.

    Names are looked up and functions wrapped when a Dynamics is made: its fields hold parts, never names.

    Parameters
    ----------
    weights : Weights
        Q, K, V of every head.
    beta : float or array
        Inverse temperature; an array runs along the leading (ensemble) axes. Negative values turn attention away
        from similar tokens.
    normalise : {"softmax", "unnormalised", "hardmax", "sinkhorn"}, Normalisation or function
    mask : {"full", "causal", "window(w)", "window(w, causal)"}, Mask, function or boolean array (n, n)
        Several names with ";" between are the masks of layers, in turn.
    geometry : {"sphere", "euclidean", "rescaled", "pre-ln", "peri-ln", "mix-ln", "ngpt", "depth-scaled"} or Geometry
        Where tokens live and where their norms are taken.
    score : {"dot", "distance", "bounded", "capped(c)"}, Score or function
    position : {"alibi", "rotary"}, Bias, Relative, Alibi or Rotary, optional
    block : Block, optional
        MLP or experts, norms, their order, and residual strength.
    noise : float
        Strength sigma of isotropic tangent noise, sigma dW.
    noise_kind : {"independent", "common"}, Noise or function
        Whether every token has noise of its own, or one noise moves all.

    Examples
    --------
    >>> dyn = Dynamics(Weights(), beta=2.0, geometry="sphere")
    >>> np.asarray(dyn.attention(0.0, np.eye(2))).round(4).tolist()
    [[[0.8808, 0.1192], [0.1192, 0.8808]]]
    >>> dyn.mask, dyn.geometry
    (full, sphere)
    """

    weights: Weights = field(default_factory=Weights)
    beta: Any = 1.0
    normalise: Any = normalise.SOFTMAX
    mask: Any = masks.FULL
    geometry: Any = geometries.SPHERE
    score: Any = scores.DOT
    position: Any = None
    block: Block | None = None
    noise: Any = 0.0
    noise_kind: Any = noises.INDEPENDENT

    def __post_init__(self) -> None:
        w = self.weights
        if not isinstance(w, Weights):
            raise InputError(f"weights must be a Weights object, not {type(w).__name__}.")
        if self.block is not None and not isinstance(self.block, Block):
            raise InputError(f"block must be a Block object, not {type(self.block).__name__}.")
        parts = {
            "beta": _number("beta", self.beta, -np.inf),
            "noise": _without_trace(_number("noise", self.noise, 0.0)),
            "noise_kind": noises.resolve(self.noise_kind),
            "normalise": normalise.resolve(self.normalise),
            "mask": masks.resolve(self.mask),
            "geometry": geometries.resolve(self.geometry),
            "score": scores.resolve(self.score),
            "position": positions.resolve(self.position, w.query_width, w.heads),
        }
        for name, part in parts.items():
            object.__setattr__(self, name, part)
        _refuse_nonsense(self)

    def __repr__(self) -> str:
        return f"Dynamics({dynamics_line(self)})"

    def _repr_html_(self) -> str:
        return dynamics_card(self)

    @property
    def noisy(self) -> bool:
        """Whether tokens are shaken by noise; a traced strength counts as noise."""
        if isinstance(self.noise, (int, float)):
            return self.noise != 0.0
        return is_traced(self.noise) or bool(np.any(np.asarray(self.noise) != 0))

    @property
    def autonomous(self) -> bool:
        """Whether the velocity depends on the tokens only, not on time or chance."""
        return not (self.time_dependent or self.noisy or self.geometry.rescales)

    @property
    def time_dependent(self) -> bool:
        """Whether some part changes with time."""
        parts = (self.weights, self.block, self.position)
        by_time = self.mask.by_time is not None or self.geometry.by_time
        return by_time or any(varies(part) for part in parts if is_dataclass(part))

    def at(self, t: Array | float) -> "Dynamics":
        """The dynamics at time t, with every function of time evaluated."""
        ready()
        copy = object.__new__(Dynamics)  # the parts were checked when first built
        for name, part in vars(self).items():
            now = resolve_time(part, t) if is_dataclass(part) and name in ("weights", "block", "position") else part
            object.__setattr__(copy, name, now)
        object.__setattr__(copy, "mask", self.mask.at(t))
        return copy

    def attention(self, t: Array | float, x: Tokens) -> Scores:
        """A^h_ij at time t, (..., h, n, n): eq. (2)."""
        ready()
        x = self.geometry.input(t, jnp.asarray(x))
        y = self.geometry.lift(self.weights, t, x)
        now = self.at(t)
        return matrix(now, now.weights, y if now.block is None else now.block.seen_by_attention(y))

    def velocity(self, t: Array | float, x: Tokens, mix: Mix = dense_mix) -> Tokens:
        """x_i' at time t, (..., n, d), without noise; ``mix`` is how sums over tokens are made."""
        out: Tokens = self.geometry.tangent(self.weights, t, x, self.pull(t, x, mix))
        return out

    def pull(self, t: Array | float, x: Tokens, mix: Mix = dense_mix) -> Tokens:
        """sum_h sum_j A^h_ij V_h x_j [+ MLP(x_i)]: what moves token i, before the tangent projection."""
        now = self.at(t)
        attend = self._attend(now, t, mix)
        return attend(x) if now.block is None else now.block.pull(attend, x)

    def layer(self, t: Array | float, x: Tokens, dt: Array | float, mix: Mix = dense_mix) -> Tokens:
        """One discrete layer: eq. (3) of the second paper, x + dt pull(x) on the sphere, or the whole block of A.1."""
        if self.block is not None and self.block.has_norms:
            now = self.at(t)
            assert now.block is not None
            out: Tokens = now.block.layer(self._attend(now, t, mix), x)
        else:
            moved = x + dt * self.pull(t, x, mix)
            out = self.geometry.retract(moved) if self.geometry.layered is None else self.geometry.layered(t, moved)
        return out

    def _attend(self, now: "Dynamics", t: Array | float, mix: Mix) -> Callable[[Tokens], Tokens]:
        space = self.geometry

        def attend(x: Tokens) -> Tokens:
            seen = space.input(t, x)
            found = mix(now, now.weights, space.lift(self.weights, t, seen), seen)
            return found if space.gained is None else space.gained(t, found)

        return attend


def _number(name: str, value: Any, least: float) -> Any:
    if is_traced(value):
        return value
    try:
        array = np.asarray(numbers(value), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a real number, not {value!r}.") from error
    if not np.isfinite(array).all() or (array < least).any():
        hint = "; for the limit of large beta use normalise='hardmax'" if np.isinf(array).any() else ""
        raise InputError(f"{name} must be a finite number{' >= 0' if least == 0 else ''}, not {value!r}{hint}.")
    return float(array) if array.ndim == 0 else array


def _without_trace(noise: Any) -> Any:
    """No noise is structure (the whole number 0), so that a traced Dynamics without it is known to be without it."""
    return 0 if isinstance(noise, float) and noise == 0.0 else noise


def _refuse_nonsense(dyn: Dynamics) -> None:
    """One sentence for every combination of parts that has no meaning."""
    if not dyn.normalise.masked and dyn.mask.visible is not None:
        raise InputError(
            f"{dyn.normalise.name} needs mask='full': most masked matrices cannot be scaled to be doubly stochastic."
        )
    if dyn.geometry.rescales:
        why = _against_rescaling(dyn)
        if why:
            raise InputError(f"geometry='rescaled' needs {why}; use geometry='euclidean' instead.")
    if dyn.block is not None and (dyn.geometry.seen is not None or dyn.geometry.gained is not None):
        raise InputError(
            f"geometry={dyn.geometry.name!r} is a normalisation scheme of attention alone; with a block write "
            "its norms into the Block, and use geometry='euclidean'."
        )
    flat = not dyn.geometry.rescales and not dyn.geometry.angular
    if dyn.block is not None and dyn.block.has_norms and not flat:
        raise InputError(
            f"A block with norms needs geometry='euclidean', not {dyn.geometry.name!r}: "
            "its norms take the sphere's place."
        )


def _against_rescaling(dyn: Dynamics) -> str | None:
    w = dyn.weights
    if w.time_dependent:
        return "weights that do not depend on time (e^{tV} needs one V)"
    if w.heads > 1:
        return f"one head, not {w.heads} (e^{{tV}} needs one V)"
    if w.biased:
        return "weights without biases (a bias does not scale with e^{tV})"
    if not w.bilinear:
        return "queries and keys without norms (a norm does not scale with e^{tV})"
    if dyn.time_dependent:
        return "mask and positions that do not depend on time"
    if dyn.block is not None:
        return "no block (MLP and norms do not commute with e^{tV})"
    if dyn.score.pull == "difference" or not dyn.score.is_dot:
        return f"score='dot', not {dyn.score.name!r}"
    if isinstance(dyn.position, positions.Rotary):
        return "no rotary positions"
    if dyn.noisy:
        return "noise=0"
    return None
