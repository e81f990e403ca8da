"""Where attention pools: the share that goes to first, separator and punctuation tokens, beside what is to be expected.

Two baselines say what a head without preferences would give: ``uniform``, the share of such tokens in the text, and
``position``, attention spread evenly over the tokens that the mask leaves visible. Under a causal mask the first token
is visible to all, so its position baseline is (1/n) sum_i 1/i, well above 1/n; behind a window it is visible to few.

Texts weigh the same, however long: masses and baselines are means over the tokens of a text, then over texts.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.models.heads import visible
from metastable.models.layer_similarity import ratio
from metastable.models.reductions import received
from metastable.models.stream import Text
from metastable.models.tokens import Tokenizer

if TYPE_CHECKING:
    import xarray

CLASSES = ("first", "separator", "punctuation")
WEIGHTING = "Every text weighs the same, however long: means are taken over the tokens of each text, then over texts."


class Sinks:
    """Reduces attention maps to the mass that lands on each class of tokens; ``masks`` are those of the layers."""

    name = "sinks"

    def __init__(self, layers: int, heads: int, masks: Sequence[str], tokenizer: Tokenizer | None) -> None:
        self.masks = masks
        self.separators = np.array(sorted(tokenizer.separators) if tokenizer else [], dtype=int)
        self.punctuation = np.array(sorted(tokenizer.punctuation) if tokenizer else [], dtype=int)
        self.mass = np.zeros((layers, heads, len(CLASSES)))
        self.position = np.zeros((layers, len(CLASSES)))
        self.uniform = np.zeros(len(CLASSES))
        self.texts = np.zeros(1)
        self.member = np.zeros((0, len(CLASSES)))  # of the text being read
        self.even: dict[str, np.ndarray] = {}  # position baselines of that text, by mask

    def settings(self) -> dict[str, Any]:
        """What a state file must agree on."""
        return {"classes": list(CLASSES), "texts": "equal"}

    def states(self, text: Text, layer: int, x: np.ndarray) -> None:
        """Sinks do not use states."""

    def attention(self, text: Text, layer: int, A: np.ndarray) -> None:
        """Add the attention that each class receives from the tokens of one text, in the mean."""
        if layer == 1:
            self.member, self.even = self._members(text.ids), {}
            self.uniform += self.member.mean(axis=0)
            self.texts[0] += 1
        mask, n = self.masks[layer - 1], len(self.member)
        if mask not in self.even:
            seen = visible(mask, n)
            even = np.einsum("i,ij->j", 1.0 / seen.sum(axis=1), seen)  # each token shares 1 among those that it sees
            self.even[mask] = np.einsum("j,jc->c", even, self.member) / n
        self.position[layer - 1] += self.even[mask]
        self.mass[layer - 1] += np.einsum("hj,jc->hc", received(A), self.member) / n

    def _members(self, ids: np.ndarray) -> np.ndarray:
        first = np.arange(len(ids)) == 0
        columns = [first, np.isin(ids, self.separators), np.isin(ids, self.punctuation)]
        return np.stack(columns, axis=1).astype(np.float64)

    _STATE = ("mass", "position", "uniform", "texts")

    def state(self) -> dict[str, np.ndarray]:
        """Its state as arrays, for a checkpoint."""
        return {name: getattr(self, name) for name in self._STATE}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore the state of an earlier session."""
        for name in self._STATE:
            setattr(self, name, state[name].copy())

    def result(self) -> "xarray.Dataset":
        """The statistics as an ``xarray.Dataset``.

        Variables: ``mass`` (layer, head, kind), the attention that a token pays to the class, in the mean over the
        tokens of a text and over texts; its baselines ``uniform`` (kind) and ``position`` (layer, kind); ``excess``,
        mass / position baseline (nan for a class that never occurs).
        """
        import xarray

        mass, position = self.mass / self.texts, self.position / self.texts
        variables = {
            "mass": (("layer", "head", "kind"), mass),
            "uniform": ("kind", self.uniform / self.texts),
            "position": (("layer", "kind"), position),
            "excess": (("layer", "head", "kind"), ratio(mass, position[:, None])),
        }
        coords = {"layer": np.arange(1, len(mass) + 1), "kind": list(CLASSES)}
        return xarray.Dataset(variables, coords, {"weighting": WEIGHTING})
