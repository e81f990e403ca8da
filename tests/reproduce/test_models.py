"""Experiments on pretrained models in `reproduce`: part of every run, skipped with a sentence where there is none."""

import json
from pathlib import Path
from typing import Any

import pytest

from metastable import cli
from metastable.errors import InputError
from metastable.experiments import EXPERIMENTS, model_access
from metastable.experiments.reproducing import NEED_MODELS, choose, reproduce

TABLE = {
    "good": "tests.reproduce.fake_good",
    "model-heads": "tests.reproduce.fake_other",
    "model-spectra": "tests.reproduce.fake_modelless",
}
OFFLINE = "'reactions-albert' is not in the cache, and pip could not download it; try again."


@pytest.fixture(autouse=True)
def _log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    requested: list[str] = []

    def reach(name: str) -> None:
        requested.append(name)
        raise InputError(OFFLINE)

    monkeypatch.setattr(model_access, "reach", reach)
    return requested


def test_they_are_part_of_every_run() -> None:
    assert set(NEED_MODELS) == {name for name, file in EXPERIMENTS.items() if file.startswith("model_")}
    assert set(NEED_MODELS) <= set(choose(()))


@pytest.mark.slow
def test_no_model_no_failure(tmp_path: Path, offline: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    said: list[Any] = []
    made = reproduce(preset="quick", out=out, homes=TABLE, jobs=1, progress=said.append)
    assert [r.name for r in made.results] == ["good"]
    assert made.skipped == {"model-heads": OFFLINE, "model-spectra": OFFLINE}
    assert not made.failed
    assert offline == ["reactions-albert"], "requested once for all"
    assert sum(event.over for event in said) == 3
    page = (out / "gallery.html").read_text()
    assert page.count("skipped</span>") == 2
    assert "metastable reproduce model-heads --quick" in page
    assert "pip could not download it" in page
    # the network is back: one is filled, the other loses its model while it runs, and both can be tried again
    monkeypatch.setattr(model_access, "reach", lambda name: None)
    made = reproduce(preset="quick", out=out, homes=TABLE, jobs=1)
    assert [(r.name, r.reused) for r in made.results] == [("good", True), ("model-heads", False)]
    assert made.skipped == {"model-spectra": "The shelf is empty."}
    assert not made.failed
    assert not (out / "model-spectra").exists()
    page = (out / "gallery.html").read_text()
    assert "The shelf is empty." in page
    assert "Fake other" in page


def test_the_command_line_says_so(
    offline: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("metastable.experiments.reproducing.HOMES", TABLE)
    words = ["reproduce", "model-heads", "--quick", "--out", str(tmp_path / "out")]
    assert cli.main(words) == 0
    assert f"model-heads: skipped: {OFFLINE}" in capsys.readouterr().out
    assert cli.main([*words, "--json"]) == 0
    (facts,) = json.loads(capsys.readouterr().out)["experiments"]
    assert (facts["status"], facts["error"]) == ("skipped", OFFLINE)


def test_a_model_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    out = ["--quick", "--out", str(tmp_path / "out")]
    for name, sentence in {
        "reaction-albert": "did you mean 'reactions-albert'",
        "./nowhere": "There is no folder './nowhere'",
        "nobody/nothing": "no model hub can be reached",
    }.items():
        assert cli.main(["reproduce", "model-heads", "--model", name, *out]) == 2
        assert sentence in capsys.readouterr().err
    assert cli.main(["reproduce", "ginibre", "--model", "minilm", *out]) == 2
    assert "--model is for the experiments model-similarities" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_model_is_in_the_settings_and_in_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_access, "reach", lambda name: None)
    table = {"model-spectra": "metastable.experiments.model_spectra"}
    made = reproduce(preset="quick", out=tmp_path / "out", homes=table, jobs=1, model=str(_saved(tmp_path)))
    (result,) = made.results
    assert result.record is not None
    assert result.record.params["model"] == str(tmp_path / "saved")
    assert all("saved" in v.claim for v in result.record.verdicts)
    assert f"metastable reproduce model-spectra --quick --model {tmp_path / 'saved'}" in (
        (tmp_path / "out" / "gallery.html").read_text()
    )


def _saved(home: Path) -> Path:
    tf = pytest.importorskip("transformers")
    sizes = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    tf.BertModel(tf.BertConfig(**sizes, intermediate_size=8)).save_pretrained(home / "saved")
    return home / "saved"
