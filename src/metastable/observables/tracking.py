"""Clusters through time: which merged when, who keeps whose name, and how long each count lasted."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from metastable.errors import InputError
from metastable.observables.arrays import Ints
from metastable.observables.linkage import first_seen, graph_components


@dataclass(frozen=True)
class Event:
    """Clusters that met or parted between two saved times.

    ``kind`` is "merge" (several became one), "split" (one became several) or "regroup" (several became
    several others, tokens having changed sides). ``before`` and ``after`` hold persistent identities;
    ``index`` and ``time`` are those of the first save that shows the change.
    """

    kind: str
    index: int
    time: float
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True)
class Plateau:
    """A stretch of saves with one count of clusters, from ``start`` to the first save that shows another.

    The last plateau of a run is ``open``: it ends where the run does, so its duration is only a lower bound.
    Durations add up to the run's, and are known to within the interval between saves.
    """

    count: int
    start: float
    end: float
    open: bool

    @property
    def duration(self) -> float:
        """end - start."""
        return self.end - self.start


@dataclass(frozen=True, eq=False)
class Tracks:
    """``identities`` (T, n) for colours that persist; ``events`` and ``plateaus`` in order of time."""

    identities: Ints
    events: tuple[Event, ...]
    plateaus: tuple[Plateau, ...]


def track(labels: ArrayLike, t: ArrayLike) -> Tracks:
    """Follow the clusters of one run.

    A merged cluster keeps the identity of its largest parent, and the largest part of a split cluster keeps
    its identity; in a tie the smaller identity, then the part with the earlier token, wins. Identities are
    never reused.

    Parameters
    ----------
    labels : integer array (T, n)
        Cluster of every token at every saved time, as from `cluster_labels`.
    t : array (T,)
        The saved times, increasing.

    Examples
    --------
    >>> tracks = track([[0, 1, 2, 2], [0, 1, 2, 2], [0, 1, 1, 1]], [0.0, 1.0, 2.0])
    >>> tracks.identities[-1].tolist()
    [0, 2, 2, 2]
    >>> tracks.events
    (Event(kind='merge', index=2, time=2.0, before=(1, 2), after=(2,)),)
    >>> [(p.count, p.duration) for p in tracks.plateaus]
    [(3, 2.0), (2, 0.0)]
    """
    labels, times = _checked(labels, t)
    identities = persistent_identities(labels)
    events: list[Event] = []
    for k in range(1, len(times)):
        if not np.array_equal(labels[k], labels[k - 1]):
            events += _events(identities[k - 1], identities[k], k, float(times[k]))
    counts = [len(np.unique(row)) for row in labels]
    return Tracks(identities, tuple(events), plateaus(counts, times))


def persistent_identities(labels: Ints) -> Ints:
    """The identities (T, n) of `track` alone, for labels (T, n): several times quicker than with events."""
    identities = np.empty_like(labels)
    identities[0] = first_seen(labels[0])
    fresh = int(identities[0].max()) + 1
    for k in range(1, len(labels)):
        if np.array_equal(labels[k], labels[k - 1]):
            identities[k] = identities[k - 1]
        else:
            identities[k], fresh = _inherit(identities[k - 1], labels[k], fresh)
    return identities


def plateaus(counts: ArrayLike, t: ArrayLike) -> tuple[Plateau, ...]:
    """The plateaus of a count of clusters (T,) at times t (T,).

    >>> [(p.count, p.start, p.end, p.open) for p in plateaus([3, 3, 1], [0.0, 1.0, 2.0])]
    [(3, 0.0, 2.0, False), (1, 2.0, 2.0, True)]
    """
    counts, times = np.asarray(counts), np.asarray(t, dtype=np.float64)
    if counts.shape != times.shape or counts.ndim != 1 or not len(counts):
        raise InputError(f"counts and t must both be (T,) with T >= 1, not {counts.shape} and {times.shape}.")
    starts = np.flatnonzero(np.concatenate([[True], counts[1:] != counts[:-1]]))
    ends = np.append(starts[1:], len(counts) - 1)
    return tuple(
        Plateau(int(counts[s]), float(times[s]), float(times[e]), open=bool(s == starts[-1]))
        for s, e in zip(starts, ends)
    )


def _checked(labels: ArrayLike, t: ArrayLike) -> tuple[Ints, np.ndarray]:
    array, times = np.asarray(labels), np.asarray(t, dtype=np.float64)
    if array.ndim != 2 or 0 in array.shape or not np.issubdtype(array.dtype, np.integer):
        raise InputError(
            f"Tracking needs whole-number labels (T, n) of one run, not {array.dtype} {array.shape}; "
            "loop over the runs of an ensemble."
        )
    if times.shape != array.shape[:1]:
        raise InputError(f"Tracking needs one time per row of labels: {array.shape[0]} rows, times {times.shape}.")
    return array.astype(np.int64), times


def _inherit(before: Ints, labels: Ints, fresh: int) -> tuple[Ints, int]:
    """Identities (n,) for the new labels: pairs (old, new) with the largest overlap come first."""
    old, new = before.tolist(), labels.tolist()
    overlap = Counter(zip(old, new))
    first_token = {label: i for i, label in reversed(list(enumerate(new)))}
    name: dict[int, int] = {}
    taken: set[int] = set()
    for was, now in sorted(overlap, key=lambda pair: (-overlap[pair], pair[0], first_token[pair[1]])):
        if now not in name and was not in taken:
            name[now] = was
            taken.add(was)
    for now in sorted(set(first_token) - set(name), key=first_token.__getitem__):
        name[now] = fresh
        fresh += 1
    return np.array([name[label] for label in new], dtype=np.int64), fresh


def _events(before: Ints, after: Ints, index: int, time: float) -> list[Event]:
    """One event per connected group of old and new clusters that share tokens, when it is not one to one."""
    old, i = np.unique(before, return_inverse=True)
    new, j = np.unique(after, return_inverse=True)
    i, j = np.unique(np.stack([i.ravel(), j.ravel()]), axis=1)  # pairs that share tokens
    group = graph_components(i, len(old) + j, len(old) + len(new))
    sizes = (
        np.bincount(group[: len(old)]),
        np.bincount(group[len(old) :]),
    )  # every group has an old and a new member
    kinds = {(True, False): "merge", (False, True): "split", (True, True): "regroup"}
    found = []
    for g in np.flatnonzero((sizes[0] > 1) | (sizes[1] > 1)):
        olds, news = old[group[: len(old)] == g], new[group[len(old) :] == g]
        kind = kinds[len(olds) > 1, len(news) > 1]
        found.append(Event(kind, index, time, tuple(olds.tolist()), tuple(news.tolist())))
    return sorted(found, key=lambda event: event.before)
