"""The two searches for wrong digits run, and find none in a run or two; by hand they are run at length."""

import numpy as np
import pytest

from tests import fuzz_gradients, fuzz_rescaled


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
