import pytest

from metastable.hunt.claims import CLAIMS
from metastable.hunt.instances import good_triple
from metastable.hunt.rules import Rules
from metastable.hunt.screening import screen
from metastable.hunt.verifying import racing, stayed, verify
from tests.hunt import planted

RULES = Rules(d=3, n=8, batch=8, elite=2)


@pytest.fixture(scope="module")
def checked():
    return dict(
        zip(
            ["ring", "shared", "cross", "slow", "plain", "race", "split"],
            verify(CLAIMS["codimension"], planted.everything(), RULES),
        )
    )


def test_a_robust_violation_survives(checked):
    assert checked["ring"].outcome == "violation"
    assert checked["ring"].numbers["share that stays"] == {"other tokens": 1.0, "other weights": 1.0}


def test_a_planted_known_exception_survives_and_is_named(checked):
    assert checked["shared"].outcome == "known exception"
    assert "shared" in checked["shared"].note
    assert checked["shared"].separation > 0.1


def test_tokens_on_invariant_lines_are_an_accident(checked):
    """Rounding moves them off the line, or copies with other tokens leave it."""
    found = checked["cross"]
    if found.outcome == "settled":
        assert "rounding" in found.note
    else:
        assert found.outcome == "non-generic"
        assert found.numbers["share that stays"]["other tokens"] < 0.5


def test_slow_is_not_a_violation(checked):
    late = screen(CLAIMS["codimension"], planted.cross(1e-7), 16.0, 8)
    assert late.open[0]  # the search takes it for a candidate
    assert checked["slow"].outcome == "settled"
    assert checked["plain"].outcome == "settled"


def test_a_long_transient_is_not_a_violation(checked):
    """Tokens chase each other for as long as the leading direction has to catch up, then settle."""
    early = screen(CLAIMS["codimension"], planted.race(), 40.0, 8)
    assert racing(early)[0]
    assert early.separation[0, -1] > 1e3  # and it grows
    assert not stayed(early)[0]
    assert checked["race"].outcome == "settled"


def test_a_good_triple_that_splits_breaks_the_conjecture_but_its_neighbours_do_not(checked):
    found = checked["split"]
    assert good_triple(planted.split())[0]
    assert found.outcome == "non-generic"
    assert found.numbers["share that stays"] == {"other tokens": 1.0, "other weights": 0.0}
    assert found.separation > 1e6
