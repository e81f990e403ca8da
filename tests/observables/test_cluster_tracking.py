"""Merges, splits, persistent names and plateaus."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastable.errors import InputError
from metastable.observables import Event, Plateau, cluster_labels, plateaus, track


def test_the_merged_cluster_keeps_the_name_of_its_largest_parent():
    tracks = track([[0, 1, 2, 2, 2], [0, 1, 1, 1, 1], [0, 0, 0, 0, 0]], [0.0, 2.0, 5.0])
    assert tracks.identities.tolist() == [[0, 1, 2, 2, 2], [0, 2, 2, 2, 2], [2, 2, 2, 2, 2]]
    assert tracks.events == (Event("merge", 1, 2.0, (1, 2), (2,)), Event("merge", 2, 5.0, (0, 2), (2,)))


def test_a_tie_goes_to_the_smaller_name():
    assert track([[0, 1], [0, 0]], [0, 1]).identities[-1].tolist() == [0, 0]


def test_a_split_names_the_smaller_part_anew_and_never_reuses_a_name():
    tracks = track([[0, 0, 0, 1], [0, 1, 1, 2], [0, 0, 0, 1], [0, 1, 1, 2]], [0, 1, 2, 3])
    assert tracks.identities.tolist() == [[0, 0, 0, 1], [2, 0, 0, 1], [0, 0, 0, 1], [3, 0, 0, 1]]
    assert [event.kind for event in tracks.events] == ["split", "merge", "split"]
    assert tracks.events[0] == Event("split", 1, 1.0, (0,), (0, 2))
    assert tracks.events[2].after == (0, 3)


def test_tokens_that_change_sides_are_a_regroup():
    tracks = track([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1]], [0, 1])
    assert tracks.identities[-1].tolist() == [0, 0, 1, 1, 1]
    assert tracks.events == (Event("regroup", 1, 1.0, (0, 1), (0, 1)),)


def test_two_merges_at_once_are_two_events():
    tracks = track([[0, 1, 2, 3], [0, 0, 1, 1]], [0, 1])
    assert tracks.events == (Event("merge", 1, 1.0, (0, 1), (0,)), Event("merge", 1, 1.0, (2, 3), (2,)))


def test_only_the_partition_counts_not_the_numbers():
    a, b = track([[0, 1, 1], [0, 0, 0]], [0, 1]), track([[5, 2, 2], [9, 9, 9]], [0, 1])
    assert np.array_equal(a.identities, b.identities)
    assert a.events == b.events


def test_plateaus_partition_the_run():
    table = plateaus([5, 5, 3, 3, 3, 1, 3], [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 7.0])
    assert table == (
        Plateau(5, 0.0, 2.0, False),
        Plateau(3, 2.0, 6.0, False),
        Plateau(1, 6.0, 7.0, False),
        Plateau(3, 7.0, 7.0, True),
    )
    assert [p.duration for p in table] == [2.0, 4.0, 1.0, 0.0]
    assert plateaus([4], [0.0]) == (Plateau(4, 0.0, 0.0, True),)


@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(1, 6))
def test_invariants_on_random_partitions(seed, n, T):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n, (T, n))
    tracks = track(labels, np.arange(T))
    for k in range(T):
        same = labels[k][:, None] == labels[k]
        assert np.array_equal(tracks.identities[k][:, None] == tracks.identities[k], same)
    changed = {k for k in range(1, T) if not _same_partition(labels[k - 1], labels[k])}
    assert {event.index for event in tracks.events} == changed
    for event in tracks.events:
        assert set(event.before) <= set(tracks.identities[event.index - 1].tolist())
        assert set(event.after) <= set(tracks.identities[event.index].tolist())
        sizes = len(event.before) > 1, len(event.after) > 1
        assert event.kind == {(True, False): "merge", (False, True): "split", (True, True): "regroup"}[sizes]
    assert sum(p.duration for p in tracks.plateaus) == T - 1
    dead = set()
    for before, after in zip(tracks.identities, tracks.identities[1:]):
        dead |= set(before.tolist()) - set(after.tolist())
        assert not dead & set(after.tolist())


def _same_partition(a, b):
    return np.array_equal(a[:, None] == a, b[:, None] == b)


def test_tokens_moving_on_the_circle():
    """Three tokens at 0, 1 and 2.5 rad; the second walks to the first, then both to the third."""
    t = np.linspace(0, 1, 11)
    second = np.where(t < 0.5, 1 - 2 * t, 5 * (t - 0.5))
    first = np.where(t < 0.5, 0, 5 * (t - 0.5))
    angles = np.stack([first, second, np.full(11, 2.5)], axis=-1)
    x = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    tracks = track(cluster_labels(x), t)
    assert [(p.count, p.start) for p in tracks.plateaus] == [(3, 0.0), (2, 0.5), (1, 1.0)]
    assert [(e.before, e.after) for e in tracks.events] == [((0, 1), (0,)), ((0, 2), (0,))]


def test_many_clusters_at_once():
    labels = np.stack([np.arange(20_000), np.arange(20_000) // 2])
    tracks = track(labels, [0, 1])
    assert len(tracks.events) == 10_000
    assert tracks.identities[1, :4].tolist() == [0, 0, 2, 2]


@pytest.mark.parametrize(
    ("labels", "t"), [([0, 1], [0.0]), ([[0.5]], [0.0]), (np.zeros((2, 3, 4), int), [0, 1]), ([[0, 1]], [0.0, 1.0])]
)
def test_bad_input_gets_a_sentence(labels, t):
    with pytest.raises(InputError, match="Tracking needs"):
        track(labels, t)


def test_bad_plateaus_get_a_sentence():
    with pytest.raises(InputError, match="counts and t"):
        plateaus([], [])
