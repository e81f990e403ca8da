"""The library ``transformers``: modules and tokenizers read with it, and the face they get."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from metastable.errors import InputError
from metastable.models import tokens
from metastable.models.families import FAMILIES, Family
from metastable.models.families.shared import unknown_activation
from metastable.models.generic_model import GenericModel
from metastable.models.images import Images, from_processor, plain
from metastable.models.tokens import Tokenizer
from metastable.models.torch_model import TorchModel


def read_module(source: str, name: str, dtype: str, part: str, local: bool) -> Any:
    """The library's model; every way in which weights can be broken becomes one sentence."""
    import torch
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(source, local_files_only=local, trust_remote_code=False)
        halves = {"t5": transformers.T5EncoderModel, "mt5": transformers.MT5EncoderModel}
        kind = halves.get(config.model_type, transformers.AutoModel) if part == "encoder" else transformers.AutoModel
        model, report = kind.from_pretrained(
            source,
            config=config,
            trust_remote_code=False,
            attn_implementation="eager",
            dtype=getattr(torch, dtype),
            weights_only=True,
            output_loading_info=True,
            local_files_only=local,
        )
    except InputError:
        raise
    except Exception as error:  # safetensors, pickle, zip and shape errors have no common ancestor
        raise InputError(
            f"The weights of {name!r} cannot be read ({reason(error)}); "
            "the files may be truncated, altered or incomplete."
        ) from error
    missing = [key for key in report["missing_keys"] if not key.startswith("pooler.") and not _computed(model, key)]
    if missing:  # the library would fill them with random numbers
        raise InputError(f"The weights of {name!r} lack {len(missing)} tensors, {sorted(missing)[0]} among them.")
    return model


def _computed(model: Any, key: str) -> bool:
    """Whether a tensor is a table of sines, which the library computes and no file holds."""
    return "Sinusoidal" in type(model.get_submodule(key.rpartition(".")[0])).__name__


def read_images(source: str, local: bool) -> Images | None:
    """The image processor beside a model, or on a hub; None where there is none."""
    from transformers import AutoImageProcessor

    try:
        found = AutoImageProcessor.from_pretrained(
            source, backend="pil", local_files_only=local, trust_remote_code=False
        )
    except (OSError, ValueError):  # none there, or of a kind that the library does not know
        return None
    return from_processor(found)


def read_tokenizer(source: str, local: bool) -> Tokenizer:
    """The tokenizer beside a model, or on a hub."""
    from transformers import AutoTokenizer

    try:
        found = AutoTokenizer.from_pretrained(source, local_files_only=local, trust_remote_code=False)
    except Exception as error:
        raise InputError(f"The tokenizer of {source!r} cannot be read ({reason(error)}).") from error
    return tokens.from_transformers(found)


def finished(
    name: str, model: Any, tokenizer: Tokenizer | None, dtype: str, part: str, images: Images | None = None
) -> TorchModel | GenericModel:
    """A module that was just read, in the precision wanted; weights that are not finite are refused."""
    import torch

    model = model.to(getattr(torch, dtype)).eval().requires_grad_(False)
    for key, tensor in model.named_parameters():
        # nan and inf show in the extremes, which need no copy of a large table
        if tensor.numel() and not all(bool(torch.isfinite(end)) for end in torch.aminmax(tensor)):
            raise InputError(f"The weights of {name!r} hold nan or inf in {key}; the file may be altered.")
    return faced(name, model, tokenizer, part, images)


def faced(
    name: str, model: Any, tokenizer: Tokenizer | None, part: str, images: Images | None = None
) -> TorchModel | GenericModel:
    """The face of a module: with hooks where its family is known, otherwise through the library's own outputs."""
    stack, whole = measured_part(name, model, part)
    if whole.main_input_name == "pixel_values":
        images = images or plain(stack.config)
    else:
        images = None
    family = FAMILIES.get(stack.config.model_type)
    why = "" if family is None else _refusal(family, stack.config, stack is not whole)
    if family is None or why:
        return GenericModel(name, stack, whole, tokenizer, images=images, refused=why)
    return TorchModel(name, stack, whole, tokenizer, family, images=images)


def measured_part(name: str, model: Any, part: str) -> tuple[Any, Any]:
    """The module whose layers are measured, and the one that is called to run them."""
    towers = {"vision": "vision_model", "text": "text_model"}
    if all(hasattr(model, tower) for tower in towers.values()):  # CLIP and its kin
        tower = getattr(model, towers.get(part, "text_model"))
        return tower, tower
    if part in towers:
        if (model.main_input_name == "pixel_values") != (part == "vision"):
            raise InputError(f"{name!r} has no part {part!r}: its input is {model.main_input_name!r}.")
        return model, model
    if model.config.is_encoder_decoder and hasattr(model, "decoder"):
        return (model.encoder, model.encoder) if part == "encoder" else (model.decoder, model)
    if hasattr(model, "encoder") and model.config.model_type in ("t5", "mt5"):
        return model.encoder, model.encoder
    return model, model


def _refusal(family: Family, config: Any, decoder: bool) -> str:
    """Why a family does not read a model of its type, in a sentence; empty where it does."""
    if decoder and not family.decoders:
        return f"The decoder of a {config.model_type!r} model also reads its encoder, which is not known here."
    return family.refuses(config) or unknown_activation(config)


def reason(error: Exception) -> str:
    """An error of another library in a few words."""
    line = (str(error).strip().splitlines() or [""])[0].strip().rstrip(".")
    return f"{type(error).__name__}: {line[:160]}" if line else type(error).__name__


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no load reports: errors are raised, the rest is noise on a command line."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
