"""The theorem panel: which hypotheses a run meets and by what margin, the predicted limit, the distance from it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import QhullError
from scipy.spatial.distance import cdist

from metastable.equation.dynamics import Dynamics
from metastable.equation.normalise import SOFTMAX
from metastable.plots import hull_edges
from metastable.theory import hypotheses, limits
from metastable.theory.leading import leading, paranormal_splitting
from metastable.theory.residuals import Finding, conjunction
from metastable.theory.spectrum import Splitting
from metastable.theory.theorems import CONJECTURE, THEOREMS, Claim, Triple, settled_tokens
from metastable.trajectory import Trajectory

Floats = NDArray[np.float64]
MOST_TOKENS = 400  # beyond this limits are not fitted while one steers
MOST_STATES = 31  # of a run at which distances are measured
GROUP = 0.02  # width of a group of tokens, of how far out the farthest is, that is drawn as one corner
PAIRS = 2e8  # of tokens, whose distances are measured


@dataclass(frozen=True)
class Theory:
    """What is said (``facts``), what is drawn (``segments`` (m, 2, d)), and the largest distance over time."""

    facts: dict[str, Any]
    segments: Floats | None = None
    times: Floats | None = None
    distances: Floats | None = None


@dataclass
class _Said:
    claims: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""


def theory_of(run: Trajectory) -> Theory:
    """The theory of one run."""
    reason = _outside(run.dynamics)
    if reason:
        return Theory({"claims": [], "note": reason})
    assert run.dynamics is not None
    triple = _triple(run.dynamics, run.x[0])
    if run.dynamics.geometry.fixed_norm:
        return _on_sphere(run, triple)
    if run.dynamics.mask.visible is not None:
        return Theory({"claims": [], "note": "No theorem applies: in space the theory is for full attention."})
    claims = [
        (claim, claim.hypotheses(triple)) for claim in THEOREMS if claim is not THEOREMS[0] or triple.V.shape[0] == 1
    ]
    if not any(_applies(found) for _, found in claims):
        claims.append((CONJECTURE, CONJECTURE.hypotheses(triple)))
    holding = [claim for claim, found in claims if _applies(found)]
    facts: dict[str, Any] = {
        "claims": [_claim(claim.name, claim.kind, claim.sentence, found) for claim, found in claims]
    }
    if not run.dynamics.geometry.rescales:
        facts["note"] = (
            "The limits are those of the rescaled tokens z = e^{-tV} x: choose geometry = rescaled to see them."
        )
        return Theory(facts)
    if not holding or len(run.x[0]) > MOST_TOKENS:
        facts["note"] = (
            "No limit is drawn: no hypothesis holds." if not holding else "No limit is drawn for so many tokens."
        )
        return Theory(facts)
    return _measured(run, triple, holding[0], facts)


def _outside(dynamics: Dynamics | None) -> str:
    """Why the papers say nothing about a run, or nothing."""
    if dynamics is None:
        return "Tokens of a model: no theorem is about them."
    w = dynamics.weights
    if w.heads > 1:
        return "No theorem applies: several heads are an open problem (second paper, section 6)."
    if not w.bilinear or not dynamics.score.is_dot or dynamics.position is not None:
        return "No theorem applies: the theory is for scores <Qx, Ky> without positions."
    if float(np.max(np.asarray(dynamics.noise))) > 0:
        return "No theorem applies: the tokens are moved by noise too."
    if dynamics.geometry.seen is not None or dynamics.geometry.gained is not None:
        return "No theorem applies: this normalisation scheme is not the papers' sphere."
    if dynamics.normalise != SOFTMAX:
        return "No theorem applies: the papers' attention is softmax."
    return ""


def _triple(dynamics: Dynamics, tokens: Floats) -> Triple:
    """The papers' Q, K, V, with beta absorbed in Q."""
    d, w = tokens.shape[-1], dynamics.weights
    Q, K = (np.eye(d) if m is None else np.asarray(m, dtype=float).reshape(-1, d) for m in (w.Q, w.K))
    V = np.asarray(w.value_map(0.0, d))[0]
    return Triple(float(np.asarray(dynamics.beta)) * Q, K, V, np.asarray(tokens, dtype=float))


def _applies(found: Sequence[Finding]) -> bool:
    return conjunction([f.holds for f in found]) is True


def _claim(name: str, kind: str, sentence: str, found: Sequence[Finding]) -> dict[str, Any]:
    tested = [{"name": f.name, "holds": f.word, "margin": f.margin, "sentence": f.sentence} for f in found]
    return {"name": name, "kind": kind, "sentence": sentence, "applies": _applies(found), "hypotheses": tested}


def _measured(run: Trajectory, triple: Triple, claim: Claim, facts: dict[str, Any]) -> Theory:
    """The limit fitted at the end of the run, and the largest distance from it at some saved times."""
    kept = _some(run, MOST_STATES)
    try:
        end, _ = settled_tokens(run, len(run.t) - 1)
        target, segments = _limit(claim, triple, end, run.x)
        if target is None:
            measured = claim.measure(triple, end, lambda: np.asarray(run.attention(-1))[0])
            facts |= {"limit": measured.limit, "now": measured.residual}
            return Theory(facts)
        tokens = [settled_tokens(run, int(k))[0] for k in kept]
    except (ValueError, np.linalg.LinAlgError, QhullError) as error:
        facts["note"] = f"The limit could not be fitted here ({str(error).splitlines()[0][:80]})."
        return Theory(facts)
    size = max(float(np.linalg.norm(end, axis=1).max()), 1e-300)
    distances = np.array([float(np.max(target.distance(z))) / size for z in tokens])
    facts |= {
        "limit": target.describe(),
        "claim": claim.name,
        "measured": "Distance from the limit (relative)",
    }
    return Theory(facts, segments, np.asarray(run.t[kept], dtype=float), distances)


def _limit(claim: Claim, triple: Triple, end: Floats, x: Floats) -> tuple[Any, Floats | None]:
    """The predicted set, and its drawing (m, 2, d) where it can be drawn."""
    d = end.shape[1]
    if claim is THEOREMS[1]:
        target = limits.polytope_of(end, triple.form)
        return target, np.asarray(hull_edges(_groups(end))) if 1 < d <= 3 else None
    if claim is THEOREMS[2]:
        planes = limits.hyperplanes_of(end, leading(triple.V).left)
        return planes, _sheets(planes, x) if d in (2, 3) else None
    if claim is THEOREMS[3]:
        splitting = paranormal_splitting(triple.V)[1]
        if splitting is None:
            return None, None
        product = limits.polytope_times_subspace_of(end, triple.form, splitting)
        return product, _prism(product, splitting, x) if d in (2, 3) else None
    return None, None


def _some(run: Trajectory, most: int) -> NDArray[np.int_]:
    """Some saved states, evenly, the first and the last among them."""
    return np.unique(np.linspace(0, len(run.t) - 1, max(2, min(len(run.t), most))).round().astype(int))


def _prism(product: limits.PolytopeTimesSubspace, splitting: Splitting, x: Floats) -> Floats | None:
    """A polytope of F, as far along the free direction G as tokens ever are; None where G is more than a line."""
    basis = splitting.basis  # (d, m), of F
    if splitting.complement.shape[1] != 1:
        return None
    free = splitting.complement[:, 0] / np.linalg.norm(splitting.complement)  # (d,)
    sides = hull_edges(_groups(product.polytope.points)) @ basis.T  # (e, 2, d), of the polytope
    corners = np.unique(sides.reshape(-1, x.shape[-1]), axis=0)  # (c, d)
    along = (x - x @ (basis @ splitting.coordinates).T) @ free  # (T, n), how far out each token is in G
    low, high = along.min() * free, along.max() * free
    pillars = np.stack([corners + low, corners + high], axis=1)
    return np.concatenate([pillars, sides + low, sides + high]) if basis.shape[1] > 1 else pillars


def _groups(points: Floats) -> Floats:
    """One of each group of points that a picture cannot tell apart, those far out first."""
    kept: list[Floats] = []
    for point in points[np.argsort(-np.linalg.norm(points, axis=1))]:
        if all(np.linalg.norm(point - one) > GROUP * np.linalg.norm(kept[0]) for one in kept):
            kept.append(point)
    return np.array(kept)


def _sheets(planes: limits.ParallelHyperplanes, x: Floats) -> Floats:
    """Outlines of hyperplanes, as wide as the tokens ever are."""
    normal = planes.normal / np.linalg.norm(planes.normal)
    reach = float(np.linalg.norm(x.reshape(-1, x.shape[-1]), axis=1).max())
    basis = np.linalg.svd(normal[None])[2][1:]  # (d - 1, d), orthonormal, in the hyperplane
    segments = []
    for level in planes.levels:
        foot = normal * level / np.linalg.norm(planes.normal)
        if len(basis) == 1:
            segments.append([foot - reach * basis[0], foot + reach * basis[0]])
            continue
        turns = [foot + 0.7 * reach * (a * basis[0] + b * basis[1]) for a, b in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
        segments += [[turns[k], turns[(k + 1) % 4]] for k in range(4)]
    return np.array(segments)


# --- the sphere ---------------------------------------------------------------------------------------------------


def _on_sphere(run: Trajectory, triple: Triple) -> Theory:
    """The first paper's statements: where the limit is a single point, and which."""
    assert run.dynamics is not None
    n, mask = len(run.x[0]), run.dynamics.mask
    seen = np.ones((n, n), bool) if mask.visible is None else np.asarray(mask.rows(np.arange(n), n))
    causal = mask.by_time is None and np.array_equal(seen, np.tri(n, dtype=bool))
    if not causal and (mask.by_time is not None or not seen.all()):
        return Theory({"claims": [], "note": "No theorem applies: the theory is for full or causal attention."})
    positive = hypotheses.positive_multiple_of_identity(triple.V)
    claims = []
    if causal:
        sentence = "with V = I every token tends to the first one, which never moves"
        claims.append(_claim("Causal attention", "theorem", sentence, (positive,)))
    else:
        found = (positive, _hemisphere(triple.tokens))
        sentence = "tokens that share an open hemisphere meet in one point"
        claims.append(_claim("One cluster", "theorem", sentence, found))
    facts: dict[str, Any] = {"claims": claims}
    if not claims[0]["applies"]:
        facts["note"] = "No limit is predicted here; clusters may be metastable: many at first, fewer as time goes on."
        return Theory(facts)
    facts["claim"] = claims[0]["name"]
    if causal:
        goal = run.x[0][0]
        facts |= {"limit": "the first token", "measured": "Largest angle from the first token"}
        return Theory(facts, _ring(goal), np.asarray(run.t, dtype=float), _angle(np.linalg.norm(run.x - goal, axis=2)))
    kept = _some(run, int(min(MOST_STATES, PAIRS // n**2)))
    facts |= {"limit": "some common point", "measured": "Largest angle between tokens"}
    return Theory(facts, None, np.asarray(run.t[kept], dtype=float), np.array([_diameter(run.x[k]) for k in kept]))


def _angle(chords: Floats) -> Floats:
    """The largest angle (T,) behind chords (T, n) of the unit sphere; also a small one to all its digits."""
    return np.asarray(2.0 * np.arcsin(np.clip(chords.max(axis=1) / 2.0, 0.0, 1.0)))


def _diameter(tokens: Floats) -> float:
    """The largest angle between two tokens."""
    block = 512
    chords = [cdist(tokens[i : i + block], tokens).max() for i in range(0, len(tokens), block)]
    return float(_angle(np.array([chords]))[0])


def _hemisphere(tokens: Floats) -> Finding:
    """Whether some direction has a positive inner product with every token."""
    from scipy.optimize import linprog

    n, d = tokens.shape
    # the largest s with <w, x_i> >= s, |w|_inf <= 1
    found = linprog(np.append(np.zeros(d), -1.0), np.hstack([-tokens, np.ones((n, 1))]), np.zeros(n),
                    bounds=[(-1, 1)] * d + [(None, None)])  # fmt: skip
    w = found.x[:d] if found.status == 0 else np.zeros(d)
    size = float(np.linalg.norm(w))
    margin = float((tokens @ w).min()) / size if size > 1e-12 else 0.0
    holds = margin > 1e-12
    said = "The tokens share an open hemisphere" if holds else "The tokens share no open hemisphere"
    return Finding("tokens in an open hemisphere", holds, {"margin": margin}, margin if holds else -0.0, 1e-12,
                   f"{said}: the best direction has inner products from {margin:.3g} on.")  # fmt: skip


def _ring(goal: Floats, radius: float = 0.12) -> Floats | None:
    """A small circle around a point of the circle or sphere, as segments."""
    d = len(goal)
    if d == 2:
        side = np.array([-goal[1], goal[0]])
        return np.array([[goal * 0.88, goal * 1.12], [goal * 1.12, goal * 1.12 + 0.08 * side]])
    if d != 3:
        return None
    basis = np.linalg.svd(goal[None])[2][1:]
    turn = np.linspace(0, 2 * np.pi, 41)
    points = goal * np.cos(radius) + np.sin(radius) * (
        np.cos(turn)[:, None] * basis[0] + np.sin(turn)[:, None] * basis[1]
    )
    return np.stack([points[:-1], points[1:]], axis=1)
