"""Where attention pools: the share that goes to first, separator and punctuation tokens, beside what is to be expected.

Two baselines say what a head without preferences would give: ``uniform``, the share of such tokens in the text, and
``position``, attention spread evenly over the tokens that the mask leaves visible. Under a causal mask the first token
is visible to all, so its position baseline is (1/n) sum_i 1/i, well above 1/n.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.models.heads import visible
from metastable.models.layer_similarity import ratio
from metastable.models.stream import Text
from metastable.models.tokens import Tokenizer

if TYPE_CHECKING:
    import xarray

CLASSES = ("first", "separator", "punctuation")


class Sinks:
    """Reduces attention maps to the mass that lands on each class of tokens."""

    name = "sinks"

    def __init__(self, layers: int, heads: int, mask: str, tokenizer: Tokenizer | None) -> None:
        self.mask = mask
        self.separators = np.array(sorted(tokenizer.separators) if tokenizer else [], dtype=int)
        self.punctuation = np.array(sorted(tokenizer.punctuation) if tokenizer else [], dtype=int)
        self.mass = np.zeros((layers, heads, len(CLASSES)))
        self.uniform = np.zeros(len(CLASSES))
        self.position = np.zeros(len(CLASSES))
        self.queries = np.zeros(1)
        self.member = np.zeros((0, len(CLASSES)))  # of the text being read

    def settings(self) -> dict[str, Any]:
        """What a state file must agree on."""
        return {"classes": list(CLASSES)}

    def states(self, text: Text, layer: int, x: np.ndarray) -> None:
        """Sinks do not use states."""

    def attention(self, text: Text, layer: int, A: np.ndarray) -> None:
        """Add up the attention that each class receives from all tokens of one text."""
        if layer == 1:
            self.member = member = self._members(text.ids)  # (n, classes)
            seen = visible(self.mask, len(member))
            self.uniform += member.mean(axis=0) * len(member)
            self.position += ((seen @ member) / seen.sum(axis=1, keepdims=True)).sum(axis=0)
            self.queries[0] += len(member)
        received = A.sum(axis=1, dtype=np.float64)  # (h, n)
        self.mass[layer - 1] += received @ self.member

    def _members(self, ids: np.ndarray) -> np.ndarray:
        first = np.arange(len(ids)) == 0
        columns = [first, np.isin(ids, self.separators), np.isin(ids, self.punctuation)]
        return np.stack(columns, axis=1).astype(np.float64)

    _STATE = ("mass", "uniform", "position", "queries")

    def state(self) -> dict[str, np.ndarray]:
        """Its state as arrays, for a checkpoint."""
        return {name: getattr(self, name) for name in self._STATE}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore the state of an earlier session."""
        for name in self._STATE:
            setattr(self, name, state[name].copy())

    def result(self) -> "xarray.Dataset":
        """The statistics as an ``xarray.Dataset``.

        Variables: ``mass`` (layer, head, kind), the mean over all tokens of all texts of the attention a token pays
        to the class; its baselines ``uniform`` and ``position`` (kind); ``excess``, mass / position baseline (nan
        for a class that never occurs).
        """
        import xarray

        mass = self.mass / self.queries
        position = self.position / self.queries
        variables = {
            "mass": (("layer", "head", "kind"), mass),
            "uniform": ("kind", self.uniform / self.queries),
            "position": ("kind", position),
            "excess": (("layer", "head", "kind"), ratio(mass, position)),
        }
        return xarray.Dataset(variables, {"layer": np.arange(1, len(mass) + 1), "kind": list(CLASSES)})
