"""The tokens of one text as points in space, state by state: what the film and the player of a study show.

Tokens are taken by their directions, raw and beside the mean direction of the text (as in
``metastable.models.layer_similarity``), and projected to the three leading principal directions of all states shown,
raw and centred each with directions of its own: the same for all states, so that a point moves only because its token
does. The film shows the first two: there a point lies in the unit disc, and on its rim the whole direction is seen.
"""

from typing import TYPE_CHECKING

import numpy as np

from metastable.models.depth_axis import some_layers
from metastable.models.layer_similarity import KINDS, beside_mean, unit_tokens
from metastable.models.model import Given, Model

if TYPE_CHECKING:
    import xarray

STATES, TOKENS = 49, 192  # at most so many states and tokens are shown


def token_cloud(model: Model, given: Given, layers: int) -> "xarray.Dataset":
    """Places of a text's tokens along three principal directions.

    The dataset holds ``place`` (kind, layer, token, axis), nan for a token that has no direction of that kind, and
    ``seen`` (kind, layer): the mean over tokens of the squared length of what the first two axes show of a unit token,
    and ``seen_in_space``, of what all three do. The coordinate
    "layer" counts states, "word" names the tokens.

    Examples
    --------
    >>> from metastable.models import load
    >>> model = load("reactions-albert")  # doctest: +SKIP
    >>> token_cloud(model, [1, 2, 3], 12)["place"].shape  # doctest: +SKIP
    (2, 13, 3, 3)
    """
    import xarray

    states = some_layers(0, layers, model.depth, STATES)
    units: dict[str, list[np.ndarray]] = {kind: [] for kind in KINDS}
    eps = 2.0**-23

    def see(layer: int, x: np.ndarray) -> None:
        if layer in states:
            u, there = unit_tokens(x)
            v, beside = beside_mean(u, eps)
            units["raw"].append(_filled(u, there))
            both = there.copy()
            both[there] = beside
            units["centred"].append(_filled(v, both))

    if isinstance(given, (list, tuple)):  # token ids; pictures and given states stay whole
        given = list(given[:TOKENS])
    model.watch(given, layers, see, lambda layer, A: None)
    place = np.stack([_projected(np.stack(units[kind])) for kind in KINDS])  # (kind, state, token, 3)
    words = model.words(given, place.shape[2])
    each = ("kind", "layer")
    variables = {
        "place": ((*each, "token", "axis"), place),
        "seen": (each, _seen(place[..., :2])),
        "seen_in_space": (each, _seen(place)),
    }
    return xarray.Dataset(variables, {"kind": list(KINDS), "layer": states, "word": ("token", words)})


def _seen(place: np.ndarray) -> np.ndarray:
    """The mean over tokens of the squared length of their places (..., token, axis)."""
    squares = (place**2).sum(axis=-1)
    return np.asarray(np.nansum(squares, axis=-1) / np.maximum(np.isfinite(squares).sum(axis=-1), 1))


def _filled(u: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Directions (n, d) in float32, nan for the tokens that have none."""
    found = np.full((len(there), u.shape[1]), np.nan, dtype=np.float32)
    found[there] = u
    return found


def _projected(units: np.ndarray) -> np.ndarray:
    """Unit tokens (states, n, d) along their three leading principal directions, (states, n, 3)."""
    rows = units.reshape(-1, units.shape[-1])
    rows = rows[np.isfinite(rows).all(axis=1)].astype(np.float64)
    if len(rows) == 0:
        return np.full((*units.shape[:2], 3), np.nan)
    axes = np.linalg.eigh(np.einsum("ij,ik->jk", rows, rows))[1][:, :-4:-1]  # (d, 3), leading first
    axes = axes * np.where((rows @ axes).sum(axis=0) < 0, -1.0, 1.0)  # most tokens to the right and up
    axes = np.pad(axes, ((0, 0), (0, 3 - axes.shape[1])))
    return np.asarray(np.einsum("snd,dk->snk", units.astype(np.float64), axes))
