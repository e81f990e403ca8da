"""reproduce: records, resuming, refusals, exit codes; with experiments that take no time."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from metastable import cli
from metastable.errors import InputError
from metastable.experiments import EXPERIMENTS
from metastable.experiments.reproducing import HOMES, LONG, reproduce
from metastable.experiments.run_one import read
from metastable.store.folder import digest

FAKES = {name: f"tests.reproduce.fake_{name}" for name in ("good", "other", "wrong", "crash", "slow", "dying", "lost")}
ROOT = Path(__file__).parents[2]


@pytest.fixture
def log(tmp_path, monkeypatch):
    """What the fakes did, line by line."""
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv("FAKE_LOG", str(path))
    return lambda: path.read_text().split("\n")[:-1]


@pytest.fixture
def fakes(monkeypatch):
    monkeypatch.setattr("metastable.experiments.reproducing.HOMES", FAKES)


def quick(names, out, **options):
    return reproduce(names, preset="quick", out=out, homes=FAKES, **options)


@pytest.mark.slow
def test_every_outcome_in_one_go(tmp_path, log):
    out = tmp_path / "out"
    said = []
    names = ["good", "wrong", "crash", "dying", "lost"]
    made = quick(names, out, jobs=2, progress=said.append)
    found = {r.name: r for r in made.results}
    assert list(found) == names
    assert made.failed
    assert [found[n].failed for n in names] == [False, True, True, True, True]
    assert found["good"].record.verdicts[0].status == "holds"
    assert found["wrong"].record.verdicts[0].failing_seeds == (1,)
    assert "RuntimeError: the lamp went out (see" in found["crash"].error
    assert "Traceback" in (out / "crash" / "error.txt").read_text()
    assert "signal 9, twice" in found["dying"].error
    assert "missing from this installation" in found["lost"].error
    assert {p.name for p in (out / "good").iterdir()} == {
        *("provenance.json", "data.npz", "verdicts.json", "done", "seeds-in-order.svg", "turning.mp4"),
        *("preview.png", "index.html", "turning.html"),
    }
    assert not list(out.rglob("*.part*")), "nothing half-written stays"
    assert sorted(event.task for event in said if event.over) == sorted(names)
    assert {"starting", "judging", "drawing"} < {event.text for event in said if event.task == "good"}
    # the dying one was tried twice, and had its first part the second time
    assert sorted(line for line in log() if line.startswith("dying")) == ["dying 0", "dying 2", "dying 2"]
    # again: what is finished is not done again, the others are tried anew
    before = len(log())
    again = quick(["good", "wrong", "crash"], out, jobs=1)
    assert [r.reused for r in again.results] == [True, True, False]
    assert log()[before:] == ["crash 0"]


@pytest.mark.slow
def test_killed_anywhere_it_goes_on(tmp_path, log):
    """kill -9 of the parent: the worker follows, nothing finished is done again, nothing is lost."""
    out = tmp_path / "out"
    code = f"""
from metastable.experiments.reproducing import reproduce
if __name__ == "__main__":
    reproduce(["good", "slow"], preset="quick", jobs=1, out={str(out)!r}, homes={FAKES!r})
"""
    script = tmp_path / "driver.py"
    script.write_text(code)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    process = subprocess.Popen([sys.executable, str(script)], env=environment, cwd=ROOT)
    _wait(lambda: sum(line.startswith("slow") for line in log()) >= 3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(1.0)
    stopped = log()
    parts = len(list((out / "slow" / "parts").glob("part-*[0-9].npz")))
    assert 2 <= parts < 8
    time.sleep(0.6)
    assert log() == stopped, "an orphan went on"
    made = quick(["good", "slow"], out, jobs=1)
    assert not made.failed
    assert [r.reused for r in made.results] == [True, False]
    first = [f"slow {2 * k}" for k in range(parts)]
    assert log()[len(stopped) :] == [f"slow {2 * k}" for k in range(parts, 8)]
    assert stopped[2 : 2 + parts] == first


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(tmp_path, log):
    out = tmp_path / "out"
    code = "import metastable.experiments.reproducing as r, metastable.cli as c, sys\n"
    code += f"if __name__ == '__main__':\n    r.HOMES = {FAKES!r}\n    sys.exit(c.main(sys.argv[1:]))\n"
    script = tmp_path / "driver.py"
    script.write_text(code)
    command = [sys.executable, str(script), "reproduce", "slow", "--quick", "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,  # ignored where tests run behind "&"
    )
    _wait(lambda: len(log()) >= 2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert said.count("\n") == 1
    assert "run the same command again to go on" in said


def _wait(ready, seconds=60.0):
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
def test_other_settings_are_refused(tmp_path, log):
    out = tmp_path / "out"
    quick(["good"], out, jobs=1)
    for options in ({"preset": "default"}, {"preset": "quick", "seeds": 2}):
        with pytest.raises(InputError, match=r"another reproduction \((preset|instances) is .* choose another folder"):
            reproduce(["good"], out=out, homes=FAKES, **options)
    # other defaults under the same name, as after an upgrade
    path = out / "good" / "provenance.json"
    (out / "good" / "done").unlink()
    head = json.loads(path.read_text())
    head["settings"]["chunk"] = 3
    path.write_text(json.dumps(head | {"fingerprint": digest(head["settings"])}))
    made = quick(["good"], out, jobs=1)
    assert "another experiment (chunk is 3 there and 2 here)" in made.results[0].error
    with pytest.raises(InputError, match=r"holds no reproduction \(log, out\)"):
        quick(["good"], tmp_path, jobs=1)


@pytest.mark.slow
def test_unreadable_record_is_made_again(tmp_path, log):
    out = tmp_path / "out"
    quick(["good"], out, jobs=1)
    (out / "good" / "verdicts.json").write_text("{")
    made = quick(["good"], out, jobs=1)
    assert made.results[0].record is not None
    assert log() == ["good 0", "good 2"], "judged again from data.npz, not run again"


@pytest.mark.slow
def test_seed_replays_one_instance(tmp_path, log):
    made = quick(["wrong"], tmp_path / "out", jobs=1, seeds=2, seed=7)
    record = made.results[0].record
    assert record.params["instances"] == 2
    assert record.verdicts[0].failing_seeds == (8,)
    assert read(record.folder).overrides == {"instances": 2, "seed": 7}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["reproduce", "goood"], "did you mean 'good'"),
        (["reproduce", "good", "--quick", "--full"], "exclude each other"),
        (["reproduce", "good", "--seeds", "0"], "seeds must be a whole number >= 1"),
        (["reproduce", "good", "--jobs", "x"], "jobs"),
        (["reproduce", "--quik"], "--quik"),
    ],
)
def test_bad_input_is_one_sentence(words, sentence, fakes, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_command_line(fakes, log, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reproduce", "good", "other", "--quick", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [e["name"] for e in facts["experiments"]] == ["good", "other"]
    assert Path(facts["gallery"]).is_file()
    assert Path(facts["single"]).is_file()
    assert all(e["seconds"] > 0 for e in facts["experiments"])
    assert cli.main(["reproduce", "good", "other", "--quick"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^good \(\d+\.\d s, already there\)$", said, re.MULTILINE)
    assert re.search(r"^\d+\.\d s of work in all; longest: (good|other) \d", said, re.MULTILINE)
    assert cli.main(["reproduce", "wrong", "--quick"]) == 1
    heard = capsys.readouterr()
    assert "1 verdicts: 0 holds, 1 fails (1 of the failing are theorems)." in heard.out
    assert "wrong: 1 fails" in heard.err


def test_table_names_every_experiment():
    assert list(HOMES) == list(EXPERIMENTS)
    assert set(LONG) <= set(HOMES)


@pytest.mark.slow
def test_what_takes_long_is_begun_first_and_shown_in_its_place(tmp_path, log):
    said = []
    table = {"good": FAKES["good"], "noise": FAKES["other"]}
    made = reproduce(preset="quick", out=tmp_path / "out", homes=table, jobs=1, progress=said.append)
    assert [result.name for result in made.results] == ["good", "noise"]
    assert [event.task for event in said if event.over] == ["noise", "good"]


@pytest.mark.slow
def test_check_command(tmp_path, capsys):
    import numpy as np

    np.save(tmp_path / "v.npy", np.diag([2.0, -1.0]))
    np.save(tmp_path / "x.npy", np.array([[1.0, 0.3], [-0.5, 1.0], [0.2, -1.0]]))
    words = ["check", "--V", str(tmp_path / "v.npy"), "--tokens", str(tmp_path / "x.npy")]
    assert cli.main(words) == 0
    assert "Theorem 4.1" in capsys.readouterr().out
    assert cli.main([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    claim = next(c for c in facts["claims"] if c["name"] == "Theorem 4.1")
    assert claim["verdict"]["status"] == "holds"
    assert cli.main(["check"]) == 2
    assert cli.main(["check", "--V", str(tmp_path / "no.npy")]) == 2
