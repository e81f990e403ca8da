"""Instances to be tried: drawn at random, held within the rules, and stored.

Eq. (4) is unchanged by a change of coordinates: with V = S L S^{-1} and zeta = S^{-1} z it reads the same with L for V
and S^T Q^T K S for Q^T K, and parallel subspaces stay parallel subspaces. So nothing is lost by taking V in its real
canonical form L (real eigenvalues and 2 x 2 blocks a I + b J on the diagonal), Q = I, K = G any matrix, the largest
real part 1 (a unit of time) and tokens of size one (a unit of length, absorbed in G). What is left out are V without a
basis of eigenvectors.
"""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metastable.errors import InputError
from metastable.hunt.rules import LEADS, SCORES, Rules
from metastable.store.files import read_arrays, write_arrays

RANDOM, CLIMBED = 0, 1  # where an instance comes from
_LEAST_FORM = 0.05  # margin of the conditions on Q^T K
_LARGEST = 5.0  # of an entry of G or E
_FASTEST = 2.0  # turning: what grows like |a + ib| must stay within floats
_FARTHEST = 3.0  # coordinate of a token


@dataclass(frozen=True)
class Batch:
    """B instances; the largest real part comes first.

    ``a``, ``b``, ``partner`` (B, d) are L: (L y)_i = a_i y_i + b_i y_partner(i). ``grows`` (B, d) marks positive real
    parts, ``lead`` (B,) counts how many share the largest. ``G`` (B, h, d, d) is Q^T K, ``E`` (B, h, d, d) is what
    head h adds to L/h (the sum over heads is 0), ``z`` (B, n, d) the tokens. ``scores`` and ``leads`` number `SCORES`
    and `LEADS`, ``origin`` is RANDOM or CLIMBED, ``name`` (B, 2) the round and place where the instance was drawn.
    """

    a: np.ndarray
    b: np.ndarray
    partner: np.ndarray
    grows: np.ndarray
    lead: np.ndarray
    G: np.ndarray
    E: np.ndarray
    z: np.ndarray
    scores: np.ndarray
    leads: np.ndarray
    origin: np.ndarray
    name: np.ndarray

    def __len__(self) -> int:
        return len(self.a)

    def take(self, chosen: ArrayLike) -> "Batch":
        """Some of the instances; ``chosen`` is a list of places or a mask."""
        rows = np.asarray(chosen)
        return Batch(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def L(self) -> np.ndarray:
        """V in its canonical form, (B, d, d)."""
        B, d = self.a.shape
        L = np.zeros((B, d, d))
        rows = np.arange(d)
        L[:, rows, rows] = self.a
        for i in range(B):
            L[i, rows, self.partner[i]] += self.b[i]  # b is 0 where a direction is its own partner
        return L

    def V(self) -> np.ndarray:
        """The value map of every head, (B, h, d, d)."""
        return np.asarray(self.L()[:, None] / self.G.shape[1] + self.E)


def joined(parts: list[Batch]) -> Batch:
    """Batches one after the other."""
    return Batch(**{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Batch)})


# --- drawing ------------------------------------------------------------------------------------------------------


def draw(rules: Rules, count: int, turn: int) -> Batch:
    """``count`` random instances; the same ones for the same seed, turn and count.

    >>> draw(Rules(), 3, 0).z.shape
    (3, 12, 4)
    """
    rng = np.random.default_rng([rules.seed, turn])
    d, h = rules.d, rules.heads
    spectra = [_spectrum(rules, rng) for _ in range(count)]
    places = np.arange(count)
    forms = len(SCORES) if rules.claim == "codimension" else len(SCORES) - 1
    scores = places // 2 % forms if rules.scores is None else np.full(count, SCORES.index(rules.scores))
    leads = places % 2 if rules.leads is None else np.full(count, LEADS.index(rules.leads))
    E = rng.normal(size=(count, h, d, d)) / (2.0 * np.sqrt(d)) * (rng.random((count, 1, 1, 1)) < 0.5)
    batch = Batch(
        a=np.array([s[0] for s in spectra]),
        b=np.array([s[1] for s in spectra]),
        partner=np.array([s[2] for s in spectra]),
        grows=np.array([s[3] for s in spectra]),
        lead=np.array([s[4] for s in spectra]),
        G=rng.normal(size=(count, h, d, d)),
        E=E,
        z=rng.normal(size=(count, rules.n, d)),
        scores=scores,
        leads=leads,
        origin=np.full(count, RANDOM),
        name=np.stack([np.full(count, turn), places], axis=1),
    )
    return constrained(batch, rules)


def _spectrum(rules: Rules, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """Real parts, imaginary parts, partners, which grow, and how many lead."""
    d = rules.d
    k = rules.k or int(rng.integers(2, d + 1))
    lead = int(rng.integers(1, 3)) if rules.exceptions and k > 1 else 1
    a = np.concatenate([np.ones(lead), rng.uniform(rules.floor, 1.0 - rules.gap, k - lead), -np.ones(d - k)])
    a[k:] *= rng.uniform(rules.floor, 1.0, d - k)
    b, partner = np.zeros(d), np.arange(d)
    starts = [0] if lead == 2 else []
    starts += [*range(lead, k - 1, 2), *range(k, d - 1, 2)]  # pairs never join growing and contracting directions
    for i in starts:
        if rng.random() < 0.5:
            partner[i], partner[i + 1] = i + 1, i
            b[i] = rng.uniform(0.2, 2.0)
            b[i + 1] = -b[i]
    return a, b, partner, np.arange(d) < k, lead


# --- staying within the rules -------------------------------------------------------------------------------------


def constrained(batch: Batch, rules: Rules) -> Batch:
    """The nearest instances that satisfy the rules: k, gap, floor, the conditions on Q^T K, and sizes.

    This is where a search guided by gradients is held away from the known exceptions: it can come as near to a shared
    largest real part as the gap, and no nearer.
    """
    rows = np.arange(len(batch))[:, None]
    real = 0.5 * (batch.a + batch.a[rows, batch.partner])
    lowest = np.where(batch.leads[:, None] == 0, 1.0 - rules.gap, 1.0)
    real = np.where(batch.grows, np.clip(real, rules.floor, 1.0 - rules.gap), np.clip(real, -lowest, -rules.floor))
    real = np.where(np.arange(rules.d) < batch.lead[:, None], 1.0, real)
    most = np.where(batch.leads[:, None] == 0, np.sqrt(np.maximum((1.0 - rules.gap) ** 2 - real**2, 0.0)), _FASTEST)
    most = np.where(np.arange(rules.d) < batch.lead[:, None], _FASTEST, most)
    turn = np.clip(0.5 * (batch.b - batch.b[rows, batch.partner]), -most, most)
    E = batch.E - batch.E.mean(axis=1, keepdims=True)
    return replace(
        batch,
        a=real,
        b=turn,
        E=np.clip(E, -_LARGEST, _LARGEST),
        G=_form(np.clip(batch.G, -_LARGEST, _LARGEST), batch.scores),
        z=np.clip(batch.z, -_FARTHEST, _FARTHEST),
    )


def _form(G: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Q^T K with the condition of its instance, (B, h, d, d)."""
    even = 0.5 * (G + np.swapaxes(G, -1, -2))
    values, vectors = np.linalg.eigh(even)
    positive = (vectors * np.maximum(values, _LEAST_FORM)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    first = G[..., 0, 0]
    good, free = G.copy(), G.copy()
    good[..., 0, 0] = np.maximum(first, _LEAST_FORM)
    free[..., 0, 0] = np.where(first < 0.0, -1.0, 1.0) * np.maximum(np.abs(first), _LEAST_FORM)
    kind = scores[:, None, None, None]
    return np.asarray(np.select([kind == 0, kind == 1, kind == 2], [positive, G - even + positive, good], free))


def shaken(batch: Batch, rules: Rules, copies: int, size: float, seed: int) -> tuple[Batch, np.ndarray]:
    """Copies of one instance, the first half with other tokens, the rest with other weights; and a mask of the first.

    Every number moves by ``size`` times a standard normal; k, conjugate pairs and a shared largest real part stay.
    """
    rng = np.random.default_rng([seed, *batch.name[0]])
    many = batch.take(np.zeros(copies, dtype=int))
    tokens = np.arange(copies) < copies // 2

    def moved(x: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        return np.asarray(x + size * rng.normal(size=x.shape) * chosen.reshape(-1, *[1] * (x.ndim - 1)))

    b = moved(many.b, ~tokens) * (many.b != 0.0)
    E = moved(many.E, ~tokens & (many.E != 0.0).any(axis=(1, 2, 3)))
    made = replace(many, z=moved(many.z, tokens), a=moved(many.a, ~tokens), b=b, E=E, G=moved(many.G, ~tokens))
    return constrained(made, rules), tokens


# --- what an instance is ------------------------------------------------------------------------------------------


def exception(batch: Batch, i: int) -> str:
    """The known exception an instance falls under, or nothing."""
    if batch.lead[i] > 1:
        kind = "a complex pair leads" if batch.b[i, 0] != 0.0 else "an eigenvalue of multiplicity two leads"
        return f"the largest real part is shared ({kind}): leaders need not line up, polygons of them are stable"
    return ""


def good_triple(batch: Batch) -> np.ndarray:
    """Whether Definition 1 holds, for every head: the leading eigenvalue is simple and largest in modulus, and
    <Q phi_1, K phi_1> > 0; (B,)."""
    d = batch.a.shape[1]
    rest = np.where(np.arange(d) < 1, 0.0, np.hypot(batch.a, batch.b)).max(axis=1)
    return np.asarray((batch.lead == 1) & (rest < 1.0) & (batch.G[:, :, 0, 0] > 0.0).all(axis=1))


def facts(batch: Batch, i: int) -> dict[str, Any]:
    """An instance's spectrum and kind, as plain data."""
    values = batch.a[i] + 1j * batch.b[i]
    return {
        "drawn in round": int(batch.name[i, 0]),
        "place": int(batch.name[i, 1]),
        "origin": "climbed" if batch.origin[i] == CLIMBED else "random",
        "scores": SCORES[int(batch.scores[i])],
        "leads in": LEADS[int(batch.leads[i])],
        "good triple": bool(good_triple(batch)[i]),
        "k": int(batch.grows[i].sum()),
        "eigenvalues": [[float(v.real), float(v.imag)] for v in values],
        "leading form": [float(v) for v in batch.G[i, :, 0, 0]],
    }


def write(path: Path, batch: Batch, i: int) -> None:
    """One instance as npz: Q, K, V (h, d, d) and tokens (n, d) for other programs, and the numbers it was made from."""
    one = batch.take([i])
    h, d = one.G.shape[1], one.a.shape[1]
    shown = {"Q": np.broadcast_to(np.eye(d), (h, d, d)), "K": one.G[0], "V": one.V()[0], "tokens": one.z[0]}
    write_arrays(path, shown | {f"hunt_{k}": v for k, v in one.arrays().items()})


def read(path: Path) -> Batch:
    """An instance written by `write`, as a batch of one."""
    try:
        stored = read_arrays(path)
        return Batch(**{f.name: stored[f"hunt_{f.name}"] for f in fields(Batch)})
    except FileNotFoundError:
        raise InputError(f"There is no file {str(path)!r}; a hunt writes its instances to DIR/worst/*.npz.") from None
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{str(path)!r} holds no instance of a hunt; give a file from DIR/worst/*.npz.") from error
