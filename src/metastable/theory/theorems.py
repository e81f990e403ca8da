"""The claims of the second paper, one entry each: hypotheses, predicted limit, rate, and how a run is measured.

A claim is data: add one by adding an entry to ``THEOREMS``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from metastable.theory import hypotheses, limits
from metastable.theory.leading import leading, paranormal_splitting
from metastable.theory.residuals import Finding
from metastable.theory.spectrum import EPS, growing, spectrum, split
from metastable.theory.verdicts import Kind
from metastable.trajectory import Trajectory


@dataclass(frozen=True)
class Triple:
    """Plain matrices of one head, beta absorbed in Q, and the tokens (n, d) it is applied to."""

    Q: np.ndarray
    K: np.ndarray
    V: np.ndarray
    tokens: np.ndarray

    @property
    def form(self) -> np.ndarray:
        """Q^T K, (d, d)."""
        return np.asarray(self.Q.T @ self.K)


@dataclass(frozen=True)
class Measurement:
    """How far each token is from the predicted set, against how far out tokens are now and were at first.

    ``exempt`` tokens, the worst, are left out of the residual; ``details`` is computed at the end only.
    """

    distances: np.ndarray
    extent: float
    first_extent: float
    limit: str
    exempt: int = 0
    details: Callable[[], Mapping[str, float]] = dict

    @property
    def residual(self) -> float:
        """The largest distance relative to the extent."""
        kept = np.sort(self.distances)[: max(1, len(self.distances) - self.exempt)]
        return float(kept[-1]) / self.extent if self.extent > 0.0 else 0.0


@dataclass(frozen=True)
class Claim:
    """A theorem or conjecture on the rescaled flow (4).

    ``rate`` is the exponential rate at which a token closes in on the limit set once its attention has settled.
    ``measure`` takes the tokens (their growing part, see `settled_tokens`) and a function that gives the attention.
    """

    name: str
    kind: Kind
    sentence: str
    hypotheses: Callable[[Triple], tuple[Finding, ...]]
    rate: Callable[[Triple], float]
    measure: Callable[[Triple, np.ndarray, Callable[[], np.ndarray]], Measurement]


def settled_tokens(run: Trajectory, index: int) -> tuple[np.ndarray, float]:
    """Tokens of a rescaled run without the components in which V contracts, and how well they are known.

    z = e^{-tV} x grows without bound where V contracts, and no limit set constrains those directions; taken from z, the
    others would drown in them. They come from the run's own coordinates instead.
    """
    zeta, values, left = run.coordinates()
    if not np.any(values):  # no well-conditioned eigenvectors: the run has no better coordinates than z itself
        z = run.x[index]
        return z, EPS * float(np.abs(z).max())
    keep = values.real >= 0.0
    back = np.linalg.inv(left)[:, keep]  # (d, kept)
    z = zeta[index][:, keep] @ back.T  # (n, d)
    return z, EPS * float(np.linalg.cond(left) * np.abs(z).max(initial=0.0))


def certified_until(run: Trajectory) -> float:
    """The last time to which a run's digits are certified; where nothing was certified, its start."""
    return float(run.t[0] if run.valid_until is None else run.valid_until)


# --- measurements -------------------------------------------------------------------------------------------------


def _attention(triple: Triple, z: np.ndarray, attention: Callable[[], np.ndarray]) -> Measurement:
    P = attention()  # (n, n)
    heard = np.argsort(-P.sum(axis=0), kind="stable")  # followers join their leader in z, but not in being heard
    target = limits.BooleanAttention(int(heard[0]), int(heard[min(1, len(heard) - 1)]))
    distances = target.distance(P)

    def details() -> dict[str, float]:
        return {"rank of the limit": float(target.rank(P)), "distance of the exempt row": float(distances.max())}

    return Measurement(distances, 1.0, 1.0, target.describe(), 1, details)


def _polytope(triple: Triple, z: np.ndarray, attention: Callable[[], np.ndarray]) -> Measurement:
    target = limits.polytope_of(z, triple.form)
    extent = _size(z)

    def details() -> dict[str, float]:
        corners = target.vertices(1e-3 * extent)
        far = limits.Points(np.vstack([corners, np.zeros(z.shape[1])])).distance(z).max()
        return {"vertices": float(len(corners)), "largest distance from a vertex or 0": float(far)}

    return Measurement(target.distance(z), extent, _size(triple.tokens), target.describe(), details=details)


def _hyperplanes(triple: Triple, z: np.ndarray, attention: Callable[[], np.ndarray]) -> Measurement:
    normal = leading(triple.V).left
    unit = normal / np.linalg.norm(normal)
    target = limits.hyperplanes_of(z, normal)

    def details() -> dict[str, float]:
        return {"hyperplanes with tokens": float(target.occupied(z))}

    extents = [float(np.abs(tokens @ unit).max()) for tokens in (z, triple.tokens)]
    return Measurement(target.distance(z), extents[0], extents[1], target.describe(), details=details)


def _polytope_times_subspace(triple: Triple, z: np.ndarray, attention: Callable[[], np.ndarray]) -> Measurement:
    splitting = paranormal_splitting(triple.V)[1]
    assert splitting is not None
    target = limits.polytope_times_subspace_of(z, triple.form, splitting)
    extents = [_size(tokens @ splitting.coordinates.T) for tokens in (z, triple.tokens)]

    def details() -> dict[str, float]:
        return {"vertices": float(len(target.polytope.vertices(1e-3 * extents[0])))}

    return Measurement(target.distance(z), extents[0], extents[1], target.describe(), details=details)


def _subspaces(triple: Triple, z: np.ndarray, attention: Callable[[], np.ndarray]) -> Measurement:
    target = limits.parallel_subspaces_of(z, split(triple.V, growing))
    extents = [_size(tokens @ target.rows.T) for tokens in (z, triple.tokens)]

    def details() -> dict[str, float]:
        return {"codimension": float(len(target.rows)), "subspaces found": float(len(target.centres))}

    return Measurement(target.distance(z), extents[0], extents[1], target.describe(), details=details)


def _size(tokens: np.ndarray) -> float:
    return float(np.linalg.norm(tokens, axis=1).max())


def _slowest(triple: Triple) -> float:
    real = spectrum(triple.V).values.real
    return float(real[real > 0.0].min())


# --- the table ----------------------------------------------------------------------------------------------------

THEOREMS: tuple[Claim, ...] = (
    Claim(
        "Theorem 2.1",
        "theorem",
        "attention tends to a Boolean matrix of rank 1 or 2, but for at most one row",
        lambda p: (hypotheses.positive_scalars(p.Q, p.K, p.V), hypotheses.distinct_tokens(p.tokens[:, :1])),
        lambda p: float(p.V[0, 0]),
        _attention,
    ),
    Claim(
        "Theorem 3.1",
        "theorem",
        "every token tends to 0 or to the boundary of a convex polytope",
        lambda p: (hypotheses.positive_multiple_of_identity(p.V), hypotheses.score_positive_definite(p.Q, p.K)),
        lambda p: float(np.trace(p.V)) / len(p.V),
        _polytope,
    ),
    Claim(
        "Theorem 4.1",
        "theorem",
        "every token tends to one of at most three parallel hyperplanes",
        lambda p: (hypotheses.good_triple(p.Q, p.K, p.V),),
        lambda p: leading(p.V).value,
        _hyperplanes,
    ),
    Claim(
        "Theorem 5.1",
        "theorem",
        "every token tends to (the boundary of a convex polytope, or 0) x a subspace",
        lambda p: (hypotheses.good_triple_with_multiplicity(p.Q, p.K, p.V),),
        lambda p: float(paranormal_splitting(p.V)[0].numbers["lambda"]),
        _polytope_times_subspace,
    ),
)

COLLAPSE = "every token of the unscaled flow tends to 0, the covariance like (C0^-1 + 2t I)^-1"


def collapse_hypotheses(triple: Triple) -> tuple[Finding, ...]:
    """Theorem C.5: V = -c I and Q^T K = a I."""
    return (
        hypotheses.negative_multiple_of_identity(triple.V),
        hypotheses.score_multiple_of_identity(triple.Q, triple.K),
    )


REMARK = Claim(
    "Remark 2",
    "observation",
    "the limit of Theorem 5.1 is seen also where Q^T K is not positive definite",
    lambda p: (hypotheses.paranormal(p.V),),
    lambda p: float(paranormal_splitting(p.V)[0].numbers["lambda"]),
    _polytope_times_subspace,
)

CONJECTURE = Claim(
    "Conjecture 4.2",
    "conjecture",
    "every token tends to one of at most three parallel subspaces of codimension k",
    lambda p: (hypotheses.eigenvalues_with_positive_real_part(p.V),),
    _slowest,
    _subspaces,
)
