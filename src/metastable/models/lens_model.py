"""Models and caches of TransformerLens, as they are: a ``TransformerBridge``, a ``HookedTransformer``, an
``ActivationCache``.

Nothing of TransformerLens is imported: what has its methods and its names for activations is taken. States are the
residual stream before the first layer and after every layer, so that, unlike in ``transformers``, the last one is not
normed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.models.array_model import as_array
from metastable.models.attention_masks import mask_of, trial_text, with_wide_window
from metastable.models.library import faced
from metastable.models.model import Given, Model, See, check_layers
from metastable.models.module_tensors import ModuleTensors
from metastable.models.parts import Parts, digest
from metastable.models.precision import rounding
from metastable.models.tokens import Tokenizer, face

_HALVES = "encoder_blocks"  # where the layers of an encoder-decoder are, beside "decoder_blocks"
_FIRST, _AFTER, _MAP = "blocks.0.hook_resid_pre", "blocks.{}.hook_resid_post", "blocks.{}.attn.hook_pattern"


def is_lens_model(given: Any) -> bool:
    """Whether an object runs as a model of TransformerLens does."""
    return all(hasattr(given, name) for name in ("run_with_hooks", "cfg", "named_parameters"))


def is_cache(given: Any) -> bool:
    """Whether an object holds activations under the names of TransformerLens."""
    held = _held(given)
    return _AFTER.format(0) in held or any(str(name).startswith(f"{_HALVES}.") for name in held)


def _held(given: Any) -> Mapping[str, Any]:
    """The activations of a cache by name; of anything else none."""
    found = getattr(given, "cache_dict", given)
    return found if isinstance(found, Mapping) else {}


def cached_states(cache: Any) -> tuple[list[np.ndarray], list[np.ndarray] | None]:
    """States (layers + 1, n, d) and maps (layers, h, n, n) of every text of a cache; None without maps."""
    held = _held(cache)
    if _AFTER.format(0) not in held:
        raise InputError(_TWO)
    depth = next(l for l in range(1, len(held) + 1) if _AFTER.format(l) not in held)
    if _FIRST not in held:
        raise InputError(f"The cache holds no {_FIRST!r}; run the model with all of the residual stream in the cache.")
    states = np.stack([as_array(held[name]) for name in (_FIRST, *(_AFTER.format(l) for l in range(depth)))])
    texts = np.moveaxis(states, 1, 0) if states.ndim == 4 else states[None]  # (b, layers + 1, n, d)
    if any(_MAP.format(l) not in held for l in range(depth)):
        return list(texts), None
    maps = np.stack([as_array(held[_MAP.format(l)]) for l in range(depth)])
    return list(texts), list(np.moveaxis(maps, 1, 0) if maps.ndim == 5 else maps[None])


_TWO = (
    "TransformerLens shows the two halves of an encoder-decoder under names of their own, which are not read; give the "
    "transformers model itself, with part='encoder' or part='decoder'."
)


@dataclass(frozen=True, eq=False, repr=False)
class LensModel(Model):
    """A model of TransformerLens, seen through its hooks."""

    lens: Any = field(repr=False)
    name: str
    tokenizer: Tokenizer | None = field(repr=False)

    @property
    def kind(self) -> str:
        """The architecture, as TransformerLens names it."""
        names = ("architecture", "original_architecture", "model_name")
        return str(next((found for n in names if (found := getattr(self.lens.cfg, n, None))), "TransformerLens"))

    @property
    def depth(self) -> int:
        """The number of layers."""
        return int(self.lens.cfg.n_layers)

    @property
    def heads(self) -> int:
        """The number of attention heads in a layer; 0 when it does not show a map of every layer."""
        return int(self.lens.cfg.n_heads) if len(self._masks) == self.depth else 0

    @property
    def dimension(self) -> int:
        """The width d of a token."""
        return int(self.lens.cfg.d_model)

    @property
    def dtype(self) -> str:
        """The precision of the weights."""
        return str(next(iter(self.lens.parameters())).dtype).removeprefix("torch.")

    @property
    def longest(self) -> int:
        """The most tokens the model can take."""
        return int(self.lens.cfg.n_ctx)

    @property
    def vocabulary(self) -> int | None:
        """The number of token ids."""
        size = int(getattr(self.lens.cfg, "d_vocab", None) or 0)
        return size if size > 0 else None

    @property
    def parameters(self) -> int:
        """The number of weights."""
        return sum(int(p.numel()) for p in self.lens.parameters())

    @cached_property
    def digest(self) -> str:
        """A few digits that tell this model's weights from those of another model of the same name."""
        return digest(ModuleTensors(self.lens))

    @property
    def parts(self) -> Parts | None:
        """The weights of the ``transformers`` model inside a bridge, or None."""
        return self._plain if isinstance(self._plain, Parts) else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of its numbers should know."""
        last = "The last state is the one before the model's final norm, where it has one."
        return (last, *rounding(self.dtype))

    @property
    def why_no_parts(self) -> str:
        """Why its weights are not used."""
        return "" if isinstance(self._plain, Parts) else self._plain

    @property
    def why_no_ladder(self) -> str:
        """Why the ladder cannot be climbed."""
        told = "The ladder is climbed on the transformers model itself, not on TransformerLens's view of it."
        return self.why_no_parts or told

    @cached_property
    def _plain(self) -> Parts | str:
        """The parts of the model inside a bridge where it computes the same as the bridge, or why there are none."""
        inner = getattr(self.lens, "original_model", None)
        if inner is None:
            return f"{self.name!r} holds no transformers model, whose weights spectra and the ladder are read from."
        model = faced(self.name, unwrapped(inner).base_model, self.tokenizer, "encoder")
        ids = self._trial
        mine, theirs = _states(self, ids), _states(model, ids)
        if not all(np.allclose(x, y, rtol=1e-3, atol=1e-4 * np.abs(y).max()) for x, y in zip(mine[:-1], theirs[:-1])):
            return (
                f"The weights of {self.name!r} were processed, so that its states are not those of the model inside it."
            )
        return model.parts or model.why_no_parts

    @property
    def shared(self) -> bool:
        """Layers are not applied again."""
        return False

    @property
    def _config(self) -> Any:
        """The configuration of the model inside a bridge, which has its windows, or that of TransformerLens."""
        return getattr(getattr(self.lens, "original_model", None), "config", self.lens.cfg)

    @property
    def _trial(self) -> list[int]:
        return trial_text(self._config, self.longest, self.vocabulary)

    @cached_property
    def _masks(self) -> list[str]:
        """The mask of every layer that shows its map, from a trial."""
        found: list[str] = []

        def see(layer: int, A: np.ndarray) -> None:
            found.append(mask_of(np.any(A > 0, axis=0)))

        self.watch(self._trial, self.depth, lambda layer, x: None, see)
        return found

    def mask(self, layer: int) -> str:
        """Which tokens a token of a layer sees."""
        return with_wide_window(self._config, layer, self._masks[layer] if self.heads else "full")

    def watch(self, given: Given, layers: int, states: See, attention: See) -> None:
        """Run one text and show every state and map: see ``Model``."""
        import torch

        check_layers(self, layers)
        hooks: list[tuple[str, Any]] = [(_FIRST, _shower(states, 0))]
        for l in range(layers):
            hooks += [(_MAP.format(l), _shower(attention, l + 1)), (_AFTER.format(l), _shower(states, l + 1))]
        with torch.inference_mode():
            text = torch.tensor([list(given)], device=next(iter(self.lens.parameters())).device)
            self.lens.run_with_hooks(text, fwd_hooks=hooks)


def _shower(see: See, layer: int) -> Any:
    """A hook of TransformerLens that shows an activation of the only text and changes nothing."""

    def show(values: Any, hook: Any) -> None:
        see(layer, as_array(values[0]))

    return show


def _states(model: Model, ids: list[int]) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    model.watch(ids, model.depth, lambda layer, x: found.append(x.copy()), lambda layer, A: None)
    return found


def unwrapped(inner: Any) -> Any:
    """A plain model with the weights of one whose modules TransformerLens has wrapped."""
    from transformers.initialization import no_init_weights

    with no_init_weights():
        made = type(inner)(inner.config)
    weights = {name.replace("_original_component.", ""): tensor for name, tensor in inner.state_dict().items()}
    missing = made.load_state_dict(weights, strict=False, assign=True).missing_keys
    if missing:
        raise InputError(f"The model inside the bridge lacks {len(missing)} tensors, {missing[0]} among them.")
    made.tie_weights()
    return made.eval()


def lens_model(lens: Any, tokenizer: Any = None) -> LensModel:
    """The face of a ``TransformerBridge`` or ``HookedTransformer``, with its own tokenizer unless another is given."""
    if hasattr(lens, _HALVES):
        raise InputError(_TWO)
    if getattr(getattr(lens, "original_model", None), "main_input_name", "input_ids") != "input_ids":
        raise InputError("Of TransformerLens's models those that read text are measured; give the transformers model.")
    own = getattr(lens, "tokenizer", None) if tokenizer is None else tokenizer
    name = str(getattr(lens.cfg, "model_name", None) or type(lens).__name__)
    return LensModel(lens, name, None if own is None else face(own))
