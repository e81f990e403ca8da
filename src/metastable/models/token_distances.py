"""How far one system's tokens are from the model's, text by text and layer by layer, and the rule that averages it.

With G the cosines of a system's tokens and H those of the model's, both (n, n):

    Gram distance   ||G - H||_F / ||H||_F
    Wasserstein     W_1 of the distributions of the cosines of all pairs i < j

Every table, bar and sentence averages by `over_layers`, then `over_texts`, and by nothing else.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.backend import Array, jax, jnp
from metastable.models.agreement import adjusted_rand
from metastable.models.layer_similarity import cluster_labels

if TYPE_CHECKING:
    import xarray

DISTANCES = ("gram_distance", "wasserstein")


def gram(x: Any) -> np.ndarray:
    """Cosines (..., n, n) of tokens (..., n, d) in float64; nan where a token is not finite.

    >>> gram([[3.0, 0.0], [0.0, 2.0]]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    u = np.asarray(_unit(x if isinstance(x, Array) else np.asarray(x)))
    return np.asarray(np.clip(u @ np.swapaxes(u, -1, -2), -1.0, 1.0))  # small products in a batch: half of JAX's time


@jax.jit
def _unit(x: Array) -> Array:
    x = x.astype(jnp.float64)
    x = jnp.where(jnp.isfinite(x).all(axis=-1, keepdims=True), x, jnp.nan)
    x = x / jnp.maximum(jnp.abs(x).max(axis=-1, keepdims=True), 1e-300)  # so that no square overflows
    return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-300)


def gram_distance(G: np.ndarray, H: np.ndarray) -> np.ndarray:
    """||G - H||_F / ||H||_F of cosines (..., n, n), one number for each leading index."""
    return np.asarray(np.linalg.norm(G - H, axis=(-2, -1)) / np.linalg.norm(H, axis=(-2, -1)))


def pairs(G: np.ndarray) -> np.ndarray:
    """The entries i < j, (..., n (n - 1) / 2)."""
    i, j = np.triu_indices(G.shape[-1], 1)
    return np.asarray(G[..., i, j])


def pair_distance(G: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Wasserstein-1 distance of the cosines of pairs i < j, one number for each leading index."""
    return np.asarray(np.abs(np.sort(pairs(G), axis=-1) - np.sort(pairs(H), axis=-1)).mean(axis=-1))


def distances(G: np.ndarray, H: np.ndarray) -> dict[str, np.ndarray]:
    """Both distances of cosines (..., texts, n, n) from H (texts, n, n), each (..., texts)."""
    return {"gram_distance": gram_distance(G, H), "wasserstein": pair_distance(G, H)}


def rand_index(G: np.ndarray, H: np.ndarray, threshold: float) -> np.ndarray:
    """Adjusted Rand index (..., texts) of the clusters that cosines above ``threshold`` link in G (..., texts, n, n)
    and in H (texts, n, n); nan where G is.
    """
    real = [cluster_labels(h, threshold) for h in H]
    found = [_rand_index(g, real[k % len(H)], threshold) for k, g in enumerate(G.reshape(-1, *G.shape[-2:]))]
    return np.reshape(found, G.shape[:-2])


def _rand_index(g: np.ndarray, real: np.ndarray, threshold: float) -> float:
    return adjusted_rand(cluster_labels(g, threshold), real) if np.isfinite(g).all() else float("nan")


# --- the averaging rule -------------------------------------------------------------------------------------------


def over_layers(values: "xarray.DataArray") -> "xarray.DataArray":
    """The mean over layers 1 to the last; layer 0, where every system starts, does not count, and nan stays nan."""
    return values.isel(layer=slice(1, None)).mean("layer", skipna=False)


def over_texts(values: "xarray.DataArray") -> "tuple[xarray.DataArray, xarray.DataArray]":
    """Mean and spread of what `over_layers` gives: every text weighs the same, the spread is a standard deviation.

    The standard deviation has the divisor T - 1 for T texts; for a single text it is nan.

    Examples
    --------
    >>> import xarray
    >>> values = xarray.DataArray([[9.0, 1.0, 3.0], [9.0, 3.0, 5.0]], dims=("text", "layer"))
    >>> [round(float(v), 3) for v in over_texts(values)]
    [3.0, 1.414]
    """
    each = over_layers(values) if "layer" in values.dims else values
    few = each.sizes["text"] < 2
    spread = each.isel(text=0) * np.nan if few else each.std("text", ddof=1, skipna=False)
    return each.mean("text", skipna=False), spread


def told_apart(differences: np.ndarray) -> int:
    """-1, 0 or 1: the sign of the mean of differences (texts,), 0 where it is within two standard errors of zero.

    One text has no standard error, and its sign counts; nan is told apart from nothing.

    >>> told_apart(np.array([0.1, 0.2, 0.3])), told_apart(np.array([-0.1, 0.2, 0.05])), told_apart(np.array([-0.5]))
    (1, 0, -1)
    """
    mean, count = float(np.mean(differences)), len(differences)
    error = float(np.std(differences, ddof=1)) / np.sqrt(count) if count > 1 else 0.0
    return int(np.sign(mean)) if np.isfinite(mean) and abs(mean) > 2.0 * error else 0


def rule(texts: int) -> str:
    """What `told_apart` does, as the rest of a sentence.

    >>> rule(8)
    'differences within two standard errors over the 8 texts count as none'
    """
    if texts == 1:
        return "with a single text there is no standard error, and every difference counts"
    return f"differences within two standard errors over the {texts} texts count as none"
