"""What moves tokens from outside: attention to other tokens, which do not move themselves."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.backend import Array, Tokens, is_traced, jnp, register
from metastable.equation import attention, scores
from metastable.equation.normalise import softmax
from metastable.equation.short_forms import part_line
from metastable.equation.weights import Stack, Timed, Weights
from metastable.errors import InputError

Part = Any


@register
@dataclass(frozen=True, repr=False)
class CrossAttention:
    """An external field: sum_h sum_j A^h_ij O_h V_h y_j with A^h = softmax(beta <Q_h n(x_i), K_h y_j>) (T5's decoder).

    Parameters
    ----------
    weights : Weights
    states : array (..., m, d)
        The tokens y that are looked at; leading axes are those of the ensemble.
    norm : LayerNorm, RMSNorm or function of tokens, optional
        n, applied to the tokens that look.
    beta : float

    Examples
    --------
    >>> field = CrossAttention(Weights(), states=[[2.0, 0.0]])
    >>> np.asarray(field(np.eye(2))).tolist()
    [[2.0, 0.0], [2.0, 0.0]]
    """

    weights: Weights
    states: Part
    norm: Part = None
    beta: Any = 1.0

    __repr__ = part_line

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Weights):
            raise InputError(f"weights must be a Weights object, not {type(self.weights).__name__}.")
        if is_traced(self.states) or isinstance(self.states, (Stack, Timed)):
            return
        states = np.asarray(self.states, dtype=np.float64)
        if states.ndim < 2 or not np.isfinite(states).all():
            raise InputError(f"The states of a field are finite tokens (..., m, d), but their shape is {states.shape}.")
        object.__setattr__(self, "states", states)

    def __call__(self, x: Tokens) -> Tokens:
        w = self.weights
        v = attention.mapped(w.V, w.v_bias, self._states(x))
        return attention.output(w, jnp.einsum("...hnm,...hmv->...hnv", self.attention(x), v))

    def attention(self, x: Tokens) -> Array:
        """A^h_ij, (..., h, n, m)."""
        w = self.weights
        q = attention.mapped(w.Q, w.q_bias, x if self.norm is None else self.norm(x))
        k = attention.mapped(w.K, w.k_bias, self._states(x))
        return softmax(scores.dot(q, k, self.beta), None)

    def _states(self, x: Tokens) -> Tokens:
        return jnp.asarray(self.states, x.dtype)
