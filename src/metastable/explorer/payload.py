"""A run as bytes for the player: what it shows, computed once, so that playing needs no server.

    magic "MSP1" | length of the header (uint32) | header (JSON) | arrays, each at a multiple of 4

The header names every array with its type, shape and place (``assets/decode.js`` reads it).
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metastable.backend import jax
from metastable.equation.dynamics import Dynamics
from metastable.equation.geometry import SPHERE
from metastable.explorer.scene_layout import Layout, layout
from metastable.observables.tracking import persistent_identities
from metastable.plots.colours import identity_ranks, labels_of
from metastable.plots.motion import Motion, read_motion
from metastable.trajectory import Trajectory

MAGIC = b"MSP1"
MOST_STATES = 601  # saved states that are sent
MOST_BYTES = 48 * 2**20  # of token coordinates
ATTENTION_BYTES = 3 * 2**20
ATTENTION_STATES = 40  # where every matrix must be computed on its own
LINKED = 400_000  # tokens x states among which clusters are searched
TYPES = {"f4": np.float32, "u1": np.uint8, "i4": np.int32, "u2": np.uint16}


def pack(
    run: Trajectory,
    *,
    of: int = 0,
    names: Sequence[str] | None = None,
    title: str = "",
    limit: NDArray[np.float64] | None = None,
    extra: Mapping[str, Any] | None = None,
    brief: bool = False,
) -> bytes:
    """A run as bytes for the player.

    Parameters
    ----------
    run : Trajectory
    of : int
        Which run of an ensemble.
    names : sequence of str, optional
        What the tokens are called.
    title : str
        A line above the scene; made from the run when empty.
    limit : array (m, 2, d), optional
        Segments of the predicted limit set, in the tokens' own coordinates.
    extra : mapping
        More arrays and plain values to send along; ``colour`` and ``first`` set how the player begins.
    brief : bool
        Tokens alone, without clusters and attention: several times quicker, for a first picture while one steers.
    """
    motion = _thinned(read_motion(run, run=of))
    scene = layout(motion)
    arrays: dict[str, tuple[str, Any]] = {"t": ("f4", motion.t), "tokens": ("f4", scene.tokens)}
    if scene.fit is not None:
        arrays["fit"] = ("f4", scene.fit)
    if limit is not None and len(limit):
        arrays["limit"] = ("f4", scene.place(np.asarray(limit, dtype=float)).reshape(-1, 6))
    header = _header(run, motion, scene, title or describe(run, motion)) | {"brief": brief}
    if names is not None:
        header["names"] = [str(name) for name in names]
    if not brief:
        ranks, counts = _clusters(motion)
        arrays["cluster"] = ("u1", np.where((ranks >= 0) & (ranks < 255), ranks, 255))
        arrays["clusters"] = ("i4", counts)
        _add_attention(run, motion, of, header, arrays)
    for name, value in (extra or {}).items():
        if isinstance(value, np.ndarray):
            arrays[name] = ("f4", value)
        else:
            header[name] = value
    return encode(header, arrays)


def _add_attention(
    run: Trajectory, motion: Motion, of: int, header: dict[str, Any], arrays: dict[str, tuple[str, Any]]
) -> None:
    """Attention, and what every token receives of it, in 255 parts of the largest value."""
    found = attention_states(run, motion, of)
    if found is None:
        return
    states, maps = found  # (F,), (F, h, n, n)
    top = float(maps.max(initial=0.0)) or 1.0
    received = maps.mean(axis=(1, 2))  # (F, n)
    arrays["attention"] = ("u1", np.rint(255 * maps / top))
    arrays["received"] = ("u1", np.rint(255 * received / (received.max(initial=0.0) or 1.0)))
    arrays["attentionAt"] = ("i4", np.abs(motion.indices[:, None] - states[None]).argmin(axis=1))
    header["attentionTop"] = top


def encode(header: Mapping[str, Any], arrays: Mapping[str, tuple[str, Any]]) -> bytes:
    """Header and arrays as bytes; numbers that are not finite become null in the header."""
    blocks, places, at = [], {}, 0
    for name, (kind, values) in arrays.items():
        block = np.ascontiguousarray(values, dtype=TYPES[kind])
        places[name] = {"type": kind, "shape": list(block.shape), "at": at}
        raw = block.tobytes()
        raw += b"\0" * (-len(raw) % 4)
        blocks.append(raw)
        at += len(raw)
    text = json.dumps(_plain({**header, "arrays": places}), allow_nan=False, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([MAGIC, struct.pack("<I", len(text)), text, *blocks])


def describe(run: Trajectory, motion: Motion) -> str:
    """A run in one line."""
    said = [f"n = {motion.n}", f"d = {motion.d}"]
    if run.dynamics is not None:
        beta = np.ravel(np.asarray(run.dynamics.beta))
        said += [f"β = {float(beta[0]):g}"] if beta.size == 1 else []
        said += [str(part) for part in (run.dynamics.mask.name, run.dynamics.normalise.name) if part]
        said += [] if run.dynamics.score.is_dot else [str(run.dynamics.score.name)]
        said += [] if run.dynamics.geometry == SPHERE else [str(run.dynamics.geometry.name)]
    return ", ".join([*said, *filter(None, [motion.note])])


def _header(run: Trajectory, motion: Motion, scene: Layout, title: str) -> dict[str, Any]:
    causal = False
    if run.dynamics is not None and run.dynamics.mask.by_time is None and motion.n > 1:
        seen = run.dynamics.mask.rows(np.arange(2), motion.n)
        causal = seen is not None and not bool(np.asarray(seen)[0, 1])
    return {
        "n": motion.n,
        "d": motion.d,
        "T": len(motion.t),
        "kind": scene.kind,
        "flat": scene.flat,
        "unit": scene.unit,
        "grows": scene.grows,
        "origin": scene.place(np.zeros(motion.d)).tolist(),
        "axes": {"centre": scene.origin.tolist(), "half": scene.half, "labels": list(scene.labels)},
        "view": list(scene.view),
        "clock": motion.clock,
        "letter": motion.letter,
        "causal": causal,
        "title": title,
        "status": run.status,
        "message": run.message,
        "valid_until": motion.valid_until,
        "heads": _heads(run),
    }


def _thinned(motion: Motion) -> Motion:
    """At most so many saved states, evenly, the last one among them."""
    most = max(2, min(MOST_STATES, MOST_BYTES // (12 * motion.n)))
    if len(motion.t) <= most:
        return motion
    kept = np.unique(np.linspace(0, len(motion.t) - 1, most).round().astype(int))
    return replace(motion, t=motion.t[kept], x=motion.x[kept], indices=motion.indices[kept])


def _clusters(motion: Motion) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Ranks (T, n) of the clusters that the eye sees, persistent through mergers, and their number (T,)."""
    states = max(2, min(len(motion.t), LINKED // motion.n))
    kept = np.unique(np.linspace(0, len(motion.t) - 1, states).round().astype(int))
    labels = labels_of(motion, motion.x[kept])  # (F, n)
    at = np.searchsorted(kept, np.arange(len(motion.t)), side="right") - 1
    return identity_ranks(persistent_identities(labels))[at], np.asarray((labels.max(axis=1) + 1)[at])


@jax.jit
def _attention(dynamics: Dynamics, t: Any, x: Any) -> Any:
    return jax.vmap(lambda when, tokens: dynamics.attention(when, tokens))(t, x)


def attention_states(run: Trajectory, motion: Motion, of: int = 0) -> tuple[Any, NDArray[np.float64]] | None:
    """Saved states (F,) and the attention there (F, h, n, n), as many as fit; None where there is no attention."""
    if run.dynamics is None and run.kept_attention is None:
        return None
    heads = _heads(run)
    most = ATTENTION_BYTES // max(1, heads * motion.n**2)
    quick = run.kept_attention is None and run.chart is None and not run.runs
    if not quick:
        most = min(most, ATTENTION_STATES)
    if most < 1:
        return None
    kept = np.unique(np.linspace(0, len(motion.t) - 1, min(len(motion.t), most)).round().astype(int))
    states = motion.indices[kept]
    if quick:
        maps = np.asarray(_attention(run.dynamics, run.t[states], run.x[states]))
    else:
        whole = [np.asarray(run.attention(int(k))) for k in states]
        maps = np.stack([one.reshape(-1, *one.shape[-3:])[of if run.runs else 0] for one in whole])
    return states, maps


def _heads(run: Trajectory) -> int:
    if run.kept_attention is not None:
        return int(run.kept_attention.shape[-3])
    return int(run.dynamics.weights.heads) if run.dynamics is not None else 1


def _plain(data: Any) -> Any:
    """NumPy numbers as Python's, what is not finite as None, all the way down."""
    if isinstance(data, Mapping):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(value) for value in data]
    if isinstance(data, np.generic):
        return _plain(data.item())
    if isinstance(data, float):
        return data if np.isfinite(data) else None
    return data
