"""Models without PyTorch: the states and maps of the library, from files, by the simulator alone."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import Model, load, probe, zoo
from metastable.models.file_config import DEFAULTS, completed
from metastable.models.own_model import OwnModel, lengthened
from tests.models.conftest import IDS, build, plain
from tests.models.test_gguf_file import LLAMA3, scaled, write_gguf

OWN = list(DEFAULTS)


def watched(model: Model, ids: list[int], layers: int | None = None) -> tuple[list[np.ndarray], list[np.ndarray]]:
    states, maps = {}, {}

    def state(l: int, x: np.ndarray) -> None:
        assert l == 0 or l in maps, "a map is shown before the state it leads to"
        states[l] = np.array(x)

    model.watch(ids, layers or model.depth, state, lambda l, A: maps.update({l: np.array(A)}))
    assert list(states) == list(range(len(states)))
    return list(states.values()), list(maps.values())


def agree(model: Model, judge: Model, ids: list[int], tolerance: float, layers: int | None = None) -> None:
    states, maps = watched(model, ids, layers)
    expected, seen = watched(judge, ids, layers)
    assert len(states) == len(expected)
    assert len(maps) == len(seen)
    for x, y in zip(states, expected):
        assert x.shape == y.shape
        np.testing.assert_allclose(x, y, atol=tolerance * np.abs(y).max())
    for A, B in zip(maps, seen):
        np.testing.assert_allclose(A, B, atol=tolerance)


@pytest.fixture(scope="session")
def own(folders: dict[str, Path]) -> dict[str, OwnModel]:
    """Every family that needs no PyTorch, in float64."""
    return {name: load(folders[name], dtype="float64", library="own") for name in OWN}


@pytest.mark.parametrize("name", OWN)
def test_states_and_maps_are_the_librarys(own, models, name):
    model, judge = own[name], models[name]
    assert isinstance(model, OwnModel)
    # the library computes some norms and rotary tables in float32, whatever the weights are
    tolerance = 2e-6 if judge.family.name == "llama" else 1e-12
    states, maps = plain(judge, IDS)
    found, seen = watched(model, IDS)
    for x, y in zip([*found, *seen], [*states, *maps], strict=True):
        np.testing.assert_allclose(x, y, atol=tolerance * np.abs(y).max())


@pytest.mark.parametrize("name", OWN)
def test_one_face(own, models, name):
    model, judge = own[name], models[name]
    sizes = ("depth", "heads", "dimension", "longest", "vocabulary", "parameters")
    for what in ("kind", "dtype", "shared", "causal", *sizes):
        assert getattr(model, what) == getattr(judge, what), what
    assert [model.mask(l) for l in range(3)] == [judge.mask(l) for l in range(3)]
    assert model.seen(IDS) == judge.seen(IDS)
    np.testing.assert_allclose(model.block(1).Q, judge.block(1).Q, rtol=1e-12)
    assert model.why_no_ladder == ""
    assert len(model.digest) == 16


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 17, 40])
def test_any_length(own, models, n):
    ids = [(7 * i) % 50 for i in range(n)]
    for name in ("albert", "mistral"):  # all tokens seen, and a window
        agree(own[name], models[name], ids, 2e-6)


def test_sizes_are_few():
    assert len({lengthened(n) for n in range(1, 1025)}) == 13
    assert all(n <= lengthened(n) <= max(16, 1.5 * n) for n in range(1, 2000))


def test_float32_and_back(folders, own):
    single = load(folders["bert"], library="own")
    assert single.dtype == "float32"
    states, maps = watched(single, IDS)
    assert states[1].dtype == maps[0].dtype == np.float32
    agree(single, own["bert"], IDS, 1e-5)
    with single.doubled():
        assert single.dtype == "float64"
        agree(single, own["bert"], IDS, 1e-14)
    assert single.dtype == "float32"


def test_fewer_and_more_layers(own, models):
    agree(own["gpt2"], models["gpt2"], IDS, 1e-12, layers=2)  # before the final norm
    agree(own["albert"], models["albert"], IDS, 1e-9, layers=40)
    with pytest.raises(InputError, match="3 layers, each with weights of its own"):
        watched(own["bert"], IDS, 4)


def test_one_compiled_step_for_all_layers(own):
    from metastable.models import own_model

    watched(own["bert"], IDS)
    before = own_model._step._cache_size()
    watched(own["bert"], [*IDS, 4, 5])
    assert own_model._step._cache_size() == before


@pytest.mark.slow
def test_statistics_are_the_same(own, models):
    texts = [IDS, IDS[::-1], list(range(20))]
    mine, theirs = probe(own["bert"], texts), probe(models["bert"], texts)
    np.testing.assert_allclose(mine.similarity["mean"], theirs.similarity["mean"], atol=1e-10)
    for name in mine.sinks.data_vars:
        np.testing.assert_allclose(mine.sinks[name], theirs.sinks[name], atol=1e-10)


def test_altered_weights(own, models):
    def change(name: str, values: np.ndarray) -> np.ndarray:
        return values * (1.0 + 0.1 * (len(name) % 3))

    agree(own["bert"].altered(change), models["bert"].altered(change), IDS, 1e-10)
    agree(own["bert"], models["bert"], IDS, 1e-10)
    fresh = own["bert"].untrained(0)
    assert fresh.digest != own["bert"].digest
    assert 0.01 < fresh.block(0).Q.std() < 0.03


# --- files --------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(folders: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(folders["bert"], tmp_path / "bert"))


@pytest.mark.parametrize("kind", ["AlbertForMaskedLM", "BertForMaskedLM", "GPT2LMHeadModel", "LlamaForCausalLM"])
def test_saved_with_a_head_in_half_precision(kind, tmp_path, models):
    import torch
    import transformers

    family = {"Al": "albert", "Be": "bert", "GP": "gpt2", "Ll": "llama"}[kind[:2]]
    made = getattr(transformers, kind)(models[family].stack.config).to(torch.bfloat16)
    made.save_pretrained(tmp_path, max_shard_size="2KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    agree(load(tmp_path, library="own"), load(tmp_path), IDS, 1e-5)


@pytest.mark.parametrize("newer", [False, True])
def test_torch_files(folder, own, newer):
    import torch

    state = {f"bert.{key}": value for key, value in build("bert").state_dict().items()}
    state = {key.replace("LayerNorm.weight", "LayerNorm.gamma"): value for key, value in state.items()}
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=newer)
    agree(load(folder, dtype="float64", library="own"), own["bert"], IDS, 1e-14)


def test_gguf_with_scaled_turns(tmp_path):
    for given, values in (
        ({"rope_type": "default"}, {}),
        ({"rope_type": "linear", "factor": 3.0}, {"rope.scaling.factor": 3.0}),
        (
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
            {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16},
        ),
    ):
        write_gguf(tmp_path / "m.gguf", scaled(given), values)
        agree(load(tmp_path, library="own"), load(tmp_path), [3 + (7 * i) % 40 for i in range(48)], 2e-5)


def test_folder_with_llama3_turns(tmp_path):
    scaled({"rope_type": "llama3", **LLAMA3}).save_pretrained(tmp_path)
    agree(load(tmp_path, library="own"), load(tmp_path), [3 + (7 * i) % 40 for i in range(48)], 2e-5)


def test_tokenizers_of_folders(folder):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", ",", "sat", "é"]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    judge, own = load(folder).tokenizer, load(folder, library="own").tokenizer
    for text in ("the cats, sat", "The dog", "é", ""):
        assert own.encode(text) == judge.encode(text)
    assert (own.special, own.separators) == (judge.special, judge.separators)
    (folder / "vocab.txt").unlink()
    assert load(folder, library="own").tokenizer is None


Change = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
KEY = "encoder.layer.1.attention.self.query.weight"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda s: {k: v for k, v in s.items() if k != KEY}, f"lack the tensor {KEY}"),
        (lambda s: s | {KEY: np.full_like(s[KEY], np.nan)}, f"nan or inf in {KEY}"),
        (lambda s: s | {KEY: s[KEY][:8].copy()}, "do not fit its config"),
        (lambda s: s | {"embeddings.word_embeddings.weight": np.zeros((50, 7), np.float32)}, "do not fit its config"),
        (lambda s: {"unknown": s[KEY]}, "lack the tensor"),
    ],
)
def test_broken_weights(folder: Path, change: Change, sentence: str) -> None:
    from safetensors.numpy import load_file, save_file

    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path)
    with pytest.raises(InputError, match=sentence) as error:
        load(folder, library="own")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.99])
def test_truncated_weights(folder: Path, keep: float) -> None:
    path = folder / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data))])
    with pytest.raises(InputError, match="truncated"):
        load(folder, library="own")


def test_what_needs_the_library_says_so(folder: Path, tmp_path: Path) -> None:
    config = folder / "config.json"
    entries = json.loads(config.read_text())
    for change, sentence in (
        ({"model_type": "deberta"}, r"kind 'deberta', which needs PyTorch .*pip install 'metastable\[models\]'"),
        ({"model_type": None}, "kind None"),
        ({"hidden_act": "snake"}, "activation 'snake'"),
        ({"num_attention_heads": 5}, "do not fit its config"),
    ):
        config.write_text(json.dumps(entries | change))
        with pytest.raises(InputError, match=sentence):
            load(folder, library="own")
    for text, sentence in (("{", "cannot be read"), ("[]", "cannot be read")):
        config.write_text(text)
        with pytest.raises(InputError, match=sentence):
            load(folder, library="own")
    config.unlink()
    with pytest.raises(InputError, match=r"no config\.json"):
        load(folder, library="own")
    with pytest.raises(InputError, match="title-t5.* needs PyTorch"):
        load("title-t5", library="own")
    with pytest.raises(InputError, match="models of a hub need the library"):
        load("albert/albert-base-v2", library="own")
    with pytest.raises(InputError, match="did you mean 'own'"):
        load(folder, library="owm")
    with pytest.raises(InputError, match="States are"):
        load([1], library="own")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no weights"):
        load(tmp_path / "empty", library="own")


@pytest.mark.parametrize("kind", OWN)
def test_defaults_are_the_librarys(kind: str) -> None:
    from transformers import CONFIG_MAPPING

    judge, config = CONFIG_MAPPING[kind](), completed({"model_type": kind})
    for name in [*DEFAULTS[kind], "hidden_size", "num_hidden_layers", "num_attention_heads"]:
        if name != "head_dim":
            assert getattr(config, name) == getattr(judge, name), name


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("name", [name for name, entry in zoo.MODELS.items() if entry.kind in DEFAULTS])
def test_zoo(name: str) -> None:
    from metastable.models.texts import default_corpus, texts

    model, judge = load(name, library="own"), load(name)
    for text in texts(default_corpus(name), 2):
        ids = model.tokenizer.encode(text)
        assert ids == judge.tokenizer.encode(text)
        agree(model, judge, ids, 3e-5)
    for what in ("special", "separators", "punctuation", "pieces"):
        assert getattr(model.tokenizer, what) == getattr(judge.tokenizer, what)


# --- without the library ------------------------------------------------------------------------------------------

_BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "sentencepiece", "onnx"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
"""


def without_library(code: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
    """Python code run where PyTorch and transformers cannot be imported."""
    command = [sys.executable, "-c", _BLOCKED + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_nothing_imports_torch(folders: dict[str, Path]) -> None:
    done = without_library(
        """
import metastable as ms
from metastable.models import load, probe, spectra
from metastable.models.load import has_library
assert not has_library()
model = load(sys.argv[1])
found = probe(model, [[3, 17, 5, 41, 17, 2, 8, 3], [1, 2, 3]])
spectra(model)
print(type(model).__name__, found.similarity["mean"].sizes)
try:
    load("someone/something")
except ms.errors.InputError as error:
    print(error)
assert not {"torch", "transformers"} & set(sys.modules)
""",
        folders["albert"],
    )
    assert done.returncode == 0, done.stderr
    assert "OwnModel" in done.stdout
    assert "models of a hub need the library transformers" in done.stdout
