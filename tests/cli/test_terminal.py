"""The terminal: lists from tables, quiet, completion, colours, config, doctor, and what check says first."""

import inspect
import json
import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import metastable as ms
from metastable.cli import COMMANDS, _prose
from metastable.cli.flags import _flag as flag_of
from metastable.config import installation
from metastable.config.environment import ENVIRONMENT
from metastable.config.settings import Animate, Plot, Simulate, Table
from metastable.models.spectra import value_matrix
from tests.cli.conftest import Metastable
from tests.models.conftest import build

ROOT = Path(__file__).parents[2]
TABLES = [
    (settings, name, field.json_schema_extra["table"])
    for settings in (Simulate, Plot, Animate)
    for name, field in settings.model_fields.items()
    if field.json_schema_extra["table"]
]


def test_same_defaults_from_both_sides() -> None:
    """Every setting that Python has too has the same default there."""
    python = {
        name: parameter.default
        for function in (ms.Dynamics, ms.simulate)
        for name, parameter in inspect.signature(function).parameters.items()
    }
    for name, field in Simulate.model_fields.items():
        if name in python:
            there = python[name]
            assert field.default == getattr(there, "name", there), name


@pytest.mark.parametrize(("settings", "name", "table"), TABLES)
def test_help_lists_what_the_table_has(
    settings: type[Table], name: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry added to the part's own table is in the help of its flag, without another line anywhere."""
    module, _, variable = table.partition(":")
    entries = getattr(import_module(f"metastable.{module}"), variable)
    monkeypatch.setitem(entries, "one-more", next(iter(entries.values())))
    words = flag_of(settings, name).annotation.__metadata__[0].help
    for entry in entries:
        assert entry in words


@pytest.mark.parametrize("name", COMMANDS)
def test_help_breaks_lines_where_the_terminal_ends(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A docstring's own line ends would leave lines of one word."""
    home, _, function = COMMANDS[name][0].partition(":")
    said = getattr(import_module(home), function).__doc__ or ""
    shown = _prose(COMMANDS[name][0])
    assert " ".join(shown.split()) in " ".join(said.split())
    assert all(part.strip() and "\n" not in part for part in shown.split("\n\n"))
    assert "----" not in shown


def test_a_flag_in_the_wrong_case_is_recognised(metastable: Metastable) -> None:
    metastable("check", "--v", "1,2").refused("Unknown option: --v. Did you mean --V?")
    metastable("check", "--bta", "2").refused("Unknown option: --bta. Did you mean --beta?")
    nothing_near = metastable("simulate", "--spacingg", "3")
    nothing_near.refused("Unknown option: --spacingg; `metastable simulate --help`")
    assert "Did you mean" not in nothing_near.err  # it was --explain
    metastable("check", "--zzzzzz", "1").refused("`metastable check --help` lists what there is")


def test_help_of_commands(metastable: Metastable) -> None:
    said = " ".join(metastable("simulate", "--help").out.split())
    assert "unnormalised, hardmax" in said
    assert "papers' baseline" in said
    assert "--install-completion" in metastable("--help").out


def test_quiet(metastable: Metastable, tmp_path: Path) -> None:
    words = ("simulate", "--n", 8, "--t", 1, "--save", 3, "--no-pictures", "--quiet")
    answer = metastable(*words, "--out", "a")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert (tmp_path / "a" / "done").is_file()
    assert metastable(*words, "--out", "b", "--json").facts["status"] == "done"
    assert "METASTABLE_QUIET" not in os.environ
    metastable("simulate", "--n", "x", "--quiet").refused("n must be")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, metastable: Metastable, tmp_path: Path, monkeypatch) -> None:
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    answer = metastable("--install-completion", shell)
    assert answer.code == 0
    script = Path(answer.out.split(": ", 1)[1].split(". Open")[0])
    text = script.read_text()
    assert script.is_relative_to(tmp_path)
    for word in ("simulate", "doctor", "geometry"):
        assert word in text


def test_completion_of_a_shell_nobody_has(metastable: Metastable) -> None:
    metastable("--install-completion", "bsh").refused("Unknown shell 'bsh'; did you mean 'bash'?")


def test_no_colour() -> None:
    def said(**extra: str) -> str:
        words = [sys.executable, "-m", "metastable", "--help"]
        plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
        return subprocess.run(words, capture_output=True, text=True, env={**plain, "FORCE_COLOR": "1", **extra}).stdout

    assert "\x1b[36m" in said()
    without = said(NO_COLOR="1")
    assert not any(f"\x1b[{code}m" in without for code in range(30, 38))


# --- config and doctor ---


def test_config_says_where_settings_come_from(metastable: Metastable, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[simulate]\nn = 9\nbeta = 3.0\n")
    said = metastable("config", "mine.toml", "--n", 5)
    assert said.code == 0
    assert "n = 5" in said.out
    lines = {line.split(" = ")[0]: line for line in said.out.splitlines() if " = " in line}
    assert lines["n"].endswith("# flag")
    assert lines["beta"].endswith("# mine.toml")
    assert lines["mask"].endswith("# default")
    again = tomllib.loads(said.out)["simulate"]  # what is printed is a file of settings
    (tmp_path / "again.toml").write_text(said.out)
    assert metastable("config", "again.toml", "--json").facts["simulate"]["n"] == again["n"] == 5
    for variable in ENVIRONMENT:
        assert variable.name in said.out
    metastable("config", "--betta", 3).refused("--betta")


def test_environment_variables_are_documented() -> None:
    page = (ROOT / "docs" / "usage.md").read_text()
    source = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    for variable in ENVIRONMENT:
        assert f"`{variable.name}`" in page, variable.name
    read = {word for text in source for word in text.replace('"', " ").split() if word.startswith("METASTABLE_")}
    assert {word for word in read if word.isidentifier()} <= {variable.name for variable in ENVIRONMENT}


def test_doctor(metastable: Metastable, monkeypatch, tmp_path: Path) -> None:
    answer = metastable("doctor")
    assert answer.code == 0
    assert answer.out.startswith("Everything needed is there.\n")
    for word in ("metastable 0", "JAX computes on cpu", "cache: ", "Optional parts:", "explore"):
        assert word in answer.out
    facts = metastable("doctor", "--json").facts
    assert facts["versions"]["jax"]
    assert facts["problems"] == []
    lacking = installation.Part("none", ("no_such_module",), "nothing", "none")
    monkeypatch.setattr(installation, "PARTS", (lacking,))
    assert "missing no_such_module: pip install 'metastable[none]'" in metastable("doctor").out
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("METASTABLE_CACHE", str(tmp_path / "file" / "cache"))
    broken = metastable("doctor")
    assert broken.code == 1
    assert broken.out.startswith("Problem: the cache folder")


def test_every_extra_is_known_to_doctor() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = {part.extra for part in installation.PARTS}
    assert known <= {*project["optional-dependencies"], "cluster", "explore"}
    assert {*project["optional-dependencies"]} - {"all"} <= known


# --- check ---


SPELLINGS = ["1,-0.5", "2", "perron", "0.5*perron(seed=3)", "1,0.5+2j,0.5-2j", "[[2, 0], [0, -1]]", "V.csv"]


@pytest.mark.parametrize("V", [*SPELLINGS, pytest.param("model:tiny/layer=1/head=3/top=4", marks=pytest.mark.slow)])
def test_check_takes_every_spelling(V: str, metastable: Metastable, tmp_path: Path, monkeypatch) -> None:
    from metastable.theory import checking

    seen = []
    monkeypatch.setattr(checking, "_measure", lambda triple, tested, *rest: (seen.append(triple), ([], None))[1])
    monkeypatch.setattr(checking, "_collapse_report", lambda *_: checking.ClaimReport("C", "theorem", "c", (), False))
    np.savetxt(tmp_path / "V.csv", np.diag([1.0, 2.0, 3.0]), delimiter=",")
    if V.startswith("model:"):
        for name in ("torch", "transformers"):
            pytest.importorskip(name)
        build("bert").save_pretrained(tmp_path / "tiny")
    assert metastable("check", "--V", V, "--n", 5).code == 0
    n, d = seen[0].tokens.shape
    assert seen[0].V.shape == (d, d)
    assert n == 5
    if V.startswith("model:"):
        np.testing.assert_allclose(seen[0].V, value_matrix(tmp_path / "tiny", head=3, layer=1, top=4))


@pytest.mark.slow
def test_check_begins_with_the_conclusion(metastable: Metastable) -> None:
    answer = metastable("check", "--V", "1,-0.5", "--n", 12)
    assert answer.code == 0
    first, second = answer.out.splitlines()[:2]
    assert first.startswith("Theorem 4.1 holds here: ")
    assert second.startswith("12 tokens in dimension 2, beta = 1, rescaled flow simulated to t = ")
    facts = metastable("check", "--V", "1,-0.5", "--n", 12, "--json").facts
    assert facts["conclusion"] == first
    metastable("check").refused("give at least --V")
    metastable("check", "--V", "gloe").refused("did you mean 'goe'?")


@pytest.mark.slow
def test_a_report_shows_its_conclusion() -> None:
    report = ms.check(ms.Weights(V=[[2.0, 0.0], [0.0, -1.0]]), [[1.0, 0.3], [-0.5, 1.0], [0.2, -1.0]])
    assert repr(report).startswith("Report(Theorem 4.1 holds here")
    assert "Theorem 4.1" in report._repr_html_()
    assert json.dumps(report.to_dict())
