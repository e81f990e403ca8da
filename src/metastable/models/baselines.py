"""What a rung has to beat: three answers that know nothing of attention.

| baseline | its cosines |
| --- | --- |
| frozen tokens | those of the embedded text, at every layer: tokens that do not move at all |
| one point | all 1: every token in one place |
| best constant | c for every pair of different tokens |

The best constant is one number for the whole model, all texts and layers 1 to the last, chosen so that the distance,
averaged by the one rule, is least; each distance has its own.
"""

from typing import TYPE_CHECKING

import numpy as np

from metastable.models.token_distances import (
    DISTANCES,
    distances,
    over_layers,
    over_texts,
    pairs,
    rand_index,
    told_apart,
)

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
    names = [str(name) for name in beside.baseline.values] if rungs else []
    return [_sentence(climbed, beside.sel(baseline=name), name, rungs) for name in names]


def compared(rung: "xarray.Dataset", baseline: "xarray.Dataset") -> int:
    """-1 where a rung is nearer to the model than a baseline in both distances, 1 where farther in both, else 0."""
    signs = {told_apart((over_layers(rung[name]) - over_layers(baseline[name])).values) for name in DISTANCES}
    return signs.pop() if len(signs) == 1 else 0


_SUBJECTS = {
    "frozen tokens": ("tokens that do not move at all", "are"),
    "one point": ("all tokens in one point", "are"),
    "best constant": ("the best constant cosine", "is"),
}


def _sentence(climbed: "xarray.Dataset", baseline: "xarray.Dataset", name: str, rungs: list[int]) -> str:
    signs = {k: compared(climbed.sel(rung=k), baseline) for k in rungs}
    subject, verb = _SUBJECTS[name]
    own = _numbers(baseline)
    if set(signs.values()) == {1}:
        best = min(rungs, key=lambda k: float(over_texts(climbed[DISTANCES[0]].sel(rung=k))[0]))
        return (
            f"{subject[0].upper()}{subject[1:]} {verb} nearer to the model than every rung below the exact network, in "
            f"both distances ({own}; the best of them, rung {best}: {_numbers(climbed.sel(rung=best))})."
        )
    words = {-1: "nearer to the model in both distances", 1: "farther in both", 0: "not told apart by both"}
    which = {sign: [k for k in rungs if signs[k] == sign] for sign in words}
    said = [f"{_listed(which[sign])} {word}" for sign, word in words.items() if which[sign]]
    return f"Against {subject} ({own}), {'; '.join(said)}."


def _numbers(system: "xarray.Dataset") -> str:
    gram, pair = (float(over_texts(system[name])[0]) for name in DISTANCES)
    return f"Gram distance {gram:.2f}, Wasserstein {pair:.2f}"


def _listed(rungs: list[int]) -> str:
    one = len(rungs) == 1
    return f"rung{'' if one else 's'} {', '.join(map(str, rungs))} {'is' if one else 'are'}"
