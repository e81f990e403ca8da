"""`metastable model` on small random models saved as folders: record, report, resuming, and every way to say no."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from metastable.cli import main
from metastable.errors import InputError
from metastable.models import Model, load, probe
from metastable.models.conclusions import sentences
from metastable.models.study import Settings, read, study
from tests.models.study_records import ladder

IDS = [[3, 17, 5, 41, 17, 2, 8, 3, 29, 11], [4, 4, 9, 30, 2, 2, 17], [44, 1, 6, 6, 12, 13, 14, 15]]


@pytest.fixture(scope="module")
def ids_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "ids.txt"
    path.write_text("\n\n".join(" ".join(map(str, row)) for row in IDS))
    return path


def unrendered(figure: Any, path: Path, **_: Any) -> None:
    """In place of `save_figure`: the figure was drawn; turning 23 of them into SVG takes longer than all the rest."""
    assert figure.axes
    path.parent.mkdir(exist_ok=True)
    path.write_text('<svg xmlns="http://www.w3.org/2000/svg" width="245pt" height="100pt"/>')


def made_up(model: Model, texts: Any, layers: int, **_: Any) -> Any:
    """In place of `ladder`."""
    found = ladder(layers, [1.8, 1.7, 1.6, 1.5], 0.4)
    real = SimpleNamespace(x=np.zeros((layers + 1, len(texts), len(texts[0]), 1)))
    return SimpleNamespace(data=found["ladder"], baselines=found["baselines"], parts=found["parts"], real=real)


@pytest.fixture(scope="module")
def done(folders: dict[str, Path], ids_file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A finished study of a small ALBERT, deeper than it was made, and the words that made it."""
    out = tmp_path_factory.mktemp("study") / "albert"
    words = ["model", str(folders["albert"]), "--texts", str(ids_file), "--layers", "5", "--out", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("metastable.models.run_study.save_figure", unrendered)
        patch.setattr("metastable.models.run_study.film", lambda made, path: None)
        patch.setattr("metastable.models.study_steps.ladder", made_up)  # compiling it takes longer than all the rest
        assert main(words) == 0
    return out, words


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No ladder, which compiles for seconds, and no pictures: they have tests of their own."""

    def absent(*_: Any, **__: Any) -> Any:
        raise InputError("left out of this test")

    monkeypatch.setattr("metastable.models.study_steps.ladder", absent)
    monkeypatch.setattr("metastable.models.run_study._draw", lambda made, report: None)


def said(capsys: pytest.CaptureFixture[str], words: list[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(words)
    out, err = capsys.readouterr()
    return code, out, err


def test_a_file_of_states_is_studied(tmp_path: Path, quick: None, capsys: pytest.CaptureFixture[str]) -> None:
    """States that somebody else computed get the same record and page; what is left out says why."""
    rng = np.random.default_rng(0)
    maps = rng.random((3, 2, 9, 9))
    np.savez(tmp_path / "x.npz", states=rng.normal(size=(4, 9, 8)), attention=maps / maps.sum(-1, keepdims=True))
    words = ["model", str(tmp_path / "x.npz"), "--out", str(tmp_path / "out")]
    assert said(capsys, words)[0] == 0
    made = read(tmp_path / "out")
    assert made.about["probe"]["texts"] == 1
    assert made.heads is not None
    for step in ("spectra", "ladder"):
        assert "without weights" in made.about[step]["absent"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert all(words in page for words in ("states in", "taken as they were given", "not known"))
    assert "transformers hands" not in page
    assert said(capsys, words)[0] == 0
    code, _, err = said(capsys, [*words[:2], "--texts", "english", "--out", str(tmp_path / "other")])
    assert code == 2
    assert "leave --texts out" in err


def test_the_record_is_whole_and_says_what_the_probe_says(
    done: tuple[Path, list[str]], folders: dict[str, Path]
) -> None:
    folder, _ = done
    found = read(folder)
    fresh = probe(load(folders["albert"]), IDS, layers=5)
    for name in ("similarity", "heads", "sinks"):
        mine, theirs = getattr(found, name), getattr(fresh, name)
        assert set(mine.data_vars) == set(theirs.data_vars)
        for key in theirs.data_vars:
            np.testing.assert_allclose(mine[key].values, theirs[key].values, rtol=1e-12, err_msg=f"{name}/{key}")
    assert found.about["probe"]["texts"] == 3
    assert found.about["ladder"]["texts"] == 3
    assert found.ladder is not None
    assert found.cloud["place"].sizes["layer"] == 6
    assert {p.name for p in folder.iterdir()} >= {"done", "report.html", "provenance.json", "spectra.zarr"}
    assert not (folder / "state.npz").exists()
    assert not list(folder.rglob("*.part"))


def test_zarr_folders_open_without_the_package(done: tuple[Path, list[str]]) -> None:
    import xarray

    spectra = xarray.open_zarr(done[0] / "spectra.zarr")
    assert spectra["ov"].dtype == np.complex128
    assert xarray.open_zarr(done[0] / "similarity.zarr")["counts"].sizes["layer"] == 6


def test_the_report_is_offline_and_has_every_section(done: tuple[Path, list[str]]) -> None:
    page = (done[0] / "report.html").read_text(encoding="utf-8")
    for name in ("similarity", "heads", "sinks", "spectra", "ladder", "making"):
        assert f'id="{name}"' in page
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    assert "<script" not in page
    assert "anisotropy" in page
    assert page.count("<img") >= 25
    for sentence in sentences(read(done[0])):
        assert sentence.split(".")[0] in page


def test_a_finished_study_is_not_run_again(
    done: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("loaded a model for a study that is complete")

    monkeypatch.setattr("metastable.models.study.load", refuse)
    code, out, _ = said(capsys, [*done[1], "--json"])
    facts = json.loads(out)
    assert code == 0
    assert facts["how"] == "already complete"
    assert facts["found"]["heads"] == 4
    assert set(facts["found"]["spike"]) == {"0", "3", "5"}


def test_other_settings_are_refused(done: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, [*done[1][:5], "7", *done[1][6:]])
    assert code == 2
    assert "layers is 5 there and 7 here" in err


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "t5"])
def test_every_family_without_a_tokenizer(
    family: str, folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: None
) -> None:
    """A folder saved from a fresh model has no tokenizer: random tokens are used, and a note says so."""
    out = tmp_path / family
    code, words, err = said(capsys, ["model", str(folders[family]), "--limit", "3", "--out", str(out), "--json"])
    assert code == 0, err
    facts = json.loads(words)
    assert "random tokens" in facts["notes"][0]
    assert facts["found"]["top_rung_error"] is None
    assert "left out of this test" in (out / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["albert", "bert", "gpt2", "llama", "t5"])
def test_every_family_with_ladder_and_pictures(
    family: str, folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["model", str(folders[family]), "--limit", "3", "--out", str(tmp_path / family), "--json"]
    code, out, err = said(capsys, words)
    assert code == 0, err
    found = json.loads(out)["found"]
    assert found["top_rung_error"] < 1e-5
    assert (found["step_error"] is None) == (family != "albert")  # the others' layers have weights of their own


@pytest.mark.slow
def test_no_special_and_a_text_of_one_token(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metastable.models.run_study.save_figure", unrendered)
    monkeypatch.setattr("metastable.models.run_study.film", lambda made, path: None)
    text = tmp_path / "one.txt"
    text.write_text("7")
    words = ["model", str(folders["gpt2"]), "--texts", str(text), "--no-special", "--out", str(tmp_path / "one")]
    code, out, err = said(capsys, [*words, "--json"])
    assert code == 0, err
    facts = json.loads(out)
    assert any("single token" in note for note in facts["notes"])
    assert facts["found"]["mean_cosine"] is None
    assert "single token" in (tmp_path / "one" / "report.html").read_text()


@pytest.mark.slow
def test_controls_are_measured_and_resumed(
    folders: dict[str, Path], ids_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    """A study that dies in a control goes on with it, and leaves no state file behind."""
    settings = Settings(str(folders["bert"]), texts=str(ids_file), control=("init", "tokens"), control_seeds=2)
    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr("metastable.models.controls.random_tokens", _die)
        with pytest.raises(KeyboardInterrupt):
            study(settings, out)
    assert {path.name for path in out.glob("state*.npz")} == {"state.npz", "state-init-0.npz", "state-init-1.npz"}
    found = study(settings, out)
    assert found.controls is not None
    assert found.controls.similarity is not None
    assert found.controls.similarity["mean"].sizes["control"] == 2
    assert not list(out.glob("state*"))


def test_a_control_that_is_not_known(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["model", str(folders["bert"]), "--control", "init,shufle", "--out", str(tmp_path / "out")]
    refused(capsys, words, "did you mean 'shuffle'")
    words = ["model", str(folders["bert"]), "--control", "init", "--control-seeds", "0", "--out", str(tmp_path / "out")]
    refused(capsys, words, "control-seeds must be")


def test_ten_thousand_tokens_are_cut(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: None
) -> None:
    text = tmp_path / "long.txt"
    text.write_text(" ".join(str(i % 50) for i in range(10_000)))
    out = tmp_path / "long"
    code, words, err = said(capsys, ["model", str(folders["bert"]), "--texts", str(text), "--out", str(out), "--json"])
    assert code == 0, err
    assert any("cut to the first 64 tokens" in note for note in json.loads(words)["notes"])


# --- saying no ----------------------------------------------------------------------------------------------------


def refused(capsys: pytest.CaptureFixture[str], words: list[str], *parts: str) -> None:
    code, out, err = said(capsys, words)
    assert code == 2, err
    assert out == ""
    assert "Traceback" not in err
    for part in parts:
        assert part in err


def test_bad_texts_leave_no_folder(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, out = str(folders["bert"]), tmp_path / "out"
    bad = {"empty.txt": b" \n\n ", "latin.txt": b"caf\xe9", "words.txt": b"not numbers"}
    for name, data in bad.items():
        (tmp_path / name).write_bytes(data)
    refused(capsys, ["model", home, "--texts", str(tmp_path / "empty.txt"), "--out", str(out)], "holds no text")
    refused(capsys, ["model", home, "--texts", str(tmp_path / "latin.txt"), "--out", str(out)], "UTF-8")
    refused(capsys, ["model", home, "--texts", str(tmp_path / "words.txt"), "--out", str(out)], "without a tokenizer")
    refused(capsys, ["model", home, "--texts", str(tmp_path / "none.txt"), "--out", str(out)], "no file or folder")
    assert not (out / "provenance.json").exists()


def test_bad_numbers(folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home, out = str(folders["bert"]), ["--out", str(tmp_path / "out")]
    refused(capsys, ["model", home, "--layers", "9", *out], "has 3 layers")
    refused(capsys, ["model", home, "--layers", "0", *out], "layers must be")
    refused(capsys, ["model", home, "--layers", "2.5", *out], 'unable to convert "2.5" into int')
    refused(capsys, ["model", home, "--limit", "0", *out], "limit must be")
    refused(capsys, ["model", home, "--head", "9", *out], "heads 0 to 3")
    refused(capsys, ["model", home, "--part", "middle", *out], "encoder")
    assert not (tmp_path / "out").exists() or not (tmp_path / "out" / "provenance.json").exists()


def test_names_that_lead_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    out = ["--out", str(tmp_path / "out")]
    refused(capsys, ["model", "reaction-albert", *out], "reactions-albert")
    refused(capsys, ["model", "./nowhere", *out], "no folder")
    refused(capsys, ["model", "nobody/nothing", *out], "minilm", "smollm2")
    assert not (tmp_path / "out").exists()


def test_broken_weights(folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(folders["bert"], broken)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    refused(capsys, ["model", str(broken), "--out", str(tmp_path / "out")], "cannot be read")


def test_a_folder_with_other_things_is_left_alone(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "diary.txt").write_text("mine")
    refused(capsys, ["model", str(folders["bert"]), "--out", str(tmp_path)], "holds no study")
    assert (tmp_path / "diary.txt").read_text() == "mine"


# --- stopping -----------------------------------------------------------------------------------------------------


def test_a_step_that_dies_is_taken_up(
    folders: dict[str, Path], ids_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    """The probe is not run a second time when a later step dies."""
    settings = Settings(str(folders["bert"]), texts=str(ids_file))
    with monkeypatch.context() as patched:
        patched.setattr("metastable.models.study_steps.spectra", _die)
        with pytest.raises(KeyboardInterrupt):
            study(settings, tmp_path / "out")
    monkeypatch.setattr("metastable.models.study_steps.probe", _die)
    assert study(settings, tmp_path / "out").about["probe"]["texts"] == 3


def _die(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_picture_cut_off_by_a_kill_leaves_nothing(
    folders: dict[str, Path], ids_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(made: Any, report: Any) -> None:
        (made.folder / "figures").mkdir()
        (made.folder / "figures" / ".cosines-raw-98713a03.part.svg").write_text("<svg")
        raise KeyboardInterrupt

    out = tmp_path / "out"
    words = ["model", str(folders["bert"]), "--texts", str(ids_file), "--out", str(out)]
    monkeypatch.setattr("metastable.models.run_study.save_figure", unrendered)
    monkeypatch.setattr("metastable.models.run_study.film", lambda made, path: None)
    monkeypatch.setattr("metastable.models.study_steps.ladder", made_up)
    with monkeypatch.context() as patch:
        patch.setattr("metastable.models.run_study._draw", killed)
        assert main(words) == 130
    assert main(words) == 0
    assert not list((out / "figures").glob(".*"))


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_in_the_pass_over_texts(how: int, folders: dict[str, Path], tmp_path: Path) -> None:
    """Kill the command once it has left a state, and run it again: the numbers are those of an undisturbed run."""
    rng = np.random.default_rng(3)
    text = tmp_path / "ids.txt"
    text.write_text("\n\n".join(" ".join(map(str, row)) for row in rng.integers(0, 50, (800, 60))))
    settings = Settings(str(folders["albert"]), layers=12, texts=str(text), limit=800)
    words = ["model", settings.model, "--layers", "12", "--texts", str(text), "--limit", "800"]
    out = tmp_path / "out"
    script = "import sys; from metastable.models import stream; stream._SAVE_EVERY = 0.2; "
    script += "from metastable.cli import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", script, *words, "--out", str(out)],
        env={**os.environ},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,  # ignored where tests run behind "&"
    )
    deadline = time.monotonic() + 120
    while not (out / "state.npz").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(how)
    code = process.wait(60)
    assert code == (130 if how == signal.SIGINT else -9)
    assert (out / "state.npz").exists()
    found = study(settings, out)
    whole = probe(settings.model, [row.tolist() for row in np.loadtxt(text, dtype=int)], layers=12)
    np.testing.assert_array_equal(found.similarity["counts"].values, whole.similarity["counts"].values)


# --- the simulator ------------------------------------------------------------------------------------------------


def test_a_head_moves_particles(
    folders: dict[str, Path], models: dict[str, Model], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import metastable as ms
    from metastable.models.spectra import value_matrix

    spec = f"model:{folders['albert']}/head=1/top=3"
    out = tmp_path / "run"
    words = ["simulate", "--V", spec, "--n", "8", "--beta", "1", "--t", "1", "--out", str(out), "--no-pictures"]
    code, _, err = said(capsys, words)
    assert code == 0, err
    run = ms.load(out)
    assert run.x.shape[-2:] == (8, 3)
    V = np.asarray(run.dynamics.weights.value_map(0.0))[0]
    np.testing.assert_allclose(V, value_matrix(models["albert"], head=1, top=3), rtol=1e-5)


def test_a_spec_that_cannot_be_read(folders: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, ["simulate", "--V", f"model:{folders['albert']}/top=3"], "names no head")
    refused(capsys, ["simulate", "--V", f"model:{folders['albert']}/head=99/top=3"], "heads 0 to 3")
