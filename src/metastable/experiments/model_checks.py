"""Self-checks of the experiments on models: what was measured of one short text, once more in plain NumPy."""

import numpy as np

from metastable.errors import InputError
from metastable.experiments import model_access
from metastable.experiments.base import Check
from metastable.models.folding import linear
from metastable.models.model import Model
from metastable.models.probe import probe
from metastable.models.spectra import ov_eigenvalues

_TOKENS = 12


def short_text(name: str) -> tuple[Model, list[int]] | None:
    """The model and the first tokens of its first text; None where it cannot be had, and the run will say why."""
    try:
        model = model_access.model_of(name)
        reading = model.read(model_access.texts_of(model, 0, 1)[0], _TOKENS)
    except InputError:
        return None
    return None if reading is None or len(reading.given) < 3 else (model, list(reading.given))


def states_and_maps(model: Model, ids: list[int], layers: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """States (n, d) of layers 0 to ``layers`` and attention maps (h, n, n) of layers 1 to ``layers``."""
    states: list[np.ndarray] = []
    maps: list[np.ndarray] = []
    model.watch(
        ids, layers, lambda _, x: states.append(np.array(x, float)), lambda _, A: maps.append(np.array(A, float))
    )
    return states, maps


def cosines(x: np.ndarray, centred: bool) -> np.ndarray:
    """Cosines of the pairs i < j of tokens (n, d), raw or with the direction of the sum of unit tokens taken out."""
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    if centred:
        mean = u.sum(axis=0) / np.linalg.norm(u.sum(axis=0))
        u = u - np.outer(u @ mean, mean)
        u = u / np.linalg.norm(u, axis=1, keepdims=True)
    return np.asarray((u @ u.T)[np.triu_indices(len(u), 1)])


def similarity_check(name: str) -> dict[str, Check]:
    """Mean cosines and shares above 0.9 of a short text at layers 0, 1 and 2, raw and centred; float32 rounds at 1e-6.

    The states are the model's own on both sides: only what is said of them is made twice.
    """
    found = short_text(name)
    if found is None:
        return {}
    model, ids = found
    layers = min(2, model.depth)
    own = probe(model, [ids], layers=layers, measure=("similarity",)).similarity
    assert own is not None
    each = [[cosines(x, bool(kind)) for kind in (0, 1)] for x in states_and_maps(model, ids, layers)[0]]
    mean = np.array([[c.mean() for c in row] for row in each])
    above = np.array([[(c > 0.9).mean() for c in row] for row in each])
    near = np.array([[(np.abs(c - 0.9) < 1e-5).mean() for c in row] for row in each])  # may fall on either side
    return {
        "mean cosines of a short text, of the model's own states": (own["mean"].values, mean, 1e-4),
        "shares of cosines above 0.9, of the model's own states": (
            own["share_above"].sel(threshold=0.9).values,
            above,
            1e-6 + float(near.max()),
        ),
    }


def sink_check(name: str) -> dict[str, Check]:
    """The attention that the first token of a short text gets, by layer and head; the maps are the model's own."""
    found = short_text(name)
    if found is None:
        return {}
    model, ids = found
    own = probe(model, [ids], measure=("sinks",)).sinks
    assert own is not None
    maps = states_and_maps(model, ids, model.depth)[1]
    plain = np.array([A[:, :, 0].mean(axis=1) for A in maps])
    return {
        "attention on the first token, of the model's own maps": (own["mass"].sel(kind="first").values, plain, 1e-5)
    }


def eigenvector_check(name: str) -> dict[str, Check]:
    """O V phi = lambda phi for the eigenvectors of the first head, with O V multiplied out."""
    try:
        maps = linear(model_access.model_of(name).require_parts().block(0))
    except InputError:
        return {}
    values, vectors = ov_eigenvalues(maps, 0)
    moved = maps.O[0] @ (maps.V[0] @ vectors)
    return {
        "O V phi, real part": (moved.real, (vectors * values).real, 1e-6),
        "O V phi, imaginary part": (moved.imag, (vectors * values).imag, 1e-6),
    }
