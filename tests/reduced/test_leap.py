"""Plateaus against the quadrature of two collapsed clusters (ORACLES 3) and against plain integration."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

import metastable as ms
from metastable.errors import InputError
from metastable.reduced import coalesce, follow, leap


def lifetime(beta, start, end, m1, m2):
    """log of the time from angle start to angle end; e^{-beta (1 - cos)} is taken out at the start."""
    scale = beta * (math.cos(start) - 1.0)

    def slowness(phi):
        g = math.exp(beta * (math.cos(phi) - 1.0))
        rate = math.sin(phi) * (m2 / (m1 + m2 * g) + m1 / (m2 + m1 * g))
        return math.exp(scale - beta * (math.cos(phi) - 1.0)) / rate

    cuts = np.unique(np.concatenate([np.geomspace(end, start, 40), np.linspace(end, start, 40)]))
    total = sum(quad(slowness, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in pairwise(cuts))
    return math.log(total) - scale


def pair(angle, d=3):
    x = np.zeros((2, d))
    x[0, 0], x[1, 0], x[1, 1] = 1.0, math.cos(angle), math.sin(angle)
    return x


@pytest.mark.parametrize("beta", [9.0, 16.0, 25.0])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 10)])
def test_two_clusters_live_as_long_as_the_oracle_says(beta, sizes):
    for angle in (1.0, 2.0, 3.0):
        run = leap(ms.Dynamics(beta=beta), pair(angle), np.array(sizes))
        assert run.counts.tolist() == [2, 1]
        assert abs(run.log_t[0] - lifetime(beta, angle, 1e-4, *sizes)) < 1e-6


def test_lifetimes_beyond_the_range_of_floats():
    run = leap(ms.Dynamics(beta=500.0), pair(3.0), np.ones(2))
    assert run.t[0] == np.inf
    assert abs(run.log_t[0] - lifetime(500.0, 3.0, 1e-4, 1, 1)) < 1e-6


def test_saved_states_are_those_of_the_oracle():
    beta, life = 9.0, math.exp(lifetime(9.0, 2.0, 1e-4, 1, 1))
    angle = 1.2
    time = math.exp(lifetime(beta, 2.0, angle, 1, 1))
    run = leap(ms.Dynamics(beta=beta), pair(2.0), np.ones(2), save=[0.0, time, 10 * life])
    apart = [math.acos(np.clip(x[0] @ x[1], -1, 1)) for x in run.saved]
    assert abs(apart[0] - 2.0) < 1e-12
    assert abs(apart[1] - angle) < 1e-7
    assert apart[2] == 0


def plain(dyn, x, times):
    """Small fixed steps of RK4."""
    return coalesce(dyn, x, times[-1], dt=0.02, save=times, tolerance=0.0).x


def test_it_agrees_with_plain_integration():
    x, w = ms.initial.sphere(5, 3, seed=4), np.array([1.0, 2.0, 3.0, 2.0, 1.0])
    dyn = ms.Dynamics(beta=3.0)
    everyone = np.repeat(x, w.astype(int), axis=0)
    run = leap(dyn, x, w, t=4.0, save=[1.0, 4.0])
    assert np.abs(np.repeat(run.saved, w.astype(int), axis=1) - plain(dyn, everyone, [1.0, 4.0])).max() < 1e-7
    assert run.status == "done"


@pytest.mark.slow
def test_unnormalised_attention_and_several_heads():
    heads = ms.Weights(V=np.stack([np.eye(2), 0.5 * np.eye(2)]))
    for parts in ({"normalise": "unnormalised", "beta": 1.0}, {"weights": heads, "beta": 4.0}):
        dyn, x = ms.Dynamics(**parts), ms.initial.sphere(3, 2, seed=3)
        assert np.abs(leap(dyn, x, np.ones(3), t=2.0, save=[2.0]).saved - plain(dyn, x, [2.0])).max() < 1e-7


def test_another_value_map_runs_in_plain_time():
    dyn, x = ms.Dynamics(ms.Weights(V=np.diag([1.0, 0.5, 0.2])), beta=2.0), ms.initial.sphere(4, 3, seed=3)
    assert np.abs(leap(dyn, x, np.ones(4), t=3.0, save=[3.0]).saved - plain(dyn, x, [3.0])).max() < 1e-7


def test_opposite_clusters_are_balanced():
    run = leap(ms.Dynamics(beta=4.0), pair(math.pi), np.ones(2))
    assert run.status in ("balanced", "merged")  # sin(pi) is 1e-16, not 0: the sum may tip over after a long time
    x = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert leap(ms.Dynamics(beta=4.0), x, np.ones(2)).status == "balanced"


def test_mergers_of_many_clusters_are_told_in_order():
    run = leap(ms.Dynamics(beta=16.0), ms.initial.sphere(6, 3, seed=0), np.arange(1.0, 7.0))
    assert run.counts[0] == 6
    assert run.counts[-1] == 1
    assert np.all(np.diff(run.log_t) > 0)
    for label, w in zip(run.labels, run.weights):
        assert np.bincount(label, np.arange(1.0, 7.0)).tolist() == w.tolist()


def test_follow_joins_coalescence_and_leap():
    dyn, x0 = ms.Dynamics(beta=9.0), ms.initial.sphere(60, 3, seed=0)
    run = follow(dyn, x0, settle=20.0)
    assert (run.status, run.counts[-1]) == ("merged", 1)
    early = run.t[run.t < 60.0]
    counted = coalesce(dyn, x0, 60.0, save=[60.0], tolerance=1e-4).counts[-1]
    assert counted == run.counts[len(early)]


def test_bad_input_is_refused():
    dyn, x = ms.Dynamics(), np.eye(3)
    for change in ({"weights": np.ones(2)}, {"weights": np.zeros(3)}, {"merge": 0.0}, {"t": -1.0}):
        with pytest.raises(InputError, match="leap needs"):
            leap(dyn, x, **({"weights": np.ones(3)} | change))
    with pytest.raises(InputError, match="full attention"):
        leap(ms.Dynamics(mask="causal"), x, np.ones(3))
