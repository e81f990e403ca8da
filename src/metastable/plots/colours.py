"""Which colour each token has at each time, and how depth changes it."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import matplotlib
import numpy as np
from matplotlib.colors import is_color_like, to_rgb, to_rgba
from numpy.typing import ArrayLike, NDArray

from metastable.errors import InputError, unknown
from metastable.observables import track
from metastable.observables.clusters import cluster_labels, sizes_of
from metastable.plots.motion import Motion
from metastable.plots.style import PALETTE, PAPER, RED, SOFT

Floats = NDArray[np.float64]

Color: TypeAlias = str | ArrayLike | None  # a colouring or colour by name, labels, identities or values

COLOURINGS = ("cluster", "final", "token")
_MOST_LABELS = 300_000  # tokens times saves that are coloured by cluster without being asked for


def palette(count: int) -> Floats:
    """`count` colours (count, 4): the palette, then lighter and darker turns of it."""
    base = np.array([to_rgba(colour) for colour in PALETTE])
    turns = []
    for turn in range(-(-count // len(base))):
        weight = (0.0, 0.45, 0.35, 0.65)[turn % 4]
        toward = np.array([0.0, 0.0, 0.0, 1.0]) if turn % 4 == 2 else np.ones(4)
        turns.append((1 - weight) * base + weight * toward)
    return np.concatenate(turns)[:count] if turns else np.zeros((0, 4))


def identity_ranks(identity: ArrayLike) -> NDArray[np.int_]:
    """Ranks (T, n) of cluster identities (T, n) by the size they reach, largest first; -1 for a token alone.

    >>> identity_ranks([[0, 0, 1, 2], [0, 0, 0, 2]]).tolist()
    [[0, 0, -1, -1], [0, 0, 0, -1]]
    """
    ids = np.asarray(identity)
    names, inverse = np.unique(ids, return_inverse=True)
    inverse = inverse.reshape(ids.shape)  # (T, n)
    sizes = np.stack([np.bincount(row, minlength=len(names)) for row in inverse])  # (T, names)
    reached = np.where(names < 0, 0, sizes.max(axis=0))
    order = np.argsort(-reached, kind="stable")
    order = order[reached[order] > 1]
    ranks = np.full(len(names), -1)
    ranks[order] = np.arange(len(order))
    alone = np.take_along_axis(sizes, inverse, axis=1) == 1
    return np.where(alone, -1, ranks[inverse])


def identity_colours(identity: ArrayLike) -> Floats:
    """Colours (T, n, 4) of cluster identities (T, n) that persist through merges.

    Identities are ranked by the size they reach, so that the clusters that matter get the clearest colours, and an
    identity has one colour at all times. A token alone in its identity, or with identity -1, is grey.

    >>> colours = identity_colours([[0, 0, 1, 2], [0, 0, 0, 2]])
    >>> bool((colours[0, 0] == colours[1, 2]).all())
    True
    """
    ranks = identity_ranks(identity)
    return np.vstack([palette(int(ranks.max(initial=-1)) + 1), [to_rgba(SOFT)]])[ranks]  # rank -1 is the last row: grey


def token_colours(motion: Motion, color: Color = None, first: str | None = None) -> Floats:
    """Colours of every token at every saved time, (T, n, 4).

    Parameters
    ----------
    motion
        The run.
    color
        None (one colour for each cluster at the end, at all times, paler while a token is alone; plain where most
        tokens stay alone), "cluster" (identities tracked through merges), "final" (by the cluster a token ends in),
        "token" (by place in the sequence), a colour, labels (n,), identities (T, n), or real values (n,).
    first
        A colour for the first token, for example "red".
    """
    if color is None:
        colours = _gathering(motion) if _tells(motion) else np.array(to_rgba(PALETTE[0]))
    elif isinstance(color, str):
        colours = _named(motion, color)
    else:
        colours = _from_array(motion, np.asarray(color))
    full = np.broadcast_to(np.asarray(colours, dtype=float), (len(motion.t), motion.n, 4)).copy()
    if first is not None:
        full[:, 0] = to_rgba(first_colour(first))
    return full


def first_colour(first: str) -> str:
    """The first token's colour; "red" is the red of the package."""
    if not is_color_like(first):
        raise InputError(f"The first token's colour {first!r} is not a colour; try 'red'.")
    return RED if first == "red" else first


def _named(motion: Motion, color: str) -> NDArray[Any]:
    if color == "token":
        return matplotlib.colormaps["viridis"](np.linspace(0.0, 0.92, motion.n))  # (n, 4)
    if color == "cluster":
        return identity_colours(tracked_identity(motion))  # (T, n)
    if color == "final":
        return identity_colours(labels_of(motion, motion.x[-1:]))  # (1, n)
    if not is_color_like(color):
        raise unknown("colouring", color, COLOURINGS)
    return np.array(to_rgba(color))


def _from_array(motion: Motion, values: NDArray[Any]) -> Floats:
    n, saved = motion.n, int(motion.indices[-1]) + 1
    if values.shape == (n,) and values.dtype.kind == "f":
        low, high = np.nanmin(values), np.nanmax(values)
        return np.asarray(matplotlib.colormaps["viridis"]((values - low) / ((high - low) or 1.0)))
    if values.dtype.kind not in "iub":
        raise InputError(f"Colours are a name, whole-number labels or one real value per token, not {values.dtype}.")
    if values.shape == (n,):
        labels = np.unique(values[values >= 0]) if (values >= 0).any() else np.array([], dtype=int)
        table = np.vstack([palette(len(labels)), [to_rgba(SOFT)]])
        return table[np.where(values >= 0, np.searchsorted(labels, values), len(labels))]
    if values.ndim == 2 and values.shape[1] == n and len(values) >= saved:
        return identity_colours(values)[motion.indices]
    if values.shape == motion.x.shape[:2]:
        return identity_colours(values)
    raise InputError(
        f"Colour labels have shape {values.shape}; give ({n},) for fixed labels or (times, {n}) for identities."
    )


def tracked_identity(motion: Motion) -> NDArray[np.int_]:
    """Cluster identities (T, n) of a run, at the tolerance that its observables have: "cluster_identities"."""
    return track(labels_of(motion, motion.x), motion.t).identities


def labels_of(motion: Motion, x: Floats) -> NDArray[np.int_]:
    """Cluster labels (m, n) of states x (m, n, d) of a run, at the tolerance that its observables have."""
    return cluster_labels(x, motion.tolerance, "sphere" if motion.unit else "euclidean")


def _gathering(motion: Motion) -> Floats:
    """Colours (T, n, 4) of the clusters at the end, paler for a token that is still alone."""
    labels = labels_of(motion, motion.x)  # (T, n)
    alone = np.take_along_axis(sizes_of(labels), labels, axis=1) == 1
    return paler(np.broadcast_to(identity_colours(labels[-1:]), (*alone.shape, 4)), 0.5 * alone)


def _tells(motion: Motion) -> bool:
    """Whether colours by cluster say something, and can be had in no time: most tokens end in company."""
    if motion.n * len(motion.t) > _MOST_LABELS or motion.n < 2 or (motion.unit and not motion.x.any(axis=-1).all()):
        return False
    sizes = sizes_of(labels_of(motion, motion.x[-1:]))[0]
    return bool(sizes[sizes > 1].sum() >= motion.n / 2)


def clusters_in_words(motion: Motion, index: int = -1) -> str:
    """How many clusters there are at a saved time, with the tolerance that decides it.

    >>> import numpy as np
    >>> from metastable.plots.motion import read_motion
    >>> clusters_in_words(read_motion(np.eye(3)[[0, 0, 1]]))
    '2 clusters at 0.01 rad'
    """
    state = motion.x[index][None]
    count = int(labels_of(motion, state).max()) + 1
    return f"{count} cluster{'s' * (count != 1)} at {tolerance_in_words(motion)}"


def tolerance_in_words(motion: Motion) -> str:
    """How close tokens of one cluster are, with its unit."""
    return f"{motion.tolerance:.2g} {motion.unit}".rstrip()


def colour_legend(motion: Motion, color: Color, first: str | None) -> str:
    """What colours mean, for the line under a picture and for its caption; empty where there is nothing to say."""
    said = [f"{first}: first token"] if first is not None else []
    if isinstance(color, str) and color == "token":
        said.insert(0, "dark to light: first to last token")
    if color is None and _tells(motion):
        said.insert(0, f"colours: {clusters_in_words(motion)} at the end; pale or grey: alone")
    if isinstance(color, str) and color == "cluster":
        said.insert(0, f"colours: {clusters_in_words(motion)} at the end, kept through mergers; grey: alone")
    if isinstance(color, str) and color == "final":
        said.insert(0, f"colours: which of {clusters_in_words(motion)} a token ends in; grey: alone")
    return "; ".join(said)


def paler(colours: Floats, amount: Floats | float) -> Floats:
    """Colours (..., 4) moved towards the paper by `amount` (0 keeps them, 1 is paper)."""
    weight = np.asarray(amount, dtype=float)[..., None]
    out = np.array(colours, dtype=float, copy=True)
    out[..., :3] = (1 - weight) * out[..., :3] + weight * np.array(to_rgb(PAPER))
    return out


def cycle(count: int) -> Iterable[tuple[float, ...]]:
    """`count` line colours."""
    return [tuple(colour) for colour in palette(count)]
