"""Llama-like models from one GGUF file: the header read here, the blocks unpacked by the ``gguf`` package.

The library's own way reads the vocabulary four times over, half a minute for a small model; this takes two seconds.
The layout is that of the format's specification, version 3: a header, keyed values, tensor records, aligned data.
"""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.models import tokens
from metastable.models.gguf_header import Header, read_header

# one layer's tensors: name in the file -> name in the library
_LAYER = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_q.bias": "self_attn.q_proj.bias",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_k.bias": "self_attn.k_proj.bias",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_v.bias": "self_attn.v_proj.bias",
    "attn_output.weight": "self_attn.o_proj.weight",
    "attn_output.bias": "self_attn.o_proj.bias",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
    "ffn_gate.bias": "mlp.gate_proj.bias",
    "ffn_up.bias": "mlp.up_proj.bias",
    "ffn_down.bias": "mlp.down_proj.bias",
}
_WHOLE = {"token_embd.weight": "embed_tokens.weight", "output_norm.weight": "norm.weight"}
_BESIDE = ("output.weight", "rope_freqs.weight")  # the map to words, which is not measured; rotary divisors, see below
_MORE_BIASES = ("attn_output.bias", "ffn_gate.bias", "ffn_up.bias", "ffn_down.bias")  # the library's Qwen2 has none
# configuration: name in the library -> key in the file, after the architecture's name
_SIZES = {
    "hidden_size": "embedding_length",
    "head_dim": "attention.key_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
}
_SUPPORTED = ("llama", "qwen2")
# settings that would change the equation, with the value that does not
_USUAL = {
    "expert_count": 0,
    "use_parallel_residual": False,
    "attn_logit_softcapping": 0.0,
    "attention.causal": True,
    "attention.scale": 0.0,
    "attention.clamp_kqv": 0.0,
    "attention.max_alibi_bias": 0.0,
    "attention.sliding_window": 0,
    "attention.temperature_scale": 0.0,
    "embedding_scale": 0.0,
    "residual_scale": 0.0,
}
# what is read of the rotary settings; any other that is not zero is refused
_ROPE = {"dimension_count", "freq_base", "scale_linear", "scaling.finetuned", "scaling.type", "scaling.factor"}
_ROPE |= {f"scaling.{key}" for key in ("original_context_length", "yarn_beta_fast", "yarn_beta_slow")}
_TIMES = ("scaling.attn_factor", "scaling.yarn_attn_factor")  # of turned queries and keys, beside YaRN's own factor


def read_config(path: Path, header: Header) -> dict[str, Any]:
    """The library's configuration of the model, ``model_type`` included."""
    kind = header.values.get("general.architecture")
    if kind not in _SUPPORTED:
        raise InputError(f"{path.name} holds a {kind!r} model; of GGUF files only {' and '.join(_SUPPORTED)} are read.")
    values = {key.removeprefix(f"{kind}."): value for key, value in header.values.items()}
    for key, usual in _USUAL.items():
        if values.get(key, usual) not in (usual, None):
            raise InputError(f"{path.name} sets {kind}.{key} = {values[key]!r}, which is not supported.")
    sizes = {name: values[key] for name, key in _SIZES.items() if key in values}
    if any(isinstance(value, list) for value in sizes.values()):
        raise InputError(f"{path.name} holds a model whose layers differ in size, which is not supported.")
    sizes.setdefault("num_key_value_heads", sizes["num_attention_heads"])
    width = sizes.setdefault("head_dim", sizes["hidden_size"] // sizes["num_attention_heads"])
    vocabulary = header.tensors["token_embd.weight"][0][0]
    facts = {"model_type": kind, "vocab_size": vocabulary, "rope_parameters": _rotary(path, header, values, width)}
    return sizes | facts | _biases(path, header, sizes)


def _biases(path: Path, header: Header, sizes: dict[str, Any]) -> dict[str, bool]:
    """Which maps have biases; a tensor that has no place in the network is refused, for it would be left out."""
    kind, layers = header.values["general.architecture"], range(sizes["num_hidden_layers"])
    known = {f"blk.{l}.{name}" for l in layers for name in _LAYER if kind == "llama" or name not in _MORE_BIASES}
    odd = sorted(set(header.tensors) - known - {*_WHOLE, *_BESIDE})
    if odd:
        raise InputError(f"{path.name} holds the tensor {odd[0]}, which is not supported.")
    biases = {name.split(".")[2][:4] for name in header.tensors if name.startswith("blk.") and name.endswith(".bias")}
    return {"attention_bias": "attn" in biases, "mlp_bias": "ffn_" in biases} if kind == "llama" else {}


def _rotary(path: Path, header: Header, values: dict[str, Any], width: int) -> dict[str, Any]:
    """How the file says that queries and keys are turned, in the library's words; what has none is refused.

    The format has ``rope.scaling.type`` with a factor (linear when no type is named), YaRN's numbers, and a tensor
    ``rope_freqs.weight`` of divisors, one for each pair, in which Llama 3 keeps its scaling.
    """
    given = {key.removeprefix("rope."): value for key, value in values.items() if key.startswith("rope.")}
    if given.get("scaling.yarn_ext_factor", 1.0) in (1.0, -1.0):  # all of the ramp, which is what YaRN means
        given.pop("scaling.yarn_ext_factor", None)
    kind = given.get("scaling.type", "linear")
    times = {key: value for key in _TIMES if (value := given.pop(key, 1.0)) != 1.0}
    if times and kind != "yarn":
        raise InputError(f"{path.name} sets rope.{next(iter(times))} without YaRN, which is not supported.")
    unknown = sorted(key for key, value in given.items() if key not in _ROPE and value not in (0, None))
    if unknown or given.get("dimension_count", width) != width:
        key = unknown[0] if unknown else "dimension_count"
        raise InputError(f"{path.name} sets rope.{key} = {given[key]!r}, which is not supported.")
    turns = {"rope_theta": float(given.get("freq_base", 10000.0)), "rope_type": "default"}
    factor = float(given.get("scaling.factor") or given.get("scale_linear") or 1.0)
    if kind not in ("none", "linear", "yarn"):
        raise InputError(f"{path.name} has rotary scaling of type {kind!r}, which is not supported.")
    divisors = _divisors(path, header, width)
    if kind == "yarn" and divisors is None:
        return turns | _yarn(given, factor, math.prod(times.values()), int(values["context_length"]))
    if divisors is not None and kind != "yarn":  # the library's "longrope" with one table for all texts
        table = [factor * d for d in divisors] if kind == "linear" else divisors
        own = {"short_factor": table, "long_factor": table, "factor": 1.0, "attention_factor": 1.0}
        return turns | own | {"rope_type": "longrope", "original_max_position_embeddings": values["context_length"]}
    if divisors is not None:
        raise InputError(f"{path.name} has two kinds of rotary scaling at once, which is not supported.")
    return turns | ({"rope_type": "linear", "factor": factor} if kind == "linear" and factor != 1.0 else {})


def _yarn(given: dict[str, Any], factor: float, times: float, longest: int) -> dict[str, Any]:
    lengthened = 1.0 + 0.1 * math.log(factor) if factor > 1.0 else 1.0
    return {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": int(given.get("scaling.original_context_length") or longest),
        "beta_fast": float(given.get("scaling.yarn_beta_fast", 32.0)),
        "beta_slow": float(given.get("scaling.yarn_beta_slow", 1.0)),
        "attention_factor": lengthened * times,
    }


def _divisors(path: Path, header: Header, width: int) -> list[float] | None:
    if "rope_freqs.weight" not in header.tensors:
        return None
    shape, code, offset = header.tensors["rope_freqs.weight"]
    found = _unpack(np.memmap(path, mode="r"), shape, code, header.start + offset, path.name)
    if shape != (width // 2,) or not np.all(np.isfinite(found)) or not np.all(found > 0):
        raise InputError(f"The rotary divisors of {path.name} are not {width // 2} positive numbers.")
    return [float(d) for d in found]


def tensor_readers(path: Path, header: Header, config: dict[str, Any]) -> dict[str, Callable[[slice], np.ndarray]]:
    """For every tensor that the library knows, by its name there, a function that unpacks some rows of it, float32."""
    raw = np.memmap(path, mode="r")
    readers: dict[str, Callable[[slice], np.ndarray]] = {}
    for name, record in header.tensors.items():
        prefix, _, rest = name.removeprefix("blk.").partition(".")
        known = _WHOLE.get(name) or (_LAYER.get(rest) and f"layers.{prefix}.{_LAYER[rest]}")
        if known:
            turned = config["model_type"] == "llama" and rest.startswith(("attn_q.", "attn_k."))
            heads = config["num_attention_heads" if rest.startswith("attn_q.") else "num_key_value_heads"]
            readers[known] = partial(_rows, raw, record, header.start, path.name, heads if turned else 0)
    return readers


def _rows(raw: np.ndarray, record: tuple[Any, ...], start: int, file: str, heads: int, rows: slice) -> np.ndarray:
    shape, code, offset = record
    if heads:  # the order of rotary pairs is undone over all rows
        return np.ascontiguousarray(_halves(_unpack(raw, shape, code, start + offset, file), heads)[rows])
    return _unpack(raw, shape, code, start + offset, file, rows)


def read_model(path: Path, dtype: Any) -> Any:
    """The ``transformers`` model of a GGUF file, unpacked to ``dtype``."""
    import torch
    from transformers import LlamaConfig, LlamaModel, Qwen2Config, Qwen2Model

    header = read_header(path)
    given = read_config(path, header)
    config = (LlamaConfig if given["model_type"] == "llama" else Qwen2Config)(**given)
    config._attn_implementation = "eager"
    with torch.device("meta"):
        model = (LlamaModel if given["model_type"] == "llama" else Qwen2Model)(config)
    model.rotary_emb = type(model.rotary_emb)(config)  # its table is computed, not stored
    arrays = {name: rows(slice(None)) for name, rows in tensor_readers(path, header, given).items()}
    state = {name: torch.from_numpy(array).to(dtype) for name, array in arrays.items()}
    if given["model_type"] == "llama":  # the library has all biases of a sublayer or none; a file may hold some of them
        biases = {key: like.shape for key, like in model.state_dict().items() if key.endswith(".bias")}
        state = {key: torch.zeros(shape, dtype=dtype) for key, shape in biases.items()} | state
    missing = sorted(set(model.state_dict()) - set(state))
    if missing:
        raise InputError(f"{path.name} lacks {len(missing)} tensors, {missing[0]} among them.")
    model.load_state_dict(state, assign=True)
    return model


def _unpack(
    raw: np.ndarray, shape: tuple[int, ...], code: int, start: int, file: str, rows: slice = slice(None)
) -> np.ndarray:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
    from gguf.quants import dequantize

    kind = GGMLQuantizationType(code)
    block, size = GGML_QUANT_SIZES[kind]
    row = shape[-1] // block * size
    count = int(np.prod(shape[:-1], dtype=int)) * row
    if start + count > raw.size:
        raise InputError(f"{file} ends before its last tensor; the file is truncated.")
    packed = np.asarray(raw[start : start + count]).reshape(*shape[:-1], row)
    if len(shape) == 1:
        return np.array(dequantize(packed, kind), dtype=np.float32).reshape(shape)[rows]
    return np.array(dequantize(packed[rows], kind), dtype=np.float32).reshape(-1, *shape[1:])


def _halves(weight: np.ndarray, heads: int) -> np.ndarray:
    """Undo the file's order of rotary pairs (side by side) for the library's (first half, second half)."""
    pairs = weight.reshape(heads, -1, 2, *weight.shape[1:])  # (h, k/2, 2, d)
    return np.swapaxes(pairs, 1, 2).reshape(weight.shape)


def read_tokenizer(path: Path) -> tokens.Tokenizer | None:
    """The byte-level tokenizer of a GGUF file, or None when it holds one of another kind.

    SmolLM splits every digit off before it looks for pairs, which the file says by the name of its "pre" step.
    """
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Backend

    values = read_header(path).values
    steps = {"smollm": [pre_tokenizers.Digits(individual_digits=True)], "gpt-2": [], "default": []}
    pre = values.get("tokenizer.ggml.pre", "default")
    if values.get("tokenizer.ggml.model") != "gpt2" or pre not in steps:
        return None
    pieces, merges = values["tokenizer.ggml.tokens"], values["tokenizer.ggml.merges"]
    pairs = [(a, b) for a, _, b in (merge.partition(" ") for merge in merges)]
    backend = Backend(models.BPE({piece: i for i, piece in enumerate(pieces)}, pairs))
    backend.pre_tokenizer = pre_tokenizers.Sequence([*steps[pre], pre_tokenizers.ByteLevel(add_prefix_space=False)])
    backend.decoder = decoders.ByteLevel()
    control = [i for i, kind in enumerate(values["tokenizer.ggml.token_type"]) if kind == 3]  # 3: control token
    backend.add_special_tokens([AddedToken(pieces[i], special=True, normalized=False) for i in control])
    ends = [values.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "seperator")]  # spelt so in the format
    return tokens.from_backend(backend, frozenset(control), frozenset(int(i) for i in ends if i is not None))
