"""The title model's int8 ONNX graphs, read back into an ordinary T5 model."""

from pathlib import Path
from typing import Any

import numpy as np

# flan-t5-small, as the graphs have it
_SIZES = {
    "vocab_size": 32128,
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 1024,
    "num_layers": 8,
    "num_decoder_layers": 8,
    "num_heads": 6,
    "feed_forward_proj": "gated-gelu",
    "decoder_start_token_id": 0,
    "n_positions": 512,
}
# names of the graphs -> names of the library
_PREFIXES = {"enc.": "encoder.", "m.decoder.": "decoder.", "m.shared.": "shared."}


def title_t5(folder: Path) -> Any:
    """A ``T5Model`` with the dequantised weights: (q - zero point) x scale for every matrix."""
    import torch
    from transformers import T5Config, T5Model

    arrays = read(folder / "encoder.onnx") | read(folder / "decoder.onnx")
    config = T5Config(**_SIZES)
    config._attn_implementation = "eager"
    with torch.device("meta"):
        model = T5Model(config)
    state = {name: torch.from_numpy(array.copy()) for name, array in arrays.items() if name in model.state_dict()}
    state["decoder.embed_tokens.weight"] = state["encoder.embed_tokens.weight"] = state["shared.weight"]
    model.load_state_dict(state, strict=True, assign=True)
    model.tie_weights()  # one table, not three: the weights are counted
    return model.float().eval()


def read(path: Path) -> dict[str, np.ndarray]:
    """Every weight of one graph under the library's name, as float32."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path), load_external_data=False).graph
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights = {_renamed(name): array for name, array in values.items() if name.endswith("layer_norm.weight")}
    for name in values:
        if name.endswith(".weight_quantized"):  # embeddings and position biases, stored as they are used
            weights[_renamed(name.removesuffix("_quantized"))] = _plain(values, name.removesuffix("_quantized"))
    for node in graph.node:
        if node.op_type == "MatMulInteger":  # x @ W with an anonymous W (in, out); the node's name says which it is
            owner = node.name.strip("/").removesuffix("/MatMul_quant").replace("/", ".")
            stem = node.input[1].removesuffix("_quantized")
            weights[_renamed(f"{owner}.weight")] = np.ascontiguousarray(_plain(values, stem).T)
    return weights


def _plain(values: dict[str, np.ndarray], stem: str) -> np.ndarray:
    q, zero = values[f"{stem}_quantized"].astype(np.float32), values[f"{stem}_zero_point"].astype(np.float32)
    return (q - zero) * values[f"{stem}_scale"].astype(np.float32)


def _renamed(name: str) -> str:
    for old, new in _PREFIXES.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name
