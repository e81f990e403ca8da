"""The two searches for wrong digits run, and find none in a run or two; by hand they are run at length."""

import numpy as np
import pytest

from metastable.errors import InputError
from tests import fuzz_gradients, fuzz_rescaled
from tests.fuzz import __main__ as search
from tests.fuzz import doors
from tests.fuzz.doors import DOORS

QUICK = ("toml", "numbers", "records", "datasets", "weights", "models", "archives", "queries", "interface")


@pytest.mark.parametrize("door", QUICK)
def test_doors_answer(door, tmp_path, monkeypatch):
    """A few inputs at each door; `python -m tests.fuzz --seconds N` knocks for longer."""
    monkeypatch.chdir(tmp_path)
    for number in range(4):
        assert search.knock(door, 1811, number, tmp_path) == ""


def test_the_search_finds_what_is_planted(monkeypatch, tmp_path):
    def raw(rng, place):
        raise KeyError("a mistake")

    def outside(rng, place):
        (place.parent / "mine").touch()
        raise InputError("refused")

    monkeypatch.setitem(DOORS, "toml", raw)
    monkeypatch.setitem(DOORS, "numbers", outside)
    assert "KeyError: 'a mistake'" in search.knock("toml", 0, 0, tmp_path)
    assert f"files outside its folder: ['{tmp_path / 'mine'}']" in search.knock("numbers", 0, 0, tmp_path)


def test_every_kind_of_run_is_drawn():
    """All methods, horizons and kinds of V come up among 160 runs, and a number draws the same run again."""
    cases = [fuzz_rescaled.draw(3, number) for number in range(160)]
    assert {case.method for case in cases} == set(fuzz_rescaled.METHODS)
    assert {case.kind for case in cases} == {value.__name__.strip("_") for value in fuzz_rescaled.VALUES}
    assert sum(case.times[-1] >= 300 for case in cases) >= 20
    assert max(len(case.V) for case in cases) == 20
    np.testing.assert_array_equal(cases[7].V, fuzz_rescaled.draw(3, 7).V)


def test_a_wrong_digit_is_found(monkeypatch, capsys):
    """The search is told of a run that is off by 2e-6 while certified."""
    case = fuzz_rescaled.draw(3, 1)
    made = type("Run", (), {"valid_until": 1.0, "t": case.times[:2], "x": np.stack([case.z, case.z]), "status": "done"})
    monkeypatch.setattr(fuzz_rescaled, "ours", lambda case: made)
    for off, code in ((0.0, 0), (2e-6, 1)):
        moved = made.x * (1.0 + off)
        monkeypatch.setattr(fuzz_rescaled, "truth", lambda case, times, moved=moved: (moved, 0.0))
        assert fuzz_rescaled.main(["--seed", "3", "--first", "1", "--runs", "1"]) == code
    assert "1 WRONG" in capsys.readouterr().out


@pytest.mark.slow
def test_a_rescaled_run_and_a_gradient():
    assert fuzz_rescaled.main(["--seed", "1811", "--first", "1", "--runs", "1"]) == 0
    assert fuzz_gradients.main(["--seed", "1811", "--first", "1", "--runs", "1"]) == 0


def test_the_small_models_of_the_search_are_good_ones(tmp_path):
    doors.small_model(tmp_path)
    assert doors.trajectory(doors.load(tmp_path, library="own"), [1, 2, 3]).x.shape == (2, 3, 4)
    doors.small_llama(tmp_path / "a.gguf")
    assert doors.trajectory(doors.load(tmp_path / "a.gguf", library="own"), [1, 2, 3]).x.shape == (2, 3, 8)
    for kind in ("older", "newer"):
        found = doors.torch_file.read(doors.source(kind, tmp_path))
        np.testing.assert_array_equal(found["b"], [2.0, 5.0, 8.0])
