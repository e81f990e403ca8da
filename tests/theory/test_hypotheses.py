"""Hypotheses: matrices built just inside and just outside of each, down to the tolerance."""

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.theory import hypotheses as h
from metastable.theory.leading import leading, paranormal_splitting
from metastable.theory.residuals import conjunction
from metastable.theory.spectrum import growing, largest, spectrum, split

FIG6 = np.array([[0.64709742, 0.81911926], [0.61210449, 0.63263484]])
FIG7A = np.array(
    [
        [0.92761287, 0.94333073, 0.3827744],
        [0.94333073, 0.59991396, 0.47825472],
        [0.3827744, 0.47825472, 0.46668605],
    ]
)


def rotation(d, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


def oblique(d, seed=0):
    return np.eye(d) + 0.4 * np.random.default_rng(seed).standard_normal((d, d)) / np.sqrt(d)


def similar(core, S):
    return S @ core @ np.linalg.inv(S)


# --- a simple positive leading eigenvalue ---------------------------------------------------------


@pytest.mark.parametrize("exponent", range(1, 15))
@pytest.mark.parametrize("other", ["smaller", "larger negative", "larger pair"])
@pytest.mark.parametrize("basis", ["diagonal", "rotation", "oblique"])
def test_leading_eigenvalue_just_inside_and_just_outside(exponent, other, basis):
    gap = 10.0**-exponent
    core = np.diag([1.0, 0.3, 0.2, -0.4])
    if other == "smaller":
        core[1, 1] = 1.0 - gap
    elif other == "larger negative":
        core[1, 1] = -1.0 - gap
    else:
        core[1:3, 1:3] = (1.0 + gap) * np.array([[np.cos(2), -np.sin(2)], [np.sin(2), np.cos(2)]])
    S = {"diagonal": np.eye(4), "rotation": rotation(4), "oblique": oblique(4)}[basis]
    V = core if basis == "diagonal" else similar(core, S)
    found = h.simple_leading_eigenvalue(V)
    truth = other == "smaller"
    # forming S core S^{-1} moves the spectrum by a few cond(S) eps: beyond that, and beyond what delta can
    # do through the eigenvectors' conditioning, the answer must be there and be right
    reach = 4.0 * np.linalg.cond(S) ** 2 * found.tolerance
    if gap / 2.0 > reach:
        assert found.holds is truth
    assert found.holds in (truth, None)
    if basis != "oblique" and gap > 1e-12 and found.holds is True:
        assert found.margin == pytest.approx(gap / 2.0, rel=1e-2)  # exact for normal matrices


@pytest.mark.parametrize(
    "V", [np.diag([1.0, 1.0 - 1e-16]), np.diag([1.0, -1.0 + 1e-16]), np.diag([1e-16, 1.0, 1.0 + 2e-16])]
)
def test_leading_eigenvalue_within_rounding_is_undecidable(V):
    found = h.simple_leading_eigenvalue(V)
    assert found.holds is None
    assert "numerically undecidable at tolerance" in found.sentence


@pytest.mark.parametrize(
    "V", [np.eye(3), np.diag([1.0, 1.0, -0.5]), np.diag([1.0, -1.0]), np.zeros((2, 2)), [[1.0, 1.0], [0.0, 1.0]]]
)
def test_exact_ties_on_a_stored_diagonal_are_taken_as_meant(V):
    assert h.simple_leading_eigenvalue(V).holds is False


def test_leading_eigenvalue_of_published_matrices():
    found = h.simple_leading_eigenvalue(FIG6)
    assert found.holds is True
    assert found.numbers["Re lambda1"] == pytest.approx(1.348, abs=1e-3)
    assert found.numbers["|lambda2|"] == pytest.approx(0.068, abs=1e-3)
    assert h.simple_leading_eigenvalue(FIG7A).holds is True
    assert h.simple_leading_eigenvalue([[0.0, -1.0], [1.0, 0.0]]).holds is False
    assert h.simple_leading_eigenvalue(-np.eye(2)).holds is False
    assert h.simple_leading_eigenvalue([[2.0]]).holds is True
    assert h.simple_leading_eigenvalue([[-2.0]]).holds is False


@pytest.mark.parametrize("seed", range(25))
def test_no_smaller_change_alters_the_answer(seed):
    """The margin is a promise: perturbations below it, also adversarial ones, leave the answer alone."""
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((5, 5))
    found = h.simple_leading_eigenvalue(V)
    if found.holds is None:
        pytest.skip("undecidable")
    top = leading(V) if found.holds else None
    for trial in range(40):
        E = rng.standard_normal((5, 5))
        if top is not None and trial < 20:  # push the leading eigenvalue down as fast as possible
            E = -np.outer(top.left, top.right) + 0.2 * E
        E *= 0.99 * abs(found.margin) / np.linalg.norm(E, 2)
        values = np.linalg.eigvals(V + E)
        order = np.argsort(-np.abs(values))
        lead, second = values[order[0]], abs(values[order[1]])
        assert bool(lead.imag == 0 and lead.real > second) is found.holds


def test_margin_sees_conditioning():
    """A wide gap between ill-conditioned eigenvalues is a small distance."""
    V = np.array([[1.0, 1e6], [0.0, 0.9]])
    found = h.simple_leading_eigenvalue(V)
    assert found.holds is True
    # (gap/2)^2/1e6 in the lower corner merges the eigenvalues
    assert 1e-10 < found.margin <= 0.05**2 / 1e6
    assert h.simple_leading_eigenvalue(V, unit=1e-10).holds is None


def test_perron_frobenius_certifies_what_the_gap_cannot():
    V = np.random.default_rng(0).uniform(0.1, 1.0, (6, 6))
    assert h.all_entries_positive(V).holds is True
    assert h.simple_leading_eigenvalue(V).holds is True
    assert h.simple_leading_eigenvalue(V).margin >= V.min()
    assert h.all_entries_positive([[1.0, 0.0], [1.0, 1.0]]).holds is False
    assert h.all_entries_positive([[1.0, 1e-17], [1.0, 1.0]]).holds is None
    assert h.all_entries_positive([[1.0, -1e-3], [1.0, 1.0]]).holds is False
    assert h.all_entries_positive([[1.0, 1e-3], [1.0, 1.0]]).margin == 1e-3


def test_large_matrices():
    rng = np.random.default_rng(3)
    values = np.concatenate([[3.0], rng.uniform(-2.9, 2.9, 63)])
    S = rotation(64, 1)
    assert h.simple_leading_eigenvalue(S @ np.diag(values) @ S.T).holds is True
    values[1] = 3.0 - 1e-15
    assert h.simple_leading_eigenvalue(S @ np.diag(values) @ S.T).holds is None
    values[1] = -3.1
    assert h.simple_leading_eigenvalue(S @ np.diag(values) @ S.T).holds is False


# --- positive definite ----------------------------------------------------------------------------


@pytest.mark.parametrize("least", [1.0, 1e-6, 1e-12, 1e-14, -1e-14, -1e-12, -1e-6, -1.0])
@pytest.mark.parametrize("rotated", [False, True])
def test_positive_definite_just_inside_and_just_outside(least, rotated):
    S = rotation(3) if rotated else np.eye(3)
    K = S @ np.diag([1.0, 0.5, least]) @ S.T
    found = h.score_positive_definite(np.eye(3), K)
    assert found.holds is (least > 0) if abs(least) > 2 * found.tolerance else found.holds is None
    assert found.margin == pytest.approx(min(least, 0.5), abs=found.tolerance)


def test_positive_definite_special_cases():
    assert h.score_positive_definite(np.eye(3), np.diag([1.0, 1.0, 0.0])).holds is False  # exactly singular
    assert h.score_positive_definite(np.zeros((2, 2)), np.eye(2)).holds is False
    assert h.score_positive_definite(np.ones((1, 2)), np.ones((1, 2))).holds is False  # k < d
    assert h.score_positive_definite(rotation(3), rotation(3) @ np.diag([1.0, 1.0, 1e-17])).holds is None
    skew = np.array([[1.0, 5.0], [-5.0, 1.0]])
    found = h.score_positive_definite(np.eye(2), skew)
    assert found.holds is True
    assert found.numbers["skew part of Q^T K"] == pytest.approx(5.0)
    assert "not symmetric" in found.sentence
    tall = np.random.default_rng(0).standard_normal((7, 3))
    assert h.score_positive_definite(tall, tall).holds is True
    with pytest.raises(InputError, match="one shape"):
        h.score_positive_definite(np.eye(2), np.eye(3))


# --- multiples of the identity, scalars -----------------------------------------------------------


@pytest.mark.parametrize("c", [1.0, 3.7, 1e-9, 1e9])
def test_multiples_of_identity(c):
    S = rotation(4)
    assert h.positive_multiple_of_identity(c * np.eye(4)).holds is True
    assert h.positive_multiple_of_identity(c * S @ S.T).holds is True
    assert h.positive_multiple_of_identity(-c * np.eye(4)).holds is False
    assert h.negative_multiple_of_identity(-c * np.eye(4)).holds is True
    assert h.negative_multiple_of_identity(c * np.eye(4)).holds is False
    off = c * np.eye(4)
    off[0, 1] = 1e-12 * c
    found = h.positive_multiple_of_identity(off)
    assert found.holds is False
    assert found.margin == pytest.approx(-1e-12 * c, rel=1e-3)
    assert h.score_multiple_of_identity(np.eye(4), c * np.eye(4)).holds is True
    assert h.score_multiple_of_identity(np.eye(4), -c * np.eye(4)).holds is False


def test_zero_is_no_multiple():
    assert h.positive_multiple_of_identity(np.zeros((2, 2))).holds is False
    assert h.negative_multiple_of_identity(np.zeros((2, 2))).holds is False


@pytest.mark.parametrize(
    ("q", "k", "v", "holds"),
    [(1, 1, 1, True), (-2, -3, 1e-8, True), (1, -1, 1, False), (1, 1, -1, False), (0, 1, 1, False), (1, 1, 0, False)],
)
def test_positive_scalars(q, k, v, holds):
    assert h.positive_scalars([[q]], [[k]], [[v]]).holds is holds


def test_positive_scalars_with_columns_and_wrong_dimension():
    column = np.array([[1.0], [2.0]])
    assert h.positive_scalars(column, column, [[1.0]]).holds is True
    assert h.positive_scalars(column, np.array([[2.0], [-1.0]]), [[1.0]]).holds is False  # exactly zero
    nearly = h.positive_scalars(column, np.array([[2.0], [-1.0 + 1e-16]]), [[1.0]])
    assert nearly.holds in (None, False)
    assert h.positive_scalars(np.eye(2), np.eye(2), np.eye(2)).holds is False


# --- paranormal -----------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", range(1, 15))
@pytest.mark.parametrize("basis", ["diagonal", "rotation", "oblique"])
def test_paranormal_gap_just_inside(exponent, basis):
    """F of dimension 2 with the rest of the spectrum ever nearer: found until rounding hides it."""
    gap = 10.0**-exponent
    core = np.diag([1.0, 1.0, 1.0 - gap, -0.3])
    S = {"diagonal": np.eye(4), "rotation": rotation(4), "oblique": oblique(4)}[basis]
    V = core if basis == "diagonal" else similar(core, S)
    found, parts = paranormal_splitting(V)
    if gap / 2.0 > 4.0 * np.linalg.cond(S) ** 2 * found.tolerance:
        assert found.holds is True
        assert found.numbers["dim F"] == 2
        assert parts is not None
        assert V @ parts.basis == pytest.approx(parts.basis @ parts.block, abs=1e-13)
        assert parts.coordinates @ parts.basis == pytest.approx(np.eye(2), abs=1e-13 / gap)
        assert np.abs(parts.coordinates @ parts.complement).max() < 1e-13 / gap
    assert found.holds in (True, None)


@pytest.mark.parametrize("nilpotent", [1.0, 1e-6, 1e-12])
def test_defective_leading_eigenvalues(nilpotent):
    core = np.diag([1.0, 1.0, -0.5])
    core[0, 1] = nilpotent
    assert h.paranormal(core).holds is False  # stored triangular: exactly defective
    turned = h.paranormal(similar(core, rotation(3)))
    assert turned.holds is None
    assert "undecidable" in turned.sentence


def test_paranormal_special_cases():
    whole = h.paranormal(2.0 * np.eye(3))
    assert (whole.holds, whole.numbers["dim F"]) == (True, 3)
    assert h.paranormal(np.diag([1.0, 1.0, -1.0])).holds is False  # met in modulus
    assert h.paranormal(np.diag([1.0, 1.0, -1.0 - 1e-9])).holds is False  # beaten in modulus
    assert h.paranormal(-np.eye(2)).holds is False
    assert h.paranormal(np.zeros((2, 2))).holds is False
    assert h.paranormal([[0.0, -1.0], [1.0, 0.0]]).holds is False
    simple = h.paranormal(np.diag([1.0, 0.5]))
    assert (simple.holds, simple.numbers["dim F"], simple.margin) == (True, 1, pytest.approx(0.25))
    rounding = np.diag([1.0, 1.0, -0.5])
    rounding[0, 1] = 1e-17
    assert h.paranormal(rounding).holds is True


@pytest.mark.parametrize("seed", range(10))
def test_paranormal_oblique_families(seed):
    rng = np.random.default_rng(seed)
    m, d = 3, 7
    B = rng.standard_normal((d - m, d - m))
    core = np.zeros((d, d))
    core[:m, :m] = 1.5 * np.eye(m)
    core[m:, m:] = B / np.abs(np.linalg.eigvals(B)).max()
    found, parts = paranormal_splitting(similar(core, oblique(d, seed)))
    assert found.holds is True
    assert parts is not None
    assert parts.basis.shape == (d, m)
    assert found.numbers["lambda"] == pytest.approx(1.5)
    assert h.good_triple_with_multiplicity(np.eye(d), np.eye(d), similar(core, oblique(d, seed))).holds is True
    assert h.good_triple_with_multiplicity(np.eye(d), -np.eye(d), core).holds is False


# --- together, and the conjecture's count ---------------------------------------------------------


def test_good_triples():
    assert h.good_triple(np.eye(2), np.eye(2), FIG6).holds is True
    assert h.good_triple(np.eye(2), -np.eye(2), FIG6).holds is False
    # the form may be indefinite as long as it is positive along phi1
    assert h.good_triple(np.eye(2), np.diag([1.0, -1.0]), np.diag([2.0, 1.0])).holds is True
    assert h.good_triple(np.eye(2), np.diag([-1.0, 1.0]), np.diag([2.0, 1.0])).holds is False
    edge = h.good_triple(np.eye(2), np.diag([1e-17, 1.0]), np.diag([2.0, 1.0]))
    assert edge.holds is None
    assert h.good_triple(np.eye(2), np.diag([1e-13, 1.0]), np.diag([2.0, 1.0])).holds is True
    assert h.good_triple(np.eye(3), np.eye(3), np.diag([1.0, 1.0, -0.5])).holds is False
    assert h.positive_along_leading(np.zeros((2, 2)), np.eye(2), FIG6).holds is False


def test_form_along_an_uncertain_vector_is_uncertain():
    """Leading eigenvalues 1e-10 apart: phi1 is known to 1e-5 only, and so is the form along it."""
    V = similar(np.diag([1.0, 1.0 - 1e-10, 0.1]), rotation(3))
    S = rotation(3)
    K = S @ np.diag([1e-7, 1.0, -1.0]) @ S.T
    assert h.simple_leading_eigenvalue(V).holds is True
    found = h.positive_along_leading(np.eye(3), K, V)
    assert found.tolerance > 1e-7
    assert found.holds is None
    # where Q^T K > 0 the vector does not matter
    assert h.positive_along_leading(np.eye(3), S @ np.diag([1e-7, 1.0, 1.0]) @ S.T, V).holds is True


@pytest.mark.parametrize("exponent", range(1, 15))
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_count_near_the_imaginary_axis(exponent, sign):
    small = sign * 10.0**-exponent
    for core in (np.diag([1.0, small, -0.5]), np.array([[1.0, 0, 0], [0, small, -2.0], [0, 2.0, small]])):
        S = rotation(3, 2)
        found = h.eigenvalues_with_positive_real_part(similar(core, S))
        truth = int((np.linalg.eigvals(core).real > 0).sum())
        if abs(small) > 4 * found.tolerance:
            assert found.holds is True
            assert found.numbers["k"] == truth
        else:
            assert found.holds in (True, None)


def test_count_special_cases():
    assert h.eigenvalues_with_positive_real_part(FIG7A).numbers["k"] == 2
    assert h.eigenvalues_with_positive_real_part(-np.eye(3)).holds is False
    exact = h.eigenvalues_with_positive_real_part(np.diag([1.0, 0.0]))
    assert (exact.holds, exact.numbers["k"]) == (True, 1)
    assert h.eigenvalues_with_positive_real_part(np.zeros((2, 2))).holds is False
    assert h.eigenvalues_with_positive_real_part([[0.0, -1.0], [1.0, 0.0]]).holds is None


def test_distinct_tokens():
    assert h.distinct_tokens([[1.0], [2.0], [1.5]]).holds is True
    assert h.distinct_tokens([[1.0], [2.0], [1.0]]).holds is False
    assert h.distinct_tokens([[1.0], [1.0 + 2e-16]]).holds is None
    assert h.distinct_tokens([[1.0]]).holds is True


# --- machinery ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_split_is_an_invariant_splitting(seed):
    V = np.random.default_rng(seed).standard_normal((6, 6))
    moduli = np.abs(spectrum(V).values)
    whole = 3 if moduli[2] > moduli[3] else 2  # never half of a conjugate pair
    for chosen in (growing, largest(whole)):
        parts = split(V, chosen)
        assert V @ parts.basis == pytest.approx(parts.basis @ parts.block, abs=1e-12)
        assert V @ parts.complement == pytest.approx(parts.complement @ parts.rest, abs=1e-11)
        assert parts.coordinates @ parts.basis == pytest.approx(np.eye(parts.block.shape[0]), abs=1e-12)
        assert np.abs(parts.coordinates @ parts.complement).max(initial=0.0) < 1e-11
        assert parts.coordinates @ V == pytest.approx(parts.block @ parts.coordinates, abs=1e-11)


def test_leading_vectors():
    top = leading(FIG6)
    assert FIG6 @ top.right == pytest.approx(top.value * top.right)
    assert top.left @ FIG6 == pytest.approx(top.value * top.left)
    assert top.left @ top.right == pytest.approx(1.0)
    assert top.right == pytest.approx([0.76, 0.65], abs=5e-3)  # the caption of Fig. 6


def test_three_valued_and():
    assert conjunction([True, True]) is True
    assert conjunction([True, None]) is None
    assert conjunction([None, False]) is False
    with pytest.raises(InputError, match="square"):
        h.simple_leading_eigenvalue(np.ones((2, 3)))


def test_findings_are_plain_data():
    import json

    assert json.loads(json.dumps(h.good_triple(np.eye(2), np.eye(2), FIG6).to_dict()))["holds"] is True
