"""The leading eigenvalue of V: simple and positive (Definition 1), or repeated and semisimple (2)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from metastable.theory.residuals import Finding, decide
from metastable.theory.spectrum import (
    EPS,
    Spectrum,
    Splitting,
    between,
    circle,
    largest,
    ray,
    spectrum,
    split,
    widest,
)


@dataclass(frozen=True)
class Leading:
    """A leading eigenvalue, its unit right vector, and the left vector with <left, right> = 1.

    ``condition`` is |left|, the eigenvalue's condition number; ``separation`` is
    sigma_min(value I - rest), and ``error`` the rounding of V.
    """

    value: float
    right: np.ndarray
    left: np.ndarray
    condition: float
    separation: float
    error: float


def leading(V: ArrayLike, unit: float = EPS) -> Leading:
    """The eigenvalue of largest modulus with its two vectors; meaningful when it is real and simple.

    >>> leading([[2.0, 1.0], [0.0, 1.0]]).left.round(12).tolist()
    [1.0, 1.0]
    """
    spec = spectrum(V, unit)
    parts = split(spec.V, largest(1))
    value = float(parts.block[0, 0])
    vector = parts.basis[:, 0]
    sign = 1.0 if vector[np.argmax(np.abs(vector))] > 0 else -1.0
    rest = value * np.eye(len(parts.rest)) - parts.rest
    separation = float(np.linalg.svd(rest, compute_uv=False)[-1]) if rest.size else np.inf
    left = sign * parts.coordinates[0]
    return Leading(value, sign * vector, left, parts.obliqueness, separation, spec.error)


def simple_leading_eigenvalue(V: ArrayLike, unit: float = EPS) -> Finding:
    """Is the eigenvalue of largest modulus real, positive and simple?

    Yes when some circle |z| = rho below it and above the others keeps sigma_min(V - zI) > delta: no
    change of V within rounding lets an eigenvalue cross, so exactly one stays outside, which is then
    real and keeps its sign. No when some circle has an eigenvalue outside, and it, together with the
    half-line beyond rho, keeps sigma_min > delta: then something is always outside and never on the
    positive half-line. The margin is that sigma_min, or the least entry of V where all are positive and
    that is more (Perron-Frobenius).

    >>> simple_leading_eigenvalue([[0.0, -1.0], [1.0, 0.0]]).holds
    False
    """
    spec = spectrum(V, unit)
    top = spec.values[0]
    second = float(np.abs(spec.values[1])) if len(spec.values) > 1 else 0.0
    good = top.imag == 0.0 and top.real > second
    margin = distance_keeping(spec, 1) if good else 0.0 - _distance_to_good(spec)
    if spec.V.min() > max(margin, spec.error):  # Perron-Frobenius: smaller changes leave V positive
        margin = float(spec.V.min())
    holds = decide(margin, spec.error)
    if holds is None and spec.exact and abs(top) == second:
        holds, margin = False, 0.0
    numbers = {"Re lambda1": float(top.real), "Im lambda1": float(top.imag), "|lambda2|": second}
    numbers["gap"] = float(abs(top)) - second
    sentence = _sentence(spec, holds, margin)
    return Finding("simple positive leading eigenvalue", holds, numbers, margin, spec.error, sentence)


def distance_keeping(spec: Spectrum, m: int) -> float:
    """The change of V below which the m leading eigenvalues stay apart from the others in modulus."""
    moduli = np.abs(spec.values)
    inner = float(moduli[m]) if m < len(moduli) else 0.0
    places = between(inner, float(moduli[m - 1]))
    return widest(spec, lambda rho: circle(rho, spec.values), places)


def _distance_to_good(spec: Spectrum) -> float:
    """The change of V below which something that is not real and positive keeps leading."""
    v = spec.values
    real = float(v.real[(v.imag == 0.0) & (v.real > 0.0)].max(initial=0.0))
    edges = np.unique(np.concatenate([[real], np.abs(v)[np.abs(v) > real]]))
    gaps = np.argsort(-np.diff(edges))[:4]  # the four widest rings free of eigenvalues
    places = [p for i in gaps for p in between(float(edges[i]), float(edges[i + 1]))]
    far = 2.0 * float(np.linalg.norm(spec.V, 2))  # beyond 2 ||V||, sigma_min exceeds ||V||
    return widest(spec, lambda rho: np.concatenate([circle(rho, v), ray(rho, far, v)]), places)


def _sentence(spec: Spectrum, holds: bool | None, margin: float) -> str:
    top, moduli = spec.values[0], np.abs(spec.values)
    second = f", |lambda2| = {moduli[1]:.6g}" if len(moduli) > 1 else ""
    name = f"{top.real:.6g}" if top.imag == 0.0 else f"{top.real:.6g} +- {abs(top.imag):.3g}i"
    firm = f"no change of V below {abs(margin):.3g} alters that"
    if holds:
        return f"lambda1 = {name} is real, positive and simple{second}; {firm}"
    if holds is None:
        return (
            f"a simple positive leading eigenvalue is numerically undecidable at tolerance {spec.error:.2g}: "
            f"lambda1 = {name}{second}, and rounding alone could alter the answer"
        )
    if margin == 0.0:
        shared = int((moduli == moduli[0]).sum())
        return f"the leading modulus {moduli[0]:.6g} is shared by {shared} eigenvalues"
    if top.imag == 0.0 and top.real > 0.0:  # computed ahead by less than something of equal modulus
        return f"lambda1 = {name} does not lead{second}; {firm}"
    kind = "complex" if top.imag != 0.0 else "not positive"
    return f"the leading eigenvalue {name} is {kind}{second}; {firm}"


# --- with multiplicity ----------------------------------------------------------------------------


def paranormal_splitting(V: ArrayLike, unit: float = EPS) -> tuple[Finding, Splitting | None]:
    """Definition 2(ii) with the subspaces: V = lambda Id on F, spectral radius below lambda on G.

    For every m such that the m leading eigenvalues lie within sqrt(unit) ||V|| of each other, F is
    their invariant subspace (ordered Schur form, no eigenvectors), and V on F equals lambda Id when
    the residual is within obliqueness * delta, all that a change delta of V can do to V on F. The
    largest such m is taken. That F and G stay apart is certified by a circle, as for a simple
    eigenvalue. A group that is equal to rounding but is no multiple of the identity (a Jordan block)
    is undecidable: arbitrarily near are both simple and complex leading eigenvalues.
    """
    spec = spectrum(V, unit)
    first = simple_leading_eigenvalue(V, unit)
    if first.holds is False and first.margin < 0.0:
        name = "V paranormal"
        return Finding(name, False, first.numbers, first.margin, spec.error, first.sentence), None
    m, parts, residual = _semisimple_group(spec, unit)
    value = float(np.trace(parts.block)) / m
    radius = float(np.abs(spec.values[m:]).max(initial=0.0))
    distance = distance_keeping(spec, m) if value > 0.0 else 0.0
    holds: bool | None = True if distance > spec.error else None
    if holds is None and spec.exact and (abs(spec.values[0]) == radius or value <= 0.0):
        holds = False  # a tie on the stored diagonal that is no multiple of the identity, or V = 0
    numbers = {
        "lambda": value,
        "dim F": float(m),
        "|V - lambda| on F": residual,
        "spectral radius on G": radius,
        "obliqueness of F + G": parts.obliqueness,
        "distance keeping F and G apart": distance,
    }
    margin = distance if holds and m == 1 else 0.0
    sentence = _described(numbers, holds, spec.error)
    return Finding("V paranormal", holds, numbers, margin, spec.error, sentence), parts if holds else None


def _semisimple_group(spec: Spectrum, unit: float) -> tuple[int, Splitting, float]:
    values, scale = spec.values, float(np.linalg.norm(spec.V, 2))
    near = np.abs(values - values[0]) <= np.sqrt(unit) * scale
    most = len(values) if near.all() else int(np.argmin(near))
    for m in range(most, 1, -1):
        try:
            parts = split(spec.V, largest(m))
        except np.linalg.LinAlgError:
            continue
        if len(parts.block) != m or not np.isfinite(parts.obliqueness):
            continue
        residual = float(np.linalg.norm(parts.block - np.trace(parts.block) / m * np.eye(m), 2))
        if residual <= parts.obliqueness * spec.error:
            return m, parts, residual
    return 1, split(spec.V, largest(1)), 0.0


def _described(numbers: dict[str, float], holds: bool | None, tolerance: float) -> str:
    m, value, radius = int(numbers["dim F"]), numbers["lambda"], numbers["spectral radius on G"]
    if holds:
        residual = numbers["|V - lambda| on F"]
        return f"V = {value:.6g} Id on F of dimension {m} (residual {residual:.2g}), spectral radius {radius:.6g} on G"
    if holds is None:
        return (
            f"V paranormal is numerically undecidable at tolerance {tolerance:.2g}: leading eigenvalues "
            f"coincide to rounding, and V is not certainly a multiple of the identity there"
        )
    return f"V is not paranormal: {value:.6g} leads, but is met in modulus by other or defective eigenvalues"
