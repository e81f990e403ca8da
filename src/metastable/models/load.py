"""One way in for every pretrained model: a zoo name, a hub name, a folder, a GGUF file, or a live object.

Weights are read as safetensors, GGUF or torch files restricted to tensors (``weights_only=True``); code that
comes with a model is never run. Attention is computed eagerly: the fused kernels do not show their maps.
"""

import json
from dataclasses import replace
from difflib import get_close_matches
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any

from metastable.errors import InputError, unknown
from metastable.models import gguf_file, tokens, zoo
from metastable.models.array_inputs import as_model, is_states
from metastable.models.generic_model import GenericModel
from metastable.models.images import Images, from_processor
from metastable.models.lens_model import is_cache, is_lens_model, lens_model
from metastable.models.library import (
    faced,
    finished,
    measured_part,
    quiet,
    read_images,
    read_module,
    read_tokenizer,
    reason,
)
from metastable.models.model import Model
from metastable.models.own_files import LIBRARY, check_kind, read_own, weight_files
from metastable.models.own_model import OwnModel
from metastable.models.quantised import title_t5
from metastable.models.tokens import Tokenizer
from metastable.models.torch_model import TorchModel

LIBRARIES = ("auto", "transformers", "own")
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model")


PARTS = ("encoder", "decoder", "vision", "text")


def load(
    name: Any, dtype: str = "float32", part: str = "encoder", tokenizer: Any = None, library: str = "auto"
) -> Model:
    """Load a pretrained model.

    Parameters
    ----------
    name : str, Path, torch module or arrays
        A zoo name (``metastable.models.zoo.MODELS``), a folder in the layout of ``save_pretrained``, a GGUF file,
        the name of a model on a hub, or a model that is already in memory: one of the library ``transformers``, or a
        ``TransformerBridge``, ``HookedTransformer`` or activation cache of TransformerLens. States that somebody else
        computed are taken as ``metastable.models.from_arrays`` takes them: arrays, outputs, ``.npy``, ``.npz``.
    dtype : {"float32", "float64"}
        Precision of weights and states; a model in memory stays as it is.
    part : {"encoder", "decoder", "vision", "text"}
        Which half of an encoder-decoder, or which tower of a CLIP, to measure; models with one stack have it whole.
        A decoder is run on the text that its encoder reads (teacher forcing).
    tokenizer : Tokenizer, or a tokenizer or image processor of ``transformers``, optional
        How it reads text or pictures; its own where it came with one.
    library : {"auto", "transformers", "own"}
        What runs the model: the library ``transformers`` on PyTorch, or the simulator itself, which needs neither and
        takes ALBERT, BERT, RoBERTa, GPT-2, Llama, Mistral and Qwen2 from the zoo, a folder or a GGUF file. "auto" is
        the library where it is installed.

    Examples
    --------
    >>> model = load("reactions-albert")  # doctest: +SKIP
    >>> model.depth, model.heads, model.dimension  # doctest: +SKIP
    (12, 8, 256)
    """
    if dtype not in ("float32", "float64"):
        raise unknown("precision", dtype, ["float32", "float64"])
    if part not in PARTS:
        raise unknown("part", part, PARTS)
    if is_states(name):
        return as_model(name, tokens=tokenizer, name="cache" if is_cache(name) else "arrays")
    if library not in LIBRARIES:
        raise unknown("library", library, LIBRARIES)
    if library == "own" or (library == "auto" and not has_library()):
        own = _own(name, dtype)
        return own if tokenizer is None else replace(own, tokenizer=tokens.face(tokenizer))
    if not has_library():
        raise InputError(f"The library transformers is not installed here; {LIBRARY}.")
    with quiet():
        if is_lens_model(name):
            return lens_model(name, tokenizer)
        if not isinstance(name, (str, Path)):
            return _live(name, part, tokenizer)
        found = _named(name, dtype, part)
        return found if tokenizer is None else replace(found, **_reader(tokenizer))


def has_library() -> bool:
    """True where ``transformers`` and PyTorch are installed."""
    try:
        return all(find_spec(name) is not None for name in ("torch", "transformers"))
    except (ImportError, ValueError):  # some other finder refuses to answer
        return False


def _own(name: Any, dtype: str) -> OwnModel:
    if not isinstance(name, (str, Path)):
        raise InputError(f"A model is a name, a folder or a .gguf file, not {type(name).__name__}.")
    given, path = str(name), Path(name).expanduser()
    if given in zoo.MODELS:
        check_kind(given, zoo.MODELS[given].kind)
        return read_own(given, zoo.fetch(given), dtype)
    if path.is_dir() or (path.is_file() and path.suffix == ".gguf"):
        _refuse_pipes(given, path)
        return read_own(given, path, dtype)
    _refuse_no_model(given, path)
    raise _no_hub(given)


def _refuse_pipes(name: str, path: Path) -> None:
    """Refuse a folder with a pipe, a socket or a device in it: reading one may not end. A hub's cache holds links."""
    for entry in sorted(path.iterdir()) if path.is_dir() else ():
        if entry.exists() and not (entry.is_file() or entry.is_dir()):
            raise InputError(f"The folder {name!r} holds a pipe, socket or device ({entry.name}); remove it.")


def _no_hub(name: str) -> InputError:
    return InputError(
        f"{name!r} is neither a zoo model nor a folder, and models of a hub need the library transformers ({LIBRARY}); "
        f"these zoo models need no hub: {', '.join(zoo.MODELS)}."
    )


def _named(name: str | Path, dtype: str, part: str) -> TorchModel | GenericModel:
    given, path = str(name), Path(name).expanduser()
    if given in zoo.MODELS:
        return _from_zoo(given, dtype, part)
    if path.is_dir() or (path.is_file() and path.suffix == ".gguf"):
        _refuse_pipes(given, path)
        return _from_folder(given, path, dtype, part)
    _refuse_no_model(given, path)
    return _from_hub(given, dtype, part)


def _live(module: Any, part: str, tokenizer: Any) -> Model:
    """A model in memory; without a tokenizer, that of the folder it was read from is looked for."""
    from transformers import PreTrainedModel

    if not isinstance(module, PreTrainedModel):
        raise InputError(
            f"A model is a name, a folder, a .gguf file or a model of the library transformers, "
            f"not {type(module).__name__}."
        )
    name = str(module.name_or_path or type(module).__name__)
    folder, base = Path(name), module.base_model
    if module.main_input_name not in signature(base.forward).parameters:  # layers without their embedding
        base = module
    if tokenizer is not None:
        return faced(name, base, part=part, **({"tokenizer": None} | _reader(tokenizer)))
    kind = module.config.model_type
    reads, images = (_folder_tokenizer(folder, kind), _folder_images(folder)) if folder.is_dir() else (None, None)
    return faced(name, base, reads, part, images)


def _reader(given: Any) -> dict[str, Any]:
    """What a caller hands in to read with: how pictures are read, or how text is."""
    if hasattr(given, "image_mean") or isinstance(given, Images):
        return {"images": given if isinstance(given, Images) else from_processor(given)}
    return {"tokenizer": tokens.face(given)}


def reach(name: str | Path, patience: float = 20.0) -> None:
    """Raise the sentence that says why a model cannot be had here, without loading it; a zoo model is fetched.

    ``patience`` is how many seconds a silent network is waited for.

    Examples
    --------
    >>> reach("./nowhere")
    Traceback (most recent call last):
    metastable.errors.InputError: There is no folder './nowhere'; give a saved model's folder or one of ...
    """
    given, path = str(name), Path(name).expanduser()
    if given in zoo.MODELS:
        if not has_library():
            check_kind(given, zoo.MODELS[given].kind)
        zoo.fetch(given, patience)
    elif not path.is_dir() and not (path.is_file() and path.suffix == ".gguf"):
        _refuse_no_model(given, path)
        if not has_library():
            raise _no_hub(given)
        from huggingface_hub import try_to_load_from_cache

        if not isinstance(try_to_load_from_cache(given, "config.json"), str):
            _reach_hub(given, patience)


def _from_zoo(name: str, dtype: str, part: str) -> TorchModel | GenericModel:
    folder = zoo.fetch(name)
    if name == "title-t5":
        return finished(name, title_t5(folder), tokens.from_file(folder / "tokenizer.json"), dtype, part)
    return _from_folder(name, folder, dtype, part)


def _from_folder(name: str, path: Path, dtype: str, part: str) -> TorchModel | GenericModel:
    folder = path if path.is_dir() else path.parent
    found = weight_files(name, path)
    if found[0].suffix == ".gguf":
        return _from_gguf(name, found[0], dtype, part)
    _check_config(name, folder / "config.json")
    model = read_module(str(folder), name, dtype, part, local=True)
    tokenizer, images = _folder_tokenizer(folder, model.config.model_type), _folder_images(folder)
    return finished(name, model, tokenizer, dtype, part, images)


def _folder_tokenizer(folder: Path, kind: str) -> Tokenizer | None:
    """The folder's tokenizer; the library would invent an empty one where there is none."""
    found = [pattern for pattern in _TOKENIZERS if (folder / pattern).is_file()]
    if found == ["vocab.txt"] and tokens.reads_smiles(folder / "vocab.txt"):  # the library would split it otherwise
        return tokens.smiles(folder / "vocab.txt")
    if kind == "albert" and found == ["vocab.txt"]:  # ALBERT's own tokenizer has no vocab.txt
        return None
    return read_tokenizer(str(folder), local=True) if found else None


def _folder_images(folder: Path) -> Images | None:
    return read_images(str(folder), local=True) if (folder / "preprocessor_config.json").is_file() else None


def _from_gguf(name: str, path: Path, dtype: str, part: str) -> TorchModel | GenericModel:
    import torch

    try:
        model = gguf_file.read_model(path, getattr(torch, dtype))
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path.name} cannot be read ({reason(error)}); it may be altered or incomplete.") from error
    beside = path.parent / "tokenizer.json"
    tokenizer = tokens.from_file(beside) if beside.is_file() else gguf_file.read_tokenizer(path)
    return finished(name, model, tokenizer, dtype, part)


def _check_config(name: str, path: Path) -> None:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        kind = config.get("model_type")
    except FileNotFoundError as error:
        raise InputError(f"The folder {name!r} has no config.json, so it is not a saved model.") from error
    except (ValueError, AttributeError, OSError) as error:
        raise InputError(f"The config.json of {name!r} cannot be read; it may be truncated.") from error
    from transformers import CONFIG_MAPPING

    if kind not in CONFIG_MAPPING:
        near = get_close_matches(str(kind), CONFIG_MAPPING, n=1, cutoff=0.75)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise InputError(f"The library transformers knows no model of the type {kind!r}, that of {name!r}{hint}")


def _from_hub(name: str, dtype: str, part: str) -> TorchModel | GenericModel:
    try:
        model = read_module(name, name, dtype, part, local=True)  # what an earlier run left in the hub's own cache
        local = True
    except InputError:
        _reach_hub(name)
        local = False
        model = read_module(name, name, dtype, part, local=False)
    if measured_part(name, model, part)[1].main_input_name != "input_ids":
        return finished(name, model, None, dtype, part, read_images(name, local))
    return finished(name, model, read_tokenizer(name, local=local), dtype, part)


def _reach_hub(name: str, patience: float = 10.0) -> None:
    """A quick question before the library starts its long retries."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        HfApi().model_info(name, timeout=patience)
    except HfHubHTTPError as error:
        raise InputError(
            f"The hub has no model {name!r} that can be read from here (HTTP {error.response.status_code}); "
            f"check the name, or use a zoo model: {', '.join(zoo.MODELS)}."
        ) from error
    except Exception as error:  # no network, no name service, offline mode, a proxy that refuses: one answer to all
        raise InputError(
            f"{name!r} is neither a zoo model nor a folder, and no model hub can be reached from here; "
            f"these zoo models need no hub: {', '.join(zoo.MODELS)}."
        ) from error


def _refuse_no_model(name: str, path: Path) -> None:
    near = get_close_matches(name, zoo.MODELS, n=1, cutoff=0.75)
    if near and "/" not in name:
        raise unknown("zoo model", name, zoo.MODELS)
    if path.is_file():
        raise InputError(f"{name!r} is a file; give the folder that holds the model, or a .gguf file.")
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1 or not name.strip():
        raise InputError(f"There is no folder {name!r}; give a saved model's folder or one of {', '.join(zoo.MODELS)}.")
