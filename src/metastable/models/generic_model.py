"""Any other ``transformers`` model: its hidden states and attention maps, as the library hands them out."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from metastable.errors import InputError
from metastable.models import lens_weights
from metastable.models.attention_masks import mask_of, trial_text, with_wide_window
from metastable.models.families import Family
from metastable.models.images import picture_size
from metastable.models.model import Given, See, check_layers
from metastable.models.module_model import ModuleModel, shown
from metastable.models.parts import Parts
from metastable.models.precision import doubled
from metastable.models.run_cost import check_maps

_UNLIMITED = 1 << 20  # tokens, for a model that states no limit
_LENGTHS = ("max_position_embeddings", "n_positions", "max_source_positions", "seq_length", "max_sequence_length")


class _Shape(NamedTuple):
    """What a trial shows: layers, heads (0 without maps), width, and the mask of every layer that shows a map."""

    depth: int
    heads: int
    dimension: int
    masks: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class GenericModel(ModuleModel):
    """A ``transformers`` module of any kind, seen through ``hidden_states`` and ``attentions``.

    All states and maps of a text are in memory at once, and the weights are not known by their meaning; ``refused``
    says why, where those of other models of its type are.
    """

    refused: str = ""

    @property
    def why_no_parts(self) -> str:
        """Why the weights are not known by their meaning."""
        if isinstance(self._lens, Family):
            return ""
        if not self.heads:
            return (
                f"A {self.kind!r} model does not show maps from token to token in every layer, so spectra and the "
                "ladder are left out."
            )
        if self.refused:
            return f"{self.refused.removesuffix('.')}, so spectra and the ladder are left out."
        return (
            f"Which weights of a {self.kind!r} model are Q, K, V and O is not known here{self._lens}, so spectra and "
            "the ladder are left out ('metastable list model-types' names the types that have both)."
        )

    @property
    def why_no_ladder(self) -> str:
        """Why the ladder cannot be climbed."""
        if self.parts is None:
            return self.why_no_parts
        return f"Of a {self.kind!r} model TransformerLens gives attention alone, so there is no ladder."

    @cached_property
    def parts(self) -> Parts | None:
        """Weights that TransformerLens found and that the model confirms, or None."""
        found = self._lens
        return Parts(self.name, found, self.tensors, self.stack.config) if isinstance(found, Family) else None

    @property
    def shared(self) -> bool:
        """Layers of an unknown structure are not applied again."""
        return False

    @cached_property
    def _lens(self) -> Family | str:
        """What TransformerLens knows of the model, or why it is not used, to be put into a sentence."""
        if not self.heads:
            return ""
        if not lens_weights.available():
            return " (the extra 'lens' knows more)"
        try:
            return lens_weights.lens_family(self)
        except lens_weights.Disagreement as error:
            return f" ({error})"

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

    @cached_property
    def longest(self) -> int:
        """The most tokens the model can take, as far as it says so."""
        configs = (self.stack.config, self.stack.config.get_text_config())  # the second of a model of text and pictures
        named: Any = [getattr(config, name, None) for config in configs for name in _LENGTHS]
        stated = next((size for size in named if isinstance(size, int) and size > 0), _UNLIMITED)  # XLNet says -1
        for name, module in self.stack.named_modules():  # positions counted from the padding index cost some places
            if "position" in name and hasattr(module, "weight") and getattr(module, "padding_idx", None) is not None:
                stated = min(stated, len(module.weight) - module.padding_idx - 1)
        return int(stated)

    def mask(self, layer: int) -> str:
        """Which tokens a token of a layer sees: from a trial, and from a wide window that the configuration states."""
        masks = self._shape.masks
        return with_wide_window(self.stack.config, layer, masks[layer] if masks else "full")

    def doubled(self) -> AbstractContextManager[None]:
        """Inside, the model computes in float64."""
        return doubled(self.whole, ())

    def watch(self, given: Given, layers: int, states: See, attention: See) -> None:
        """Run one text and show every state and map: see ``Model``."""
        check_layers(self, layers)
        if self.reads == "tokens":
            check_maps(self.name, self.heads, len(given), self.depth)
        found, maps = self.outputs(given)
        if self.reads == "tokens" and (n := found[0].shape[1]) != len(self.seen(given)):  # Reformer fills up
            raise InputError(
                f"{self.name!r} makes {n} states of {len(self.seen(given))} tokens, so they are not told apart; "
                "give texts of a length that it takes as it is."
            )
        for layer, x in enumerate(found[: layers + 1]):
            if layer and maps:
                attention(layer, shown(maps[layer - 1][0]))
            states(layer, shown(x[0]))

    @cached_property
    def _shape(self) -> _Shape:
        states, maps = self.outputs(self._example())
        seen = [(A[0] > 0).any(0).cpu().numpy() for A in maps]  # (n, n): in some head
        heads = int(maps[0].shape[1]) if maps else 0
        return _Shape(len(states) - 1, heads, int(states[0].shape[-1]), tuple(mask_of(one) for one in seen))

    def _example(self) -> Given:
        """Something to try the model on: tokens beyond its window, a grey picture, a moment of silence."""
        config = self.stack.config
        if self.reads == "tokens":
            return trial_text(config, self.longest, self.vocabulary)
        if self.images is not None:
            return np.zeros((int(getattr(config, "num_channels", 3)), *picture_size(config)), dtype=np.float32)
        bins = getattr(config, "num_mel_bins", None)
        if bins is None:
            return np.zeros(16000, dtype=np.float32)  # a second of sound
        if self.whole.main_input_name == "input_features":  # Whisper: bins by frames, two for a token
            return np.zeros((bins, 2 * self.longest), dtype=np.float32)
        return np.zeros((int(getattr(config, "max_length", 1024)), bins), dtype=np.float32)

    def outputs(self, given: Given, **options: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        """Hidden states (1, n, d) and maps (1, h, n, n) of one text; no maps where the model gives none."""
        try:
            out = self.call(given, output_hidden_states=True, output_attentions=True, **options)
        except InputError:
            raise
        except Exception as error:  # the library's models fail in as many ways as there are models
            reason = (str(error).strip().splitlines() or [""])[0][:160]
            what = "text" if self.reads == "tokens" else "input"
            raise InputError(
                f"{self.name!r} cannot be run on this {what} ({type(error).__name__}: {reason})."
            ) from error
        prefix = "decoder_" if self.crossed else ""
        states, maps = (out.get(prefix + name) for name in ("hidden_states", "attentions"))
        return self._checked(states or (), [A for A in maps or () if hasattr(A, "ndim")])

    def _checked(self, states: Sequence[Any], maps: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        if not states:
            raise InputError(f"{self.name!r} shows no hidden states, so there is nothing to measure.")
        if not all(hasattr(x, "ndim") for x in states):  # those of Pegasus-X are local and global ones
            raise InputError(f"{self.name!r} shows states in several parts, so there is nothing to compare.")
        shape = states[0].shape
        if any(x.ndim != 3 for x in states):
            raise InputError(
                f"{self.name!r} shows states of the shape {tuple(next(x for x in states if x.ndim != 3).shape[1:])}, "
                "which are no tokens by coordinates, so there is nothing to compare."
            )
        if any(x.shape != shape for x in states):
            raise InputError(
                f"{self.name!r} changes the number of its tokens or their width from layer to layer "
                f"({', '.join(sorted({str(tuple(x.shape[1:])) for x in states}))}), so layers cannot be compared."
            )
        whole = (1, maps[0].shape[1], shape[1], shape[1]) if maps and maps[0].ndim == 4 else None
        usable = len(maps) == len(states) - 1 and all(A.shape == whole for A in maps)
        return states, maps if usable else ()
