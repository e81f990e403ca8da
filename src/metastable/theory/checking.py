"""check: put the theory to one triple (Q, K, V) and one cloud of tokens."""

import numpy as np
from numpy.typing import ArrayLike

from metastable import initial
from metastable.equation.weights import Weights
from metastable.errors import InputError, door
from metastable.theory import hypotheses
from metastable.theory.check_report import ClaimReport, Report
from metastable.theory.residuals import Finding, conjunction
from metastable.theory.settle import Outcome, Settled, collapse, criterion, settle
from metastable.theory.spectrum import spectrum
from metastable.theory.theorems import (
    COLLAPSE,
    CONJECTURE,
    REMARK,
    THEOREMS,
    Claim,
    Triple,
    collapse_hypotheses,
)
from metastable.theory.verdicts import Kind, Status, Verdict

_HEADS = "No theorem applies: several heads are an open problem (second paper, section 6)."
_TIME = "No theorem applies: the weights depend on time, and every result is for constant Q, K, V."
_BIASES = "No theorem applies: the weights have biases, and the theory is for linear Q, K, V."
_NORMS = "No theorem applies: queries or keys have norms, and the theory is for linear Q, K, V."
_REPEATED = (
    "Several eigenvalues share the largest real part, so that leaders need not line up: polytopes with more than "
    "three vertices appear (Theorems 3.1 and 5.1), and Conjecture 4.2 cannot be meant for such V."
)


@door
def check(
    weights: Weights,
    tokens: ArrayLike | None = None,
    t: float | None = None,
    beta: float = 1.0,
    resolution: float = 1e-4,
    seed: int = 0,
    patience: float = 60.0,
) -> Report:
    """Which theorems apply to the weights, what they predict, and whether the tokens do it.

    Parameters
    ----------
    weights : Weights
        One head with constant Q, K, V; None means identity.
    tokens : array (n, d), optional
        Where tokens begin; by default 40 uniform on [-5, 5]^d, as in the second paper.
    t : float, optional
        Horizon. By default it is chosen from the spectrum of V and doubled until the answer is clear (see
        `metastable.theory.settle`).
    beta : float
        Inverse temperature; the theorems' Q^T K is beta Q^T K.
    resolution : float
        Distance at which a token counts as arrived, relative to how far out tokens are.
    seed : int
        Seed of the default tokens.
    patience : float
        Seconds after which the simulation is given up and the verdict left open; compiling does not count.

    Returns
    -------
    Report
        Prints as a table; ``to_dict()`` is ready for JSON.

    Examples
    --------
    >>> from metastable.equation.weights import Weights
    >>> report = check(Weights(V=[[2.0, 0.0], [0.0, -1.0]]), [[1.0, 0.3], [-0.5, 1.0], [0.2, -1.0]])
    >>> report.claim("Theorem 4.1").applies, report.claim("Theorem 4.1").verdict.status
    (True, 'holds')
    """
    _check_numbers(t, beta, resolution)
    x = _tokens(weights, tokens, seed)
    why = _no_theorem(weights)
    if why:
        return Report(x.shape[1], len(x), beta, (), (), (why,))
    triple = _triple(weights, x, beta)
    tested = [(claim, claim.hypotheses(triple)) for claim in THEOREMS]
    shrinking = collapse_hypotheses(triple)
    answers = [conjunction([f.holds for f in found]) for _, found in tested]
    answers.append(conjunction([f.holds for f in shrinking]))
    notes: list[str] = []
    if not any(answer is True for answer in answers):
        rest, notes = _beyond_theorems(triple, answers)
        tested += rest
    reports, settled = _measure(triple, tested, t, resolution, patience)
    reports.append(_collapse_report(triple, shrinking, t))
    return Report(
        x.shape[1],
        len(x),
        beta,
        _all_findings(triple),
        tuple(reports),
        tuple(notes),
        None if settled is None else settled.horizon,
        None if settled is None else settled.valid_until,
    )


# --- input --------------------------------------------------------------------------------------------------------


def _check_numbers(t: float | None, beta: float, resolution: float) -> None:
    if not (np.isfinite(beta) and beta >= 0.0):
        raise InputError(f"beta must be a finite number >= 0, not {beta!r}.")
    if not 0.0 < resolution < 1.0:
        raise InputError(f"resolution must lie between 0 and 1, not {resolution!r}.")
    if t is not None and not (np.isfinite(t) and t > 0.0):
        raise InputError(f"The horizon t must be a positive number, not {t!r}.")


def _tokens(weights: Weights, tokens: ArrayLike | None, seed: int) -> np.ndarray:
    d = getattr(weights, "dimension", None)
    if not hasattr(weights, "value_map"):
        raise InputError(f"weights must be a Weights object, not {type(weights).__name__}.")
    if tokens is None:
        if d is None:
            raise InputError("Every map is the identity, so the dimension is not known; give tokens.")
        return initial.cube(40, d, side=5.0, seed=seed)
    x = np.asarray(tokens, dtype=float)
    if x.ndim != 2 or 0 in x.shape or not np.isfinite(x).all():
        raise InputError(f"check takes one cloud of finite tokens (n, d); the shape given is {x.shape}.")
    if d is not None and d != x.shape[1]:
        raise InputError(f"Tokens have dimension {x.shape[1]}, but the weights act on dimension {d}.")
    return x


def _no_theorem(weights: Weights) -> str:
    if weights.time_dependent:
        return _TIME
    if weights.heads > 1:
        return _HEADS
    if weights.biased:
        return _BIASES
    return "" if weights.bilinear else _NORMS


def _triple(weights: Weights, x: np.ndarray, beta: float) -> Triple:
    d = x.shape[1]
    Q = np.eye(d) if weights.Q is None else np.asarray(weights.Q)[0]
    K = np.eye(d) if weights.K is None else np.asarray(weights.K)[0]
    return Triple(beta * Q, K, np.array(weights.value_map(d=d)[0]), x)


# --- parts of the report ------------------------------------------------------------------------------------------


def _all_findings(triple: Triple) -> tuple[Finding, ...]:
    Q, K, V = triple.Q, triple.K, triple.V
    return (
        hypotheses.score_positive_definite(Q, K),
        hypotheses.positive_multiple_of_identity(V),
        hypotheses.negative_multiple_of_identity(V),
        hypotheses.score_multiple_of_identity(Q, K),
        hypotheses.positive_scalars(Q, K, V),
        hypotheses.simple_leading_eigenvalue(V),
        hypotheses.all_entries_positive(V),
        hypotheses.positive_along_leading(Q, K, V),
        hypotheses.good_triple(Q, K, V),
        hypotheses.paranormal(V),
        hypotheses.good_triple_with_multiplicity(Q, K, V),
        hypotheses.eigenvalues_with_positive_real_part(V),
    )


def _beyond_theorems(
    triple: Triple, answers: list[bool | None]
) -> tuple[list[tuple[Claim, tuple[Finding, ...]]], list[str]]:
    """The conjecture's prediction, and Remark 2's where only Q^T K > 0 is missing."""
    unclear = any(answer is None for answer in answers)
    notes = [
        "No theorem applies for certain: hypotheses marked undecidable depend on rounding."
        if unclear
        else "No theorem applies to these weights."
    ]
    rest = []
    if hypotheses.paranormal(triple.V).holds is True:
        rest.append((REMARK, REMARK.hypotheses(triple)))
    values = spectrum(triple.V)
    growth = values.values.real
    if (growth >= growth.max() - values.error).sum() > 1 and growth.max() > 0.0:
        notes.append(_REPEATED)
    counted = CONJECTURE.hypotheses(triple)
    if counted[0].holds is False:
        notes.append("V has no eigenvalue with positive real part, so Conjecture 4.2 says nothing either.")
    rest.append((CONJECTURE, counted))
    return rest, notes


def _measure(
    triple: Triple,
    tested: list[tuple[Claim, tuple[Finding, ...]]],
    t: float | None,
    resolution: float,
    patience: float,
) -> tuple[list[ClaimReport], Settled | None]:
    ready = [claim for claim, found in tested if conjunction([f.holds for f in found]) is True]
    settled = settle(triple, ready, t, resolution, patience) if ready else None
    outcomes = dict(zip([c.name for c in ready], settled.outcomes)) if settled is not None else {}
    rule = criterion(resolution)
    reports = [_claim_report(c.name, c.kind, c.sentence, f, outcomes.get(c.name), rule) for c, f in tested]
    return reports, settled


def _collapse_report(triple: Triple, found: tuple[Finding, ...], t: float | None) -> ClaimReport:
    rule = "tokens shrink, and C(T) follows from C(T/2) by C' = -2C^2 up to 2 max |x(T/2)|^2"
    outcome = collapse(triple, t)[0] if conjunction([f.holds for f in found]) else None
    return _claim_report("Theorem C.5", "theorem", COLLAPSE, found, outcome, rule)


def _claim_report(
    name: str, kind: Kind, sentence: str, found: tuple[Finding, ...], outcome: Outcome | None, rule: str
) -> ClaimReport:
    applies = conjunction([f.holds for f in found])
    names = tuple(f.name for f in found)
    if outcome is None:
        verdict = _verdict(name, kind, sentence, "undecided", rule, np.nan, "hypotheses undecidable")
        return ClaimReport(name, kind, sentence, names, applies, verdict=verdict if applies is None else None)
    m = outcome.measurement
    verdict = _verdict(name, kind, sentence, outcome.status, rule, m.residual, outcome.note)
    return ClaimReport(
        name, kind, sentence, names, applies, m.limit, verdict, m.distances, m.first_extent, dict(m.details())
    )


def _verdict(name: str, kind: Kind, sentence: str, status: Status, rule: str, residual: float, note: str) -> Verdict:
    eligible = 0 if np.isnan(residual) else 1
    return Verdict(
        sentence, f"second paper, {name}", status, kind, rule, 1, eligible, residual, (np.nan, np.nan), (), note
    )
