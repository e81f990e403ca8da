"""check: the whole way from weights to a verdict, on weights whose fate is known."""

import json

import numpy as np
import pytest

from metastable.equation.weights import Weights
from metastable.errors import InputError
from metastable.theory.checking import check
from metastable.theory.settle import settle
from metastable.theory.theorems import CONJECTURE, THEOREMS, Triple

FIG6 = np.array([[0.64709742, 0.81911926], [0.61210449, 0.63263484]])
TOKENS = np.random.default_rng(2).uniform(-3.0, 3.0, (12, 2))  # one shape for nearly all tests: one compilation


def turned(core, angle=0.7):
    R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return R @ np.asarray(core, dtype=float) @ R.T


def statuses(report):
    return {c.name: c.verdict.status for c in report.claims if c.verdict is not None}


@pytest.mark.slow
def test_identity_goes_to_a_polytope():
    report = check(Weights(V=np.eye(2)), TOKENS)
    assert statuses(report) == {"Theorem 3.1": "holds", "Theorem 5.1": "holds"}
    claim = report.claim("Theorem 3.1")
    assert claim.distances is not None
    assert claim.distances.shape == (12,)
    assert claim.distances.max() < 1e-4 * np.linalg.norm(TOKENS, axis=1).max()
    assert 3 <= claim.details["vertices"] < 12
    assert not report.failed


@pytest.mark.slow
@pytest.mark.parametrize("V", [FIG6, turned(np.diag([2.0, -1.0])), np.array([[1.0, 3.0], [0.0, 0.2]])])
def test_good_triples_go_to_hyperplanes(V):
    report = check(Weights(V=V), TOKENS)
    assert statuses(report) == {"Theorem 4.1": "holds", "Theorem 5.1": "holds"}
    assert report.claim("Theorem 4.1").details["hyperplanes with tokens"] <= 3


@pytest.mark.slow
def test_strong_contraction_does_not_drown_the_answer():
    """z grows like e^{3t} to e^{270}: the hyperplane's coordinate must not be read from z."""
    report = check(Weights(V=turned(np.diag([0.2, -3.0]))), TOKENS)
    assert report.claim("Theorem 4.1").applies is False  # -3 leads in modulus
    assert report.claim("Conjecture 4.2").verdict.status == "holds"


@pytest.mark.slow
def test_indefinite_form_positive_along_the_leading_vector():
    report = check(Weights(K=np.diag([1.0, -0.5]), V=np.diag([2.0, 1.0])), TOKENS)
    assert statuses(report)["Theorem 4.1"] == "holds"
    assert report.claim("Theorem 5.1").applies is False


@pytest.mark.slow
def test_the_line():
    report = check(Weights(V=[[1.0]]), TOKENS[:, :1])
    assert set(statuses(report)) == {"Theorem 2.1", "Theorem 3.1", "Theorem 4.1", "Theorem 5.1"}
    assert set(statuses(report).values()) == {"holds"}
    assert report.claim("Theorem 2.1").details["rank of the limit"] in (1, 2)
    twice = np.concatenate([TOKENS[:11, :1], TOKENS[:1, :1]])
    assert check(Weights(V=[[1.0]]), twice).claim("Theorem 2.1").applies is False


@pytest.mark.slow
def test_collapse_to_the_origin():
    report = check(Weights(V=-0.5 * np.eye(2), K=2.0 * np.eye(2)), TOKENS)
    assert statuses(report) == {"Theorem C.5": "holds"}
    claim = report.claim("Theorem C.5")
    assert claim.details["mismatch with C' = -2C^2"] < 0.1 * claim.details["mismatch allowed"]


@pytest.mark.slow
def test_no_theorem_then_the_conjecture_and_the_remark():
    report = check(Weights(K=-np.eye(2), V=np.diag([2.0, 1.0])), TOKENS)
    assert any("No theorem applies" in note for note in report.notes)
    assert report.claim("Conjecture 4.2").kind == "conjecture"
    assert report.claim("Remark 2").kind == "observation"
    assert {c.name for c in report.claims if c.applies} == {"Remark 2", "Conjecture 4.2"}
    assert not report.failed  # whatever they did, no theorem failed
    silent = check(Weights(V=-np.diag([2.0, 1.0])), TOKENS)
    assert any("says nothing either" in note for note in silent.notes)
    assert silent.verdicts == ()


@pytest.mark.slow
def test_uniform_attention_obeys_the_conjecture():
    """Q^T K = 0: z_i tends to the mean in every growing direction (ORACLES 15)."""
    report = check(Weights(V=np.diag([2.0, 1.0])), TOKENS, beta=0.0)
    assert report.claim("Conjecture 4.2").verdict.status == "holds"
    assert report.beta == 0.0


@pytest.mark.slow
def test_conjecture_fails_where_leaders_need_not_line_up():
    """Leaders that each look at themselves stay apart when V turns: codimension 2 asks for three points."""
    angle = 2.0 * np.pi * np.arange(12) / 12
    tokens = 3.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    report = check(Weights(V=[[0.5, -1.0], [1.0, 0.5]]), tokens)
    assert report.claim("Conjecture 4.2").verdict.status == "fails"
    assert any("share the largest real part" in note for note in report.notes)
    assert not report.failed


def test_undecidable_hypotheses_are_said_and_not_guessed():
    report = check(Weights(V=turned(np.diag([1.0, 1.0 - 1e-16]))), TOKENS)
    assert report.claim("Theorem 4.1").applies is None
    assert "numerically undecidable at tolerance" in str(report)
    # to rounding this is a multiple of the identity, and behaves like one
    assert report.claim("Theorem 3.1").verdict.status == "holds"


@pytest.mark.slow
def test_a_jordan_block_hidden_by_a_rotation():
    jordan = check(Weights(V=turned([[1.0, 0.5], [0.0, 1.0]])), TOKENS, t=1.0)
    assert jordan.claim("Theorem 4.1").applies is None
    assert jordan.claim("Theorem 4.1").verdict.status == "undecided"
    assert any("for certain" in note for note in jordan.notes)


@pytest.mark.parametrize("gap", [1e-3, 1e-8, 1e-13])
def test_near_degenerate_but_decidable(gap):
    """Just inside: the theorem applies, and the tokens obey it long before the gap itself could act."""
    report = check(Weights(V=turned(np.diag([1.0, 1.0 - gap]))), TOKENS)
    assert report.claim("Theorem 4.1").applies is True
    assert report.claim("Theorem 3.1").applies is False


def test_a_short_horizon_is_undecided():
    report = check(Weights(V=FIG6), TOKENS, t=0.5)
    verdict = report.claim("Theorem 4.1").verdict
    assert verdict.status == "undecided"
    assert "takes t =" in verdict.notes


def test_impatience_is_undecided():
    report = check(Weights(V=FIG6), TOKENS, patience=0.0)
    verdict = report.claim("Theorem 4.1").verdict
    assert (verdict.status, "out of time" in verdict.notes) == ("undecided", True)


def test_a_false_claim_is_found_false():
    """Hyperplanes claimed for V = I: the checker must be able to say no."""
    triple = Triple(np.eye(2), np.eye(2), np.eye(2), TOKENS)
    outcome = settle(triple, [THEOREMS[2]], None, 1e-4, 60.0).outcomes[0]
    assert outcome.status == "fails"
    assert settle(triple, [CONJECTURE], None, 1e-4, 60.0).outcomes[0].status == "fails"


def test_many_heads_time_and_biases():
    heads = check(Weights(V=np.stack([np.eye(2), np.eye(2)])), TOKENS)
    assert "section 6" in heads.notes[0]
    assert heads.claims == ()
    assert "depend on time" in check(Weights(V=lambda t: np.eye(2)), TOKENS).notes[0]
    biased = Weights(V=np.eye(2), q_bias=np.ones((1, 2)), Q=np.eye(2))
    assert "biases" in check(biased, TOKENS).notes[0]


def test_reports_print_and_travel():
    report = check(Weights(V=FIG6), TOKENS)
    text = str(report)
    for word in ("Theorem 4.1", "holds", "criterion", "margin", "tolerance", "distances of the 12 tokens"):
        assert word in text
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert len(data["claims"][2]["distances"]) == 12
    assert data["claims"][2]["verdict"]["status"] == "holds"
    assert {f["name"] for f in data["findings"]} >= {"good triple", "V paranormal", "all entries of V positive"}
    assert report.finding("good triple").holds is True


def test_bad_input_is_one_sentence():
    for bad, match in (
        ({"tokens": np.ones((2, 3, 2))}, "one cloud"),
        ({"tokens": np.ones((4, 3))}, "dimension 3"),
        ({"tokens": TOKENS, "t": -1.0}, "horizon"),
        ({"tokens": TOKENS, "beta": -1.0}, "beta"),
        ({"tokens": TOKENS, "resolution": 2.0}, "resolution"),
    ):
        with pytest.raises(InputError, match=match):
            check(Weights(V=FIG6), **bad)
    with pytest.raises(InputError, match="give tokens"):
        check(Weights())
    with pytest.raises(InputError, match="Weights object"):
        check(np.eye(2), TOKENS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["any", "symmetric", "positive", "identity"])
@pytest.mark.parametrize("seed", range(4))
def test_random_weights_of_every_kind(seed, kind):
    """Twelve tokens, random V: every theorem that applies is seen to hold."""
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((3, 3))
    K = rng.standard_normal((3, 3))
    V = {"any": M, "symmetric": M + M.T, "positive": np.abs(M), "identity": np.eye(3)}[kind]
    report = check(Weights(Q=K, K=K, V=V), rng.uniform(-3.0, 3.0, (12, 3)))
    for claim in report.claims:
        if claim.kind == "theorem" and claim.applies:
            assert claim.verdict.status == "holds", f"{claim.name} {V.tolist()} {claim.verdict}"
