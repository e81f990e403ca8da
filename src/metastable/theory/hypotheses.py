"""The theorems' hypotheses on (Q, K, V), tested with derived tolerances.

Every test answers for all matrices within rounding of the given ones. It says yes or no when they all
agree, and None ("numerically undecidable at tolerance ...") when they do not. Two conventions complete
the rule:

- an *equality* (V = cI, V = lambda Id on F) holds when its residual is within rounding, for it can
  never hold better;
- an exactly repeated entry on the diagonal of a matrix stored triangular is taken as meant: such
  eigenvalues carry no rounding (so diag(1, 1, -1/2) has no simple leading eigenvalue, while
  diag(1, 1 - 1e-16) is undecidable).

Tolerances, with eps the rounding of the stored numbers (``unit``):

- V: delta = d eps ||V||_F, the backward error of the eigenvalues (see `metastable.theory.spectrum`).
  Margins of statements on the spectrum are changes of V in the 2-norm, so an eigenvalue's conditioning
  is in the margin and not in the tolerance: a gap between ill-conditioned eigenvalues counts for little.
- V on an invariant subspace F: obliqueness(F, G) delta, what a change delta of V does there, to first
  order.
- Q^T K: (k + d + 1) eps ||Q||_F ||K||_F: k terms per entry, two stored factors, and d eps for the
  eigenvalues of the symmetric part, which move by no more than the matrix does (Weyl).

"Q^T K > 0" is read as Definition 1 words it, as a quadratic form: <Qx, Kx> > 0 for all x other than 0.
Symmetry is not required, but measured and reported.
"""

import numpy as np
from numpy.typing import ArrayLike

from metastable.errors import InputError, doors
from metastable.theory.leading import leading, paranormal_splitting, simple_leading_eigenvalue
from metastable.theory.residuals import Finding, decide, joined
from metastable.theory.spectrum import EPS, imaginary_axis, spectrum, square, widest

__all__ = [
    "Finding",
    "all_entries_positive",
    "distinct_tokens",
    "eigenvalues_with_positive_real_part",
    "good_triple",
    "good_triple_with_multiplicity",
    "negative_multiple_of_identity",
    "paranormal",
    "positive_along_leading",
    "positive_multiple_of_identity",
    "positive_scalars",
    "score_multiple_of_identity",
    "score_positive_definite",
    "simple_leading_eigenvalue",
]


# --- queries and keys -----------------------------------------------------------------------------


def score_matrix(Q: ArrayLike, K: ArrayLike, unit: float = EPS) -> tuple[np.ndarray, float]:
    """Q^T K (d, d), and the size of what rounding may have done to it."""
    Q, K = np.atleast_2d(np.asarray(Q, dtype=float)), np.atleast_2d(np.asarray(K, dtype=float))
    if Q.shape != K.shape or Q.ndim != 2:
        raise InputError(f"Q and K must be (k, d) matrices of one shape, not {Q.shape} and {K.shape}.")
    k, d = Q.shape
    return Q.T @ K, (k + d + 1) * unit * float(np.linalg.norm(Q) * np.linalg.norm(K))


def score_positive_definite(Q: ArrayLike, K: ArrayLike, unit: float = EPS) -> Finding:
    """Q^T K > 0: the least eigenvalue of the symmetric part, which is the distance to failing.

    With k < d rows there is an x with Kx = 0, so the answer is no without any arithmetic.

    >>> score_positive_definite(np.eye(2), np.diag([1.0, 1e-9])).holds
    True
    """
    M, tolerance = score_matrix(Q, K, unit)
    S = (M + M.T) / 2.0
    least = float(np.linalg.eigvalsh(S)[0])
    skew = float(np.linalg.norm(M - M.T, 2)) / 2.0
    k, d = np.atleast_2d(Q).shape
    holds = decide(least, tolerance)
    if k < d or (holds is None and _diagonal(S) and not np.diag(S).min() > 0.0):
        holds, least = False, min(least, 0.0)  # singular exactly, not just to rounding
    note = "" if skew <= tolerance else f" (Q^T K is not symmetric: skew part {skew:.3g})"
    sentence = {
        True: f"Q^T K > 0: the least value of <Qx, Kx>/|x|^2 is {least:.6g}{note}",
        False: f"Q^T K is not positive definite: <Qx, Kx>/|x|^2 reaches {least:.6g}{note}",
        None: f"Q^T K > 0 is numerically undecidable at tolerance {tolerance:.2g}: least value {least:.3g}",
    }[holds]
    numbers = {"least eigenvalue of Q^T K": least, "skew part of Q^T K": skew}
    return Finding("Q^T K > 0", holds, numbers, least, tolerance, sentence)


def score_multiple_of_identity(Q: ArrayLike, K: ArrayLike, unit: float = EPS) -> Finding:
    """Q^T K = a I with a > 0 (Theorem C.5 has a = 1; the tokens sqrt(a) x bring any a to that)."""
    M, tolerance = score_matrix(Q, K, unit)
    return _scalar("Q^T K = a I, a > 0", M, tolerance, 1.0)


# --- values ---------------------------------------------------------------------------------------


def positive_multiple_of_identity(V: ArrayLike, unit: float = EPS) -> Finding:
    """V = c I with c > 0 (Theorem 3.1, footnote 2)."""
    spec = spectrum(V, unit)
    return _scalar("V = c I, c > 0", spec.V, spec.error, 1.0)


def negative_multiple_of_identity(V: ArrayLike, unit: float = EPS) -> Finding:
    """V = -c I with c > 0 (Theorem C.5, footnote 2)."""
    spec = spectrum(V, unit)
    return _scalar("V = -c I, c > 0", spec.V, spec.error, -1.0)


def _scalar(name: str, M: np.ndarray, tolerance: float, sign: float) -> Finding:
    """M = sign c I with c > 0, whose margin is minus the distance from being so."""
    mean = float(np.trace(M)) / len(M)
    residual = float(np.linalg.norm(M - mean * np.eye(len(M)), 2))
    positive = decide(sign * mean, tolerance)
    if positive is None and not np.any(M):
        positive = False
    holds = False if residual > tolerance or positive is False else positive
    margin = 0.0 if holds else -max(residual, -sign * mean, 0.0)
    what = name.split(" =")[0]
    wrong = (
        f"{what} differs from its nearest multiple {mean:.6g} I by {residual:.3g}"
        if residual > tolerance
        else f"{what} = {mean:.6g} I has the wrong sign"
    )
    sentence = {
        True: f"{what} = {mean:.6g} I to rounding (residual {residual:.2g})",
        False: wrong,
        None: f"{name} is numerically undecidable at tolerance {tolerance:.2g}: {what} = {mean:.3g} I",
    }[holds]
    numbers = {f"trace({what})/d": mean, f"|{what} - trace/d I|": residual}
    return Finding(name, holds, numbers, margin, tolerance, sentence)


def positive_scalars(Q: ArrayLike, K: ArrayLike, V: ArrayLike, unit: float = EPS) -> Finding:
    """d = 1, V > 0 and Q K > 0 (Theorem 2.1); columns Q and K have the number Q^T K as product."""
    V = square(V)
    name = "d = 1, V > 0, Q K > 0"
    if len(V) != 1:
        sentence = f"d = {len(V)}, and Theorem 2.1 is for d = 1"
        return Finding(name, False, {"d": float(len(V))}, -float(len(V) - 1), 0.0, sentence)
    M, tolerance = score_matrix(Q, K, unit)
    value, score = float(V[0, 0]), float(M[0, 0])
    pairs = [(value, unit * abs(value)), (score, tolerance)]
    margin, tolerance = min(pairs, key=lambda p: p[0] / max(p[1], 1e-300))
    holds = decide(margin, tolerance) if value != 0.0 and score != 0.0 else False
    verb = {True: "d = 1 with", False: "V > 0 and Q K > 0 fail:", None: "signs undecidable:"}[holds]
    sentence = f"{verb} V = {value:.6g}, Q K = {score:.6g}"
    return Finding(name, holds, {"V": value, "Q K": score}, margin, tolerance, sentence)


def all_entries_positive(V: ArrayLike, unit: float = EPS) -> Finding:
    """V > 0 entry by entry, whence Perron-Frobenius: a simple positive leading eigenvalue."""
    V = square(V)
    least, tolerance = float(V.min()), unit * float(np.abs(V).max())
    holds = False if least == 0.0 else decide(least, tolerance)
    sentence = {
        True: f"every entry of V is positive, the least {least:.6g} (Perron-Frobenius)",
        False: f"not every entry of V is positive: the least is {least:.6g}",
        None: f"the least entry of V, {least:.3g}, has a numerically undecidable sign at {tolerance:.2g}",
    }[holds]
    numbers = {"least entry of V": least}
    return Finding("all entries of V positive", holds, numbers, least, tolerance, sentence)


def paranormal(V: ArrayLike, unit: float = EPS) -> Finding:
    """Definition 2(ii): R^d = F + G, V = lambda Id on F, lambda > 0, spectral radius < lambda on G."""
    return paranormal_splitting(V, unit)[0]


def eigenvalues_with_positive_real_part(V: ArrayLike, unit: float = EPS) -> Finding:
    """k >= 1 eigenvalues with positive real part, the k of Conjecture 4.2.

    The margin is the change of V that would bring an eigenvalue onto the imaginary axis, where k
    changes; None when rounding could do that, and ``numbers["k"]`` is then the count as computed.
    """
    spec = spectrum(V, unit)
    size = float(np.linalg.norm(spec.V, 2))
    distance = widest(spec, lambda top: imaginary_axis(top, spec.values), [2.0 * size])
    k = int((spec.values.real > 0.0).sum())
    zero = spec.values == 0.0
    clear = bool((np.abs(spec.values[~zero].real) > spec.error).all())
    known = distance > spec.error or bool(spec.exact and zero.any() and clear)
    sentence = (
        f"k = {k} eigenvalues of V have positive real part; the imaginary axis is {distance:.3g} away"
        if known
        else f"k is numerically undecidable at tolerance {spec.error:.2g}: {k} as computed, but "
        f"rounding alone could bring an eigenvalue onto the imaginary axis"
    )
    numbers = {"k": float(k), "least |Re lambda|": float(np.abs(spec.values.real).min())}
    holds = (k >= 1) if known else None
    return Finding("k >= 1", holds, numbers, distance if k else -distance, spec.error, sentence)


def _diagonal(S: np.ndarray) -> bool:
    return bool((np.diag(np.diag(S)) == S).all())


# --- together -------------------------------------------------------------------------------------


def positive_along_leading(Q: ArrayLike, K: ArrayLike, V: ArrayLike, unit: float = EPS) -> Finding:
    """<Q phi, K phi> > 0 for the unit leading eigenvector phi (Definition 1).

    A change delta of V turns phi by at most delta/sep to first order, with sep = sigma_min(lambda I -
    V on the quotient), so the number is known to (rounding of Q^T K) + 2 ||Q^T K|| delta/sep. Where
    Q^T K > 0, no turning can bring it below the least eigenvalue.
    """
    name = "<Q phi1, K phi1> > 0"
    if simple_leading_eigenvalue(V, unit).holds is False:
        sentence = "there is no simple positive leading eigenvalue, so there is no phi1"
        return Finding(name, False, {}, 0.0, 0.0, sentence)
    top = leading(V, unit)
    M, rounding = score_matrix(Q, K, unit)
    value = float(top.right @ M @ top.right)
    turn = top.error / top.separation if top.separation > 0.0 else np.inf
    tolerance = rounding + 2.0 * float(np.linalg.norm(M, 2)) * turn
    holds = decide(value, tolerance) if np.any(M) else False
    definite = score_positive_definite(Q, K, unit)
    bound = f"<Q phi1, K phi1> = {value:.6g} > 0"
    margin = value
    if holds is None and definite.holds:
        holds, margin, tolerance = True, definite.margin, definite.tolerance
        bound = f"<Q phi1, K phi1> >= {margin:.6g}, for Q^T K > 0"
    sentence = {
        True: bound,
        False: f"<Q phi1, K phi1> = {value:.6g} is not positive",
        None: f"<Q phi1, K phi1> = {value:.3g} has no certain sign at tolerance {tolerance:.2g}",
    }[holds]
    return Finding(name, holds, {"<Q phi1, K phi1>": value}, margin, tolerance, sentence)


def good_triple(Q: ArrayLike, K: ArrayLike, V: ArrayLike, unit: float = EPS) -> Finding:
    """Definition 1: a simple positive leading eigenvalue, and <Q phi1, K phi1> > 0.

    >>> good_triple(np.eye(2), np.eye(2), np.diag([2.0, 1.0])).holds
    True
    """
    first = simple_leading_eigenvalue(V, unit)
    parts = [first] if first.holds is False else [first, positive_along_leading(Q, K, V, unit)]
    return joined("good triple", parts, "good triple (Definition 1)")


def good_triple_with_multiplicity(Q: ArrayLike, K: ArrayLike, V: ArrayLike, unit: float = EPS) -> Finding:
    """Definition 2: Q^T K > 0, and V paranormal."""
    parts = [score_positive_definite(Q, K, unit), paranormal(V, unit)]
    return joined("good triple with multiplicity", parts, "good triple with multiplicity (Definition 2)")


def distinct_tokens(tokens: ArrayLike) -> Finding:
    """Pairwise distinct tokens on the line (Theorem 2.1): the least gap, against the spacing of floats."""
    x = np.sort(np.asarray(tokens, dtype=float).reshape(-1))
    least = float(np.diff(x).min(initial=np.inf))
    tolerance = EPS * float(np.abs(x).max(initial=0.0))
    holds = False if least == 0.0 else decide(least, tolerance)
    verb = {True: "are distinct", False: "coincide in part", None: "coincide in part to rounding"}[holds]
    sentence = f"tokens {verb} (least gap {least:.3g})"
    return Finding("distinct tokens", holds, {"least gap": least}, least, tolerance, sentence)


doors(globals())
