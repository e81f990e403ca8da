"""GGUF files: the library's states from the format's own layout, and no setting passed over in silence."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import load
from metastable.models.gguf_file import _LAYER, _WHOLE
from metastable.models.probe import trajectory
from tests.models.conftest import IDS, build


def write_gguf(
    path: Path,
    model: Any,
    values: dict[str, Any] | None = None,
    tensors: dict[str, Any] | None = None,
    left_out: tuple[str, ...] = (),
) -> None:
    """A small Llama as a GGUF file, with the format's own order of rotary pairs; ``values`` are further settings."""
    import gguf

    config, state = model.config, {k: v.detach().numpy() for k, v in model.state_dict().items()}
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    for key, value in (values or {}).items():
        add = {str: writer.add_string, float: writer.add_float32, int: writer.add_uint32, bool: writer.add_bool}
        add[type(value)](f"llama.{key}", value)
    names = dict(_WHOLE) | {
        f"blk.{i}.{k}": f"layers.{i}.{v}" for i in range(config.num_hidden_layers) for k, v in _LAYER.items()
    }
    for name, key in names.items():
        if key not in state or name in left_out:
            continue
        array = state[key]
        if ".attn_q." in name or ".attn_k." in name:
            heads = config.num_attention_heads if ".attn_q." in name else config.num_key_value_heads
            array = array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
        writer.add_tensor(name, np.ascontiguousarray(array))
    for name, array in (tensors or {}).items():
        writer.add_tensor(name, np.asarray(array, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_gguf(tmp_path: Path) -> None:
    import torch

    model = build("llama")
    write_gguf(tmp_path / "m.gguf", model)
    for name in (tmp_path, tmp_path / "m.gguf"):
        read = load(name)
        with torch.no_grad():
            expected, found = (m(torch.tensor([IDS])).last_hidden_state for m in (model, read.stack))
        torch.testing.assert_close(found, expected)
    data = (tmp_path / "m.gguf").read_bytes()
    for size in (10, 300, len(data) - 50):
        (tmp_path / "m.gguf").write_bytes(data[:size])
        with pytest.raises(InputError, match="truncated"):
            load(tmp_path / "m.gguf")
    (tmp_path / "m.gguf").write_bytes(data.replace(b"llama.embedding_length", b"llama.embedding_lengtx"))
    with pytest.raises(InputError, match="altered or incomplete"):
        load(tmp_path / "m.gguf")
    (tmp_path / "m.gguf").write_bytes(b"GGML" + data[4:])
    with pytest.raises(InputError, match="not a GGUF file"):
        load(tmp_path / "m.gguf")


def biased() -> Any:
    """The small Llama with a bias behind every map."""
    import torch
    import transformers

    plain = build("llama")
    model = transformers.LlamaModel(
        transformers.LlamaConfig(**(plain.config.to_dict() | {"attention_bias": True, "mlp_bias": True}))
    )
    model.load_state_dict(plain.state_dict(), strict=False)
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(".bias"):
                weight.normal_()
    return model.eval()


@pytest.mark.parametrize("library", ["transformers", "own"])
def test_biases_are_applied(tmp_path: Path, library: str) -> None:
    """Biases of a Llama were left out in silence, or refused where they are of queries; some may be missing."""
    import torch

    model = biased()
    for left_out in ((), ("blk.0.attn_output.bias", "blk.1.ffn_up.bias")):
        write_gguf(tmp_path / "m.gguf", model, left_out=left_out)
        with torch.no_grad():
            for name in left_out:
                layer, _, rest = name.removeprefix("blk.").partition(".")
                model.get_parameter(f"layers.{layer}.{_LAYER[rest]}").zero_()
        x = trajectory(load(tmp_path, library=library), IDS).x[-1]
        np.testing.assert_allclose(x, model(torch.tensor([IDS])).last_hidden_state[0].detach(), atol=2e-5)


@pytest.mark.parametrize("library", ["transformers", "own"])
@pytest.mark.parametrize(
    "name",
    ["blk.0.attn_q_norm.weight", "blk.0.post_attention_norm.weight", "output_norm.bias", "blk.3.attn_norm.weight", "x"],
)
def test_tensors_without_a_place_are_refused(tmp_path: Path, name: str, library: str) -> None:
    """They were left out in silence; so were layers beyond the count of layers."""
    write_gguf(tmp_path / "m.gguf", build("llama"), tensors={name: np.ones(16), "output.weight": np.ones((50, 16))})
    with pytest.raises(InputError, match=f"holds the tensor {name}, which"):
        load(tmp_path, library=library)


def _hostile(key: bytes, kind: int, value: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, len(key)) + key + struct.pack("<I", kind) + value + bytes(64)


@pytest.mark.parametrize("library", ["transformers", "own"])
@pytest.mark.parametrize(
    "data",
    [
        b"GGUF",
        _hostile(b"deep", 9, struct.pack("<IQ", 9, 1) * 5000),
        _hostile(b"long", 9, struct.pack("<IQ", 8, 1 << 60)),
        _hostile(b"general.alignment", 4, struct.pack("<I", 0)),
        _hostile(b"general.alignment", 6, struct.pack("<f", float("nan"))),
    ],
    ids=["short", "deep", "long", "alignment 0", "alignment nan"],
)
def test_hostile_headers(tmp_path: Path, data: bytes, library: str) -> None:
    (tmp_path / "m.gguf").write_bytes(data)
    with pytest.raises(InputError, match=r"header of m.gguf cannot be read; the file may be truncated or altered\.$"):
        load(tmp_path / "m.gguf", library=library)


@pytest.mark.slow
@pytest.mark.network
def test_smollm2_splits_digits() -> None:
    tokenizer = load("smollm2").tokenizer
    assert tokenizer.words(tokenizer.encode("In 1984, ...")) == ["In", "␣", "1", "9", "8", "4", ",", "..."]


# --- rotary scaling -----------------------------------------------------------------------------------------------

LONG = [3 + (7 * i) % 40 for i in range(48)]
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}


def scaled(given: dict[str, Any]) -> Any:
    """The small Llama with other turns, and weights large enough for them to matter."""
    import torch
    import transformers

    plain = build("llama")
    turns = {"rope_theta": 10000.0, **given}
    model = transformers.LlamaModel(transformers.LlamaConfig(**(plain.config.to_dict() | {"rope_parameters": turns})))
    model.load_state_dict(plain.state_dict())
    with torch.no_grad():
        for layer in model.layers:
            layer.self_attn.q_proj.weight.mul_(3.0)
    return model.eval()


def states(model: Any) -> np.ndarray:
    import torch

    with torch.no_grad():
        return np.asarray(model(torch.tensor([LONG])).last_hidden_state[0])


SCALED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "linear": (
        {"rope_type": "linear", "factor": 3.0},
        {"rope.scaling.type": "linear", "rope.scaling.factor": 3.0},
    ),
    "linear by default": ({"rope_type": "linear", "factor": 3.0}, {"rope.scaling.factor": 3.0}),
    "linear, older": ({"rope_type": "linear", "factor": 3.0}, {"rope.scale_linear": 3.0}),
    "none": ({"rope_type": "default"}, {"rope.scaling.type": "none", "rope.scaling.factor": 3.0}),
    "yarn": (
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
        {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 16,
            "rope.scaling.finetuned": True,
            "rope.scaling.yarn_ext_factor": 1.0,
        },
    ),
    "yarn, all given": (
        {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 16,
            "beta_fast": 8.0,
            "beta_slow": 2.0,
            "attention_factor": 1.5 * (1.0 + 0.1 * np.log(4.0)),
        },
        {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 16,
            "rope.scaling.yarn_beta_fast": 8.0,
            "rope.scaling.yarn_beta_slow": 2.0,
            "rope.scaling.attn_factor": 1.5,
        },
    ),
}


@pytest.mark.parametrize("name", list(SCALED))
def test_rotary_scaling_is_applied(tmp_path: Path, name: str) -> None:
    given, values = SCALED[name]
    judge = scaled(given)
    write_gguf(tmp_path / "m.gguf", judge, values)
    np.testing.assert_allclose(states(load(tmp_path).stack), states(judge), atol=2e-5)
    if name != "none":
        assert np.abs(states(scaled({"rope_type": "default"})) - states(judge)).max() > 1e-2


def test_rotary_divisors_are_applied(tmp_path: Path) -> None:
    """Llama 3's scaling is kept as a tensor of divisors."""
    judge = scaled({"rope_type": "llama3", **LLAMA3})
    plain = scaled({"rope_type": "default"}).rotary_emb.inv_freq
    divisors = (plain / judge.rotary_emb.inv_freq).numpy()
    assert divisors[-1] > 1.5
    write_gguf(tmp_path / "m.gguf", judge, {}, {"rope_freqs.weight": divisors})
    np.testing.assert_allclose(states(load(tmp_path).stack), states(judge), atol=2e-5)
    twice = scaled({"rope_type": "linear", "factor": 2.0})
    write_gguf(tmp_path / "m.gguf", twice, {"rope.scaling.factor": 1.0}, {"rope_freqs.weight": [2.0, 2.0]})
    np.testing.assert_allclose(states(load(tmp_path).stack), states(twice), atol=2e-5)


@pytest.mark.parametrize(
    ("values", "tensors", "sentence"),
    [
        ({"rope.scaling.type": "longrope"}, {}, "type 'longrope'"),
        ({"rope.scaling.type": "of my own"}, {}, "type 'of my own'"),
        ({"rope.dimension_count": 2}, {}, "rope.dimension_count = 2"),
        ({"rope.scaling.alpha": 2.0}, {}, r"rope.scaling.alpha = 2\.0"),
        ({"rope.scaling.yarn_log_multiplier": 0.5}, {}, "yarn_log_multiplier"),
        ({"rope.scaling.yarn_ext_factor": 0.5}, {}, "yarn_ext_factor"),
        ({"rope.freq_base_swa": 5.0}, {}, "freq_base_swa"),
        ({"rope.scaling.attn_factor": 1.5}, {}, "rope.scaling.attn_factor without YaRN"),
        ({"rope.scaling.type": "none", "rope.scaling.yarn_attn_factor": 0.5}, {}, "yarn_attn_factor without YaRN"),
        ({"rope.scaling.type": "yarn", "rope.scaling.factor": 2.0}, {"rope_freqs.weight": [1.0, 2.0]}, "two kinds"),
        ({}, {"rope_freqs.weight": [1.0, 2.0, 3.0]}, "not 2 positive numbers"),
        ({}, {"rope_freqs.weight": [1.0, 0.0]}, "not 2 positive numbers"),
        ({}, {"rope_factors_long.weight": [1.0, 2.0]}, "rope_factors_long"),
        ({"attention.sliding_window": 8}, {}, "attention.sliding_window = 8"),
        ({"attention.causal": False}, {}, "attention.causal = False"),
        ({"expert_count": 4}, {}, "expert_count = 4"),
    ],
)
def test_what_cannot_be_applied_is_refused(
    tmp_path: Path, values: dict[str, Any], tensors: dict[str, Any], sentence: str
) -> None:
    write_gguf(tmp_path / "m.gguf", build("llama"), values, tensors)
    with pytest.raises(InputError, match=sentence) as error:
        load(tmp_path)
    assert "\n" not in str(error.value)
