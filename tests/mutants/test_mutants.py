"""The runners themselves: mutants are all made, one at a time, and a survivor is told."""

import ast

from benchmarks import soak
from tests.mutants import __main__ as runner
from tests.mutants.changes import mutants

SOURCE = "def f(a, b=2):\n    return -a + b * b if a < b and not b else 1.5\n"


def test_every_small_change_is_made_once():
    found = list(mutants(SOURCE))
    assert sorted(m.what.split(":")[0] for m in found) == sorted(
        ["constant", "constant", "sign", "sign", "operator", "operator", "comparison", "logic"]
    )
    assert len({m.source for m in found}) == len(found)
    assert all(ast.dump(ast.parse(m.source)) != ast.dump(ast.parse(SOURCE)) for m in found)
    assert not list(mutants("x: list[1] = y\n"))
    assert not list(mutants("def g():\n    raise ValueError(f'{1 + 1}')\n"))


def test_a_survivor_is_told(monkeypatch, capsys):
    monkeypatch.setattr(runner, "survives", lambda module, mutant, package, seconds: mutant.line % 2 == 0)
    assert runner.main(["--module", "equation/scores", "--most", "30"]) == 1
    said = capsys.readouterr().out
    assert "SURVIVES" in said
    assert "seen" in said


def test_targets_are_there():
    for module, tests in runner.TARGETS.items():
        assert (runner.ROOT / "src/metastable" / f"{module}.py").is_file(), module
        assert all((runner.ROOT / place).exists() for place in tests), module


def test_growing_memory_is_told():
    assert soak.flat([100.0] * 40) == 0
    assert soak.flat([100.0 + 10 * k for k in range(40)]) == 1
