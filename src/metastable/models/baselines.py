"""What a rung has to beat: three answers that know nothing of attention.

| baseline | its cosines |
| --- | --- |
| frozen tokens | those of the embedded text, at every layer: tokens that do not move at all |
| one point | all 1: every token in one place |
| best constant | c for every pair of different tokens: one c for the whole model, all its texts and its layers 1 to the last, that brings the distance, averaged by the one rule, to its least value; each distance has its own c |
"""

from typing import TYPE_CHECKING

import numpy as np

from metastable.models.token_distances import DISTANCES, distances, over_texts, pair_distance, pairs, rand_index

if TYPE_CHECKING:
    import xarray

BASELINES = ("frozen tokens", "one point", "best constant")


def baselines(H: np.ndarray, threshold: float) -> "xarray.Dataset":
    """Distances of the three baselines from the model's cosines H (layers + 1, texts, n, n).

    The dataset is over (baseline, text, layer), with ``gram_distance``, ``wasserstein``, ``rand_index`` (nan for the
    constant, whose tokens form no clusters) and ``mean_cosine``, and holds ``constant`` (distance,), the constants.
    """
    import xarray

    frozen, point = np.broadcast_to(H[0], H.shape), np.ones_like(H)
    best = {name: best_constant(H, name) for name in DISTANCES}
    rows = [_rows(G, H, threshold) for G in (frozen, point)]
    rows.append(
        {
            "gram_distance": constant_gram_distance(H, best["gram_distance"]),
            "wasserstein": constant_wasserstein(H, best["wasserstein"]),
            "rand_index": np.full(H.shape[:2], np.nan),
            "mean_cosine": np.full(H.shape[:2], best["gram_distance"]),
        }
    )
    variables = {key: (("baseline", "text", "layer"), np.stack([row[key].T for row in rows])) for key in rows[0]}
    coords = {
        "baseline": list(BASELINES),
        "text": np.arange(H.shape[1]),
        "layer": np.arange(H.shape[0]),
        "distance": list(DISTANCES),
    }
    return xarray.Dataset({**variables, "constant": ("distance", [best[name] for name in DISTANCES])}, coords)


def _rows(G: np.ndarray, H: np.ndarray, threshold: float) -> dict[str, np.ndarray]:
    agreed = np.stack([rand_index(g, h, threshold) for g, h in zip(G, H)])
    return {**distances(G, H), "rand_index": agreed, "mean_cosine": pairs(G).mean(axis=-1)}  # each (layers + 1, texts)


# --- the best constant --------------------------------------------------------------------------------------------


def constant_gram_distance(H: np.ndarray, c: float) -> np.ndarray:
    """Gram distance of the matrix with 1 on its diagonal and c elsewhere from cosines H (..., n, n)."""
    off = pairs(H)
    return np.asarray(np.sqrt(2.0 * ((c - off) ** 2).sum(axis=-1)) / np.linalg.norm(H, axis=(-2, -1)))


def constant_wasserstein(H: np.ndarray, c: float) -> np.ndarray:
    """Wasserstein distance of a constant c from the cosines of pairs in H (..., n, n)."""
    return np.asarray(np.abs(pairs(H) - c).mean(axis=-1))


def best_constant(H: np.ndarray, distance: str) -> float:
    """The c in [-1, 1] with the least mean ``distance`` over layers 1 to the last of H (layers + 1, texts, n, n).

    Both means are convex in c, so that one search finds it.

    >>> H = np.stack([np.eye(2), [[1.0, 0.4], [0.4, 1.0]]])[:, None]
    >>> round(best_constant(H, "gram_distance"), 6), round(best_constant(H, "wasserstein"), 6)
    (0.4, 0.4)
    """
    from scipy.optimize import minimize_scalar

    measure = {"gram_distance": constant_gram_distance, "wasserstein": constant_wasserstein}[distance]
    found = minimize_scalar(
        lambda c: float(measure(H[1:], c).mean()), bounds=(-1.0, 1.0), method="bounded", options={"xatol": 1e-8}
    )
    return float(found.x)


# --- who wins -----------------------------------------------------------------------------------------------------


def verdict(climbed: "xarray.Dataset", beside: "xarray.Dataset") -> list[str]:
    """Who is nearer to the model, the rungs below the exact network or each baseline: a sentence for each baseline.

    A rung is nearer (or farther) when both distances say so, each by more than two standard errors over the texts.
    """
    last = int(climbed.rung.max())
    rungs = [int(k) for k in climbed.rung.values if int(k) != last]
    return [_sentence(climbed, beside.sel(baseline=name), name, rungs) for name in beside.baseline.values] if rungs else []


def compared(rung: "xarray.Dataset", baseline: "xarray.Dataset") -> int:
    """-1 where a rung is nearer to the model than a baseline in both distances, 1 where farther in both, else 0."""
    signs = {
        told_apart((over_layers(rung[name]) - over_layers(baseline[name])).values) for name in DISTANCES
    }
    return signs.pop() if len(signs) == 1 else 0


def _sentence(climbed: "xarray.Dataset", baseline: "xarray.Dataset", name: str, rungs: list[int]) -> str:
    signs = {k: compared(climbed.sel(rung=k), baseline) for k in rungs}
    means = {k: [float(over_texts(climbed[d].sel(rung=k))[0]) for d in DISTANCES] for k in rungs}
    own = [float(over_texts(baseline[d])[0]) for d in DISTANCES]
    many = name == "frozen tokens"
    subject = {"frozen tokens": "Tokens that do not move at all", "one point": "All tokens in one point"}.get(
        name, f"The best constant (c = {float(baseline['constant'].sel(distance=DISTANCES[0])):.2f})"
    )
    numbers = f"Gram distance {own[0]:.2f}, Wasserstein {own[1]:.2f}"
    if set(signs.values()) == {1}:
        best = min(rungs, key=lambda k: means[k][0])
        verb = "are" if many or name == "one point" else "is"
        return (
            f"{subject} {verb} nearer to the model than every rung below the exact network, in both distances "
            f"({numbers}; the best of them, rung {best}: {means[best][0]:.2f}, {means[best][1]:.2f})."
        )
    said = [
        (f"{_listed(which)} nearer to the model in both distances", which) for which in [[k for k in rungs if signs[k] == -1]]
    ]
    said += [(f"{_listed(which)} farther in both", which) for which in [[k for k in rungs if signs[k] == 1]]]
    said += [(f"{_listed(which)} not told apart", which) for which in [[k for k in rungs if signs[k] == 0]]]
    return f"Against {subject[0].lower()}{subject[1:]} ({numbers}), {'; '.join(text for text, which in said if which)}."


def _listed(rungs: list[int]) -> str:
    if not rungs:
        return ""
    one = len(rungs) == 1
    return f"rung{'' if one else 's'} {', '.join(map(str, rungs))} {'is' if one else 'are'}"
