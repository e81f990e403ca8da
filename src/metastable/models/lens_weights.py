"""Weights of models without a family file, found by TransformerLens and checked against the model itself.

TransformerLens names, for many architectures, the modules that hold W_Q, W_K, W_V and W_O. What it says is used only
where it reproduces what the model computes on two short texts, with A the model's own attention maps and y what its
attention reads:

    the input of the output map is A (W_V y + b_V), head by head, and its output is W_O of that;
    log A differs between the texts, up to a constant for each row, as scale <W_Q y_i + b_Q, W_K y_j + b_K> does
    (positions in the scores cancel: rotary turns because every token is put at position 0, biases in the difference);
    y is the token itself, or one of the layer's norms of it;
    what is written is added to the token, perhaps after a norm or times a number.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass, field
from importlib.util import find_spec
from inspect import signature
from io import StringIO
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.models.families import BlockWeights, Family, FeedForward, Norm
from metastable.models.families.shared import EMBEDDED, numbered
from metastable.models.lens_checks import Seen, added, check_maps, front_norm, score_scale

_TOKENS = 12  # of the texts that the weights are checked on
_MAPS = ("Q", "K", "V", "O")


class Disagreement(Exception):
    """Why TransformerLens is not used for a model, in words that follow "because"."""


def available() -> bool:
    """Whether TransformerLens is installed."""
    return find_spec("transformer_lens") is not None


def lens_family(model: Any) -> Family:
    """A family for one model (a ``ModuleModel``), with everything but the ladder; Disagreement where it has none.

    Its functions read the weights that TransformerLens found, whatever tensors they are given.
    """
    if not model.heads:
        raise Disagreement("it shows no attention maps")
    found = _layers(model)
    runs = _two_runs(model, found)
    blocks = [_checked(layer, at, runs) for at, layer in enumerate(found)]
    outside = [path for path in runs[0].norms if not any(path.startswith(f"{layer.block}.") for layer in found)]
    first, last = (next(iter(runs[0].norms_giving(runs[0].states[at], outside)), None) for at in (0, -1))
    table = model.stack.get_input_embeddings()

    def embedding(tensors: Any, config: Any, rows: slice) -> np.ndarray:
        if model.vocabulary is None or table.weight.shape[1] != model.dimension:
            raise InputError(f"{model.name!r} has no tokens in the space of its layers.")
        return _numbers(table.weight[rows])

    return Family(
        name=f"{model.kind} by TransformerLens",
        layers=lambda config: numbered("layer", len(blocks)),
        attention="",
        block=lambda tensors, config, l: blocks[l].block(),
        embedding=embedding,
        positions=lambda tensors, config, l: EMBEDDED,
        mask=lambda config, l: model.mask(l),
        longest=lambda config: model.longest,
        final_norm=lambda tensors, config: last,
        input_norm=lambda tensors, config: first,
    )


@dataclass(frozen=True, eq=False)
class _Layer:
    """Where TransformerLens finds a layer: its attention component, and the paths of modules in the plain model."""

    attention: Any = field(repr=False)
    reads: str
    writes: str
    block: str

    def maps(self, heads: int) -> dict[str, np.ndarray | None]:
        """Q, K (h, k, d), V (h, v, d), O (h, d, v) and biases, grouped heads repeated."""
        found: dict[str, np.ndarray | None] = {}
        for name in _MAPS:
            weight = _numbers(getattr(self.attention, f"W_{name}"))  # (h, d, k), of the output (h, k, d)
            found[name] = np.repeat(weight.swapaxes(1, 2), heads // len(weight), axis=0)
            bias = getattr(self.attention, f"b_{name}")
            found[f"{name.lower()}_bias"] = None if bias is None else _numbers(bias)
        for name in ("q_bias", "k_bias", "v_bias"):
            bias = found[name]
            found[name] = None if bias is None else np.repeat(bias, heads // len(bias), axis=0)
        return found


@dataclass(frozen=True, eq=False)
class _Block:
    """A layer whose maps were checked: what is not a map is kept, the maps are read again when asked for."""

    layer: _Layer
    heads: int
    scale: float
    norm: Norm | None
    after: Norm | None
    out: Norm | None

    def block(self) -> BlockWeights:
        """The layer as plain arrays, with an MLP of no width: only the ladder would need it."""
        maps: Any = self.layer.maps(self.heads)
        d = maps["Q"].shape[-1]
        return BlockWeights(
            **maps,
            scale=self.scale,
            groups=len(self.layer.attention.W_K),
            order="post" if self.norm is None else "pre",
            attention_norm=self.norm,
            mlp_norm=self.after,
            mlp=FeedForward(np.zeros((0, d)), np.zeros((d, 0)), None, None, None, "identity"),
            attention_out=self.out,
        )


def _numbers(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().double().cpu().numpy())


# --- where TransformerLens finds things ---------------------------------------------------------------------------


def _layers(model: Any) -> list[_Layer]:
    """Every layer as TransformerLens knows it, from a copy of the modules that shares the model's weights."""
    if model.crossed:
        raise Disagreement("a decoder also reads its encoder")
    try:
        copy = deepcopy(model.stack, {id(t): t for t in (*model.stack.parameters(), *model.stack.buffers())})
        paths = {id(module): path for path, module in copy.named_modules()}  # before they are wrapped
        bridge = _bridge(copy, model.stack.dtype)
        blocks = bridge.encoder_blocks if hasattr(bridge, "encoder_blocks") else bridge.blocks
        return [_layer(block, paths) for block in blocks]
    except Exception as error:  # an architecture that it does not know, or knows otherwise: many errors, one meaning
        raise Disagreement(f"TransformerLens has no map of {model.kind!r} models") from error


def _layer(block: Any, paths: dict[int, str]) -> _Layer:
    attention = block.attn
    parts = (getattr(attention, name, None) for name in ("qkv", "v", "q"))
    reads = next(paths[id(part.original_component)] for part in parts if part and id(part.original_component) in paths)
    return _Layer(attention, reads, paths[id(attention.o.original_component)], paths[id(block.original_component)])


def _bridge(copy: Any, dtype: Any) -> Any:
    """TransformerLens's view of a module of its own."""
    from transformer_lens.model_bridge import TransformerBridge

    with _quiet(), TemporaryDirectory() as folder:
        whole = _with_head(copy)
        whole.config.save_pretrained(folder)  # what it asks a hub for otherwise
        return TransformerBridge.boot_transformers(folder, hf_model=whole, dtype=dtype, tokenizer=_no_words(folder))


def _with_head(base: Any) -> Any:
    """The module under the class with a head, as TransformerLens expects it; what is not measured has no weights."""
    import torch
    import transformers as tf

    tables = (
        tf.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
        tf.MODEL_FOR_CAUSAL_LM_MAPPING,
        tf.MODEL_FOR_MASKED_LM_MAPPING,
    )
    for table in tables:
        if type(base.config) in table:
            with torch.device("meta"):
                made = table[type(base.config)](deepcopy(base.config))
            place = next((path for path, module in made.named_modules() if type(module) is type(base)), "")
            if place:
                made.set_submodule(place, base)
                made.config.architectures = [type(made).__name__]
                return made
    base.config.architectures = [type(base).__name__]
    return base


def _no_words(folder: str) -> Any:
    """A tokenizer of one word, for a library that insists on one and reads it again."""
    from tokenizers import Tokenizer, models
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    made = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="a", pad_token="a", bos_token="a", eos_token="a")
    made.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


@contextmanager
def _quiet() -> Iterator[None]:
    """Its progress and advice go to the log and to stdout, which belong to the caller."""
    import logging

    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(StringIO()):
            yield
    finally:
        logging.disable(level)


# --- what the model itself computes -------------------------------------------------------------------------------


def _two_runs(model: Any, layers: Sequence[_Layer]) -> list[Seen]:
    """Two short texts through the plain model, with what its attention modules read and write."""
    import torch

    drawn, taken = np.random.default_rng(0), signature(model.stack.forward).parameters
    options: dict[str, Any] = {}
    if {"position_ids", "attention_mask"} <= set(taken):  # without a mask, equal positions mean texts of one token
        whole = torch.ones((1, _TOKENS), dtype=torch.long, device=model.stack.device)
        options = {"position_ids": 0 * whole, "attention_mask": whole}
    if model.vocabulary is None:
        raise Disagreement("its input is no text")
    texts = [drawn.integers(0, model.vocabulary, _TOKENS).tolist() for _ in range(2)]
    paths = {path for layer in layers for path in (layer.reads, layer.writes)}
    for layer in layers:  # an MLP beside attention is a child of the layer
        paths |= {f"{layer.block}.{name}" for name, _ in model.stack.get_submodule(layer.block).named_children()}
    return [Seen.of(model, ids, paths, options) for ids in texts]


def _checked(layer: _Layer, at: int, runs: Sequence[Seen]) -> _Block:
    heads = runs[0].maps[at].shape[0]
    try:
        maps = layer.maps(heads)
    except (RuntimeError, ValueError, AttributeError, TypeError, ZeroDivisionError) as error:
        raise Disagreement(f"TransformerLens does not find the heads of layer {at}") from error
    reads = [run.inputs[layer.reads] for run in runs]
    written = [(run.maps[at], run.inputs[layer.writes], run.outputs[layer.writes]) for run in runs]
    if not all(check_maps(maps, y, *one) for y, one in zip(reads, written)):
        raise Disagreement(f"its W_V and W_O do not give what layer {at} computes")
    scale = score_scale(maps, reads, [run.maps[at] for run in runs])
    if scale is None:
        raise Disagreement(f"its W_Q and W_K do not give the scores of layer {at}")
    found = front_norm(runs, at, layer.reads, layer.block)
    if found == "unknown":
        raise Disagreement(f"what the attention of layer {at} reads is no norm of the tokens")
    out = added(runs[0], at, layer.writes, layer.block)
    if out == "unknown":
        raise Disagreement(f"what the attention of layer {at} adds to the tokens is not what it writes")
    inside = [path for path in runs[0].norms if path.startswith(f"{layer.block}.")]
    after = next(iter(runs[0].norms_giving(runs[0].states[at + 1], inside)), None)
    return _Block(layer, heads, scale, found, after, out)
