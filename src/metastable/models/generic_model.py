"""Any other ``transformers`` model: its hidden states and attention maps, as the library hands them out."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from metastable.errors import InputError
from metastable.models.families import FAMILIES
from metastable.models.model import See, check_layers
from metastable.models.precision import doubled
from metastable.models.torch_model import ModuleModel, shown

_TRIAL = 8  # tokens of the text that a model of unknown structure is tried on
_UNLIMITED = 1 << 20  # tokens, for a model that states no limit
_LENGTHS = ("max_position_embeddings", "n_positions", "max_source_positions", "seq_length", "max_sequence_length")


class _Shape(NamedTuple):
    """What a trial shows: layers, heads (0 without maps), width, and whether tokens see only those before them."""

    depth: int
    heads: int
    dimension: int
    causal: bool


@dataclass(frozen=True, eq=False)
class GenericModel(ModuleModel):
    """A ``transformers`` module of any kind, seen through ``hidden_states`` and ``attentions``.

    All states and maps of a text are in memory at once, and the weights are not known by their meaning; ``refused``
    says why, where those of other models of its type are.
    """

    refused: str = ""

    @property
    def why_no_parts(self) -> str:
        """Why the weights are not known by their meaning."""
        if self.refused:
            return f"{self.refused.removesuffix('.')}, so spectra and the ladder are left out."
        return (
            f"Which weights of a {self.kind!r} model are Q, K, V and O is not known here, so spectra and the ladder "
            f"are left out; model types with both: {', '.join(sorted(FAMILIES))}."
        )

    @property
    def depth(self) -> int:
        """The number of layers."""
        return self._shape.depth

    @property
    def heads(self) -> int:
        """The number of attention heads in a layer; 0 when the model shows no maps."""
        return self._shape.heads

    @property
    def dimension(self) -> int:
        """The width d of a token."""
        return self._shape.dimension

    @property
    def causal(self) -> bool:
        """True when a token sees only the tokens before it."""
        return self._shape.causal

    @cached_property
    def longest(self) -> int:
        """The most tokens the model can take, as far as it says so."""
        config = self.stack.config
        stated = next((getattr(config, name) for name in _LENGTHS if getattr(config, name, None)), _UNLIMITED)
        for name, module in self.stack.named_modules():  # positions counted from the padding index cost some places
            if "position" in name and getattr(module, "padding_idx", None) is not None:
                stated = min(stated, module.num_embeddings - module.padding_idx - 1)
        return int(stated)

    def mask(self, layer: int) -> str:
        """Which tokens a token of a layer sees: from a trial, and from the window that the configuration states."""
        config = self.stack.config
        kinds: Any = getattr(config, "layer_types", None)
        width: Any = getattr(config, "sliding_window", None)
        if not self.causal:
            return "full"
        slides = bool(kinds) and kinds[layer] == "sliding_attention" and width
        return f"window({int(width) - 1}, causal)" if slides else "causal"  # the library counts the token itself

    def doubled(self) -> AbstractContextManager[None]:
        """Inside, the model computes in float64."""
        return doubled(self.whole, ())

    def watch(self, ids: Sequence[int], layers: int, states: See, attention: See) -> None:
        """Run one text and show every state and map: see ``Model``."""
        check_layers(self, layers)
        found, maps = self._outputs(ids)
        for layer, x in enumerate(found[: layers + 1]):
            if layer and maps:
                attention(layer, shown(maps[layer - 1][0]))
            states(layer, shown(x[0]))

    @cached_property
    def _shape(self) -> _Shape:
        size = self.vocabulary or 1
        states, maps = self._outputs([(1 + i) % size for i in range(min(_TRIAL, self.longest))])
        later = np.triu_indices(maps[0].shape[-1], 1) if maps else ((), ())
        causal = bool(maps) and all(not shown(A[0])[:, later[0], later[1]].any() for A in maps)
        return _Shape(len(states) - 1, int(maps[0].shape[1]) if maps else 0, int(states[0].shape[-1]), causal)

    def _outputs(self, ids: Sequence[int]) -> tuple[Sequence[Any], Sequence[Any]]:
        """Hidden states (1, n, d) and maps (1, h, n, n) of one text; no maps where the model gives none."""
        try:
            out = self.call(ids, output_hidden_states=True, output_attentions=True)
        except InputError:
            raise
        except Exception as error:  # the library's models fail in as many ways as there are models
            reason = (str(error).strip().splitlines() or [""])[0][:160]
            raise InputError(f"{self.name!r} cannot be run on this text ({type(error).__name__}: {reason}).") from error
        prefix = "decoder_" if self.crossed else ""
        states, maps = (out.get(prefix + name) for name in ("hidden_states", "attentions"))
        return self._checked(states or (), [A for A in maps or () if A is not None])

    def _checked(self, states: Sequence[Any], maps: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        if not states:
            raise InputError(f"{self.name!r} shows no hidden states, so there is nothing to measure.")
        shape = states[0].shape
        if any(x.shape != shape for x in states) or len(shape) != 3:
            raise InputError(
                f"{self.name!r} changes the number of its tokens or their width from layer to layer "
                f"({', '.join(sorted({str(tuple(x.shape[1:])) for x in states}))}), so layers cannot be compared."
            )
        whole = (1, maps[0].shape[1], shape[1], shape[1]) if maps and maps[0].ndim == 4 else None
        usable = len(maps) == len(states) - 1 and all(A.shape == whole for A in maps)
        return states, maps if usable else ()
