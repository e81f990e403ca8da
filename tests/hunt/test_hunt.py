import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from metastable.cli import main
from metastable.errors import InputError
from metastable.hunt import Rules, hunt, replay, rounds
from metastable.hunt.instances import write
from tests.hunt import planted

RULES = Rules(n=8, d=3, batch=8, elite=2, leads="modulus", scores="positive")


@pytest.mark.slow
def test_a_hunt_goes_on_where_it_was_left(tmp_path, monkeypatch):
    turns = []
    whole = rounds._round
    monkeypatch.setattr(rounds, "_round", lambda rules, turn, elite: (turns.append(turn), whole(rules, turn, elite))[1])

    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hunt(RULES, tmp_path / "a", instances=14, progress=stop)
    assert turns == [0]
    news = []
    report = hunt(RULES, tmp_path / "a", instances=14, progress=news.append)
    assert turns == [0, 1]
    assert (report.instances, report.rounds, len(news)) == (14, 2, 2)
    assert not report.violated
    assert "No violation found in 14 random instances" in report.sentence
    row = report.kinds["good triple"]
    assert row["instances"] == 14
    assert sum(row["climbed"].values()) == 2
    assert row["share of violations"][1] == pytest.approx(1 - 0.025 ** (1 / 14), rel=1e-6)
    assert json.loads((tmp_path / "a" / "report.json").read_text())["verdict"] == report.sentence
    with pytest.raises(InputError, match=r"another hunt \(n is 8 there and 12 here"):
        hunt(Rules(seed=1), tmp_path / "a", instances=8)


def test_the_worst_instances_can_be_replayed(tmp_path, capsys):
    path = tmp_path / "violation-01.npz"
    write(path, planted.ring(), 0)
    path.with_suffix(".json").write_text(json.dumps({"rules": Rules(n=8, d=3, batch=8, elite=2).to_dict()}))
    assert main(["hunt", "replay", str(path), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["outcome"] == "violation"
    assert said["good triple"] is False
    path.with_suffix(".json").unlink()
    with pytest.raises(InputError, match="settings"):
        replay(path)


@pytest.mark.parametrize(
    "wrong",
    [
        ["hunt", "codimensoin"],
        ["hunt", "replay"],
        ["hunt", "replay", "nothing.npz"],
        ["hunt", "codimension", "file.npz"],
        ["hunt", "codimension", "--k", "7", "--d", "4"],
        ["hunt", "codimension", "--minutes", "0"],
        ["hunt", "multi-head", "--leads", "norm"],
    ],
)
def test_bad_input_is_one_sentence(wrong, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(wrong) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_known_exceptions_are_found_from_the_command_line(tmp_path, capsys):
    """About one plane in ten with a shared largest real part keeps four leaders; 20 are drawn."""
    flags = [
        "--n",
        "24",
        "--d",
        "2",
        "--batch",
        "32",
        "--instances",
        "32",
        "--leads",
        "modulus",
        "--scores",
        "positive",
    ]
    assert main(["hunt", "codimension", "--exceptions", *flags, "--out", str(tmp_path / "a"), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["kinds"]["shared largest real part"]["random"]["known exception"] > 0
    assert said["kinds"].get("good triple", {"random": {"violation": 0}})["random"]["violation"] == 0
    again = said["found"][0]
    assert again["outcome"] == "known exception"
    assert np.load(again["file"])["tokens"].shape == (24, 2)


@pytest.mark.slow
def test_several_heads_end_to_end(tmp_path):
    report = hunt(Rules(claim="multi-head", heads=2, n=8, d=3, batch=16, elite=4), tmp_path / "a", instances=28)
    assert report.instances == 28


@pytest.mark.slow
def test_killed_and_taken_up_again(tmp_path):
    flags = [
        "hunt",
        "codimension",
        "--n",
        "8",
        "--d",
        "3",
        "--batch",
        "8",
        "--instances",
        "20",
        "--out",
        str(tmp_path / "a"),
    ]
    command = [sys.executable, "-c", f"from metastable.cli import main; raise SystemExit(main({flags!r}))"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    first = tmp_path / "a" / "rounds" / "round-00000.npz"
    end = time.monotonic() + 600
    while not first.exists() and time.monotonic() < end and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    stamp = first.stat().st_mtime_ns
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode in (0, 1), done.stderr
    assert first.stat().st_mtime_ns == stamp
