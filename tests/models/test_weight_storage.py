"""What is said of weights that are stored or given in less than float32."""

import shutil

import numpy as np
import pytest

from metastable.models import load, probe
from metastable.models.weight_storage import stored
from tests.models.conftest import IDS, build


@pytest.mark.parametrize(
    ("dtype", "word"), [("float16", "F16"), ("bfloat16", "BF16"), ("float32", ""), ("float64", "")]
)
@pytest.mark.parametrize("kind", ["model.safetensors", "pytorch_model.bin", "older"])
def test_what_a_folder_holds(tmp_path, dtype, word, kind):
    import torch

    model = build("bert").to(getattr(torch, dtype))
    model.config.save_pretrained(tmp_path)
    if kind == "model.safetensors":
        model.save_pretrained(tmp_path)
    else:
        state = model.state_dict()
        torch.save(state, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=kind != "older")
    said = stored(str(tmp_path))
    assert said == (
        f"Its weights are stored as {word} and were turned back into float32: they are rounded." * bool(word)
    )


def test_a_model_in_the_hub_s_cache(tmp_path, folders, monkeypatch):
    import huggingface_hub
    import torch

    shutil.copytree(folders["bert"], tmp_path / "here")
    build("bert").to(torch.float16).save_pretrained(tmp_path / "here")
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda name, file: str(tmp_path / "here" / file))
    assert "stored as F16" in stored("somebody/something")
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda name, file: None)
    assert stored("somebody/something") == ""
    assert stored(str(tmp_path / "states.npz")) == ""


def test_a_live_model_in_half_precision_says_so(models):
    import torch

    half = build("bert").to(torch.bfloat16)
    found = probe(half, [IDS], measure="similarity")
    assert any("given in bfloat16 and computes in it" in note for note in found.notes)
    assert np.isfinite(found.similarity["mean"].sel(kind="raw")).all()
    assert load(build("bert")).notes == ()
    assert not any("rounded" in note for note in models["bert"].notes)
