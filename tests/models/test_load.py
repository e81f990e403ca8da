"""Loading: folders of every family, broken files, unknown names, a hub out of reach."""

import json
import os
import shutil
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import load, zoo
from tests.models.conftest import IDS, SMALL, build


@pytest.fixture
def folder(folders, tmp_path):
    return shutil.copytree(folders["bert"], tmp_path / "bert")


@pytest.mark.parametrize("name", SMALL)
def test_every_family_from_a_saved_folder(models, name):
    model = models[name]
    assert model.depth == 3
    assert model.heads == (3 if name == "t5" else 4)
    assert model.dimension == 16
    assert model.causal == (name in ("gpt2", "llama", "mistral", "qwen2"))
    assert model.tokenizer is None
    assert model.dtype == "float64"


@pytest.mark.parametrize("kind", ["AlbertForMaskedLM", "BertForMaskedLM", "GPT2LMHeadModel", "LlamaForCausalLM"])
def test_models_saved_with_a_head(kind, tmp_path, models):
    """What people really save: the same stack under a prefix, with a head that is not needed, in half precision."""
    import torch
    import transformers

    family = {"Al": "albert", "Be": "bert", "GP": "gpt2", "Ll": "llama"}[kind[:2]]
    made = getattr(transformers, kind)(models[family].stack.config).to(torch.bfloat16)
    made.save_pretrained(tmp_path)
    model = load(tmp_path)
    base = made.base_model.float()
    with torch.no_grad():
        expected, found = (m(torch.tensor([IDS])).last_hidden_state for m in (base.eval(), model.stack))
    torch.testing.assert_close(found, expected)


def test_folder_with_a_tokenizer(folder):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", ",", "sat"]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    tokenizer = load(folder).tokenizer
    ids = tokenizer.encode("the cats, sat")
    assert tokenizer.words(ids) == ["[CLS]", "the", "cat", "s", ",", "sat", "[SEP]"]
    assert tokenizer.special == {0, 1, 2, 3, 4}
    assert (tokenizer.separators, tokenizer.punctuation) == ({3}, {8})


def test_albert_with_several_blocks(tmp_path):
    """Groups of layers are read one by one, and such a model is not deepened."""
    import transformers

    config = transformers.AlbertConfig(
        vocab_size=50,
        hidden_size=16,
        embedding_size=8,
        num_hidden_layers=4,
        num_hidden_groups=2,
        num_attention_heads=4,
        intermediate_size=24,
    )
    transformers.AlbertModel(config).save_pretrained(tmp_path)
    model = load(tmp_path)
    assert not model.shared
    assert not np.array_equal(model.block(1).Q, model.block(2).Q)
    np.testing.assert_array_equal(model.block(2).Q, model.block(3).Q)


def test_precision(folder):
    assert load(folder).dtype == "float32"
    with pytest.raises(InputError, match="did you mean 'float32'"):
        load(folder, dtype="float23")


def test_torch_file(folder):
    import torch

    state = build("bert").state_dict()
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    assert load(folder).depth == 3


class Trap:
    def __reduce__(self):
        return (print, ("code from the model was run",))


def test_pickled_code_is_not_run(folder, capsys):
    import torch

    (folder / "model.safetensors").unlink()
    torch.save({"embeddings.word_embeddings.weight": Trap()}, folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="cannot be read"):
        load(folder)
    assert "was run" not in capsys.readouterr().out


def test_code_beside_the_weights_is_not_run(folder):
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "trap.Trap", "AutoConfig": "trap.Trap"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "trap.py").write_text("raise SystemExit('code from the model was run')")
    assert load(folder).depth == 3


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.99])
def test_truncated_weights(folder, keep):
    path = folder / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data))])
    with pytest.raises(InputError, match="truncated") as error:
        load(folder)
    assert "\n" not in str(error.value)


def test_weights_that_are_missing_or_not_finite(folder):
    import torch
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    state = load_file(path)
    key = "encoder.layer.1.attention.self.query.weight"
    save_file({k: v for k, v in state.items() if k != key}, path, metadata={"format": "pt"})
    with pytest.raises(InputError, match=f"lack 1 tensors, {key}"):
        load(folder)
    save_file(state | {key: torch.full_like(state[key], float("nan"))}, path, metadata={"format": "pt"})
    with pytest.raises(InputError, match=f"nan or inf in {key}"):
        load(folder)


def test_wrong_shape(folder):
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    state = load_file(path)
    key = "encoder.layer.1.attention.self.query.weight"
    save_file(state | {key: state[key][:8].clone()}, path, metadata={"format": "pt"})
    with pytest.raises(InputError, match="cannot be read"):
        load(folder)


def test_folders_that_are_no_models(folder, tmp_path):
    config = folder / "config.json"
    config.write_text(json.dumps({"model_type": "bret"}))
    with pytest.raises(InputError, match="did you mean 'bert'"):
        load(folder)
    config.write_text("{")
    with pytest.raises(InputError, match=r"config\.json .* cannot be read"):
        load(folder)
    config.unlink()
    with pytest.raises(InputError, match=r"no config\.json"):
        load(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no weights"):
        load(tmp_path / "empty")
    with pytest.raises(InputError, match="There is no folder"):
        load(tmp_path / "nowhere")
    (tmp_path / "x.bin").write_bytes(b"")
    with pytest.raises(InputError, match="is a file"):
        load(tmp_path / "x.bin")


@pytest.mark.parametrize("name", ["albert/albert-xlarge-v2", "gpt2"])
def test_hub_out_of_reach(name, monkeypatch):
    import huggingface_hub

    def refuse(*args, **options):
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", refuse)
    with pytest.raises(
        InputError, match="no model hub can be reached .* reactions-albert, .*minilm, smollm2, title-t5"
    ):
        load(name)


def test_t5_halves(folders):
    whole = build("t5")
    for part in ("encoder", "decoder"):
        model = load(folders["t5"], part=part)
        assert model.causal == (part == "decoder")
        expected = getattr(whole, part).block[1].layer[0].SelfAttention.q.weight.detach().numpy()
        np.testing.assert_allclose(model.block(1).Q.reshape(-1, 16), expected, rtol=1e-6)
    with pytest.raises(InputError, match="did you mean 'decoder'"):
        load(folders["t5"], part="decode")


def test_reach_says_why_without_loading(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = import_module("metastable.models.load")
    for reader in ("read_module", "_from_gguf", "_from_zoo"):
        monkeypatch.setattr(home, reader, None)  # nothing is loaded
    asked: list[tuple[str, float]] = []
    monkeypatch.setattr(zoo, "fetch", lambda name, patience: asked.append((name, patience)))
    home.reach(folders["bert"])
    home.reach("minilm", 5.0)
    assert asked == [("minilm", 5.0)]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name, sentence in {"minlm": "did you mean 'minilm'", "a/b/c": "no folder", "a/b": "no model hub"}.items():
        with pytest.raises(InputError, match=sentence):
            home.reach(name)
    monkeypatch.setattr(home, "find_spec", lambda name: None)
    home.reach("minilm", 5.0)
    with pytest.raises(InputError, match=r"title-t5.* needs PyTorch .*pip install 'metastable\[models\]'"):
        home.reach("title-t5")
    with pytest.raises(InputError, match="models of a hub need the library transformers"):
        home.reach("a/b")


def test_an_impatient_download_does_not_try_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> Any:
        commands.append(command)
        return SimpleNamespace(returncode=1, stderr="ERROR: the line is dead.")

    monkeypatch.setattr(zoo.subprocess, "run", run)
    monkeypatch.setenv("METASTABLE_CACHE", str(tmp_path))
    for patience, retries in ((5.0, "0"), (20.0, "1")):
        with pytest.raises(InputError, match="the line is dead"):
            zoo.fetch("minilm", patience)
        words = commands[-1]
        assert words[words.index("--timeout") + 1] == f"{patience:g}"
        assert words[words.index("--retries") + 1] == retries


@pytest.mark.parametrize("library", ["own", "auto"])
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_pipes_are_refused(folder, name, library):
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(InputError, match=f"pipe, socket or device .{name}"):
        load(folder, library=library)
