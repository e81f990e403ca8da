"""The violation measure, its gradient, and the runs it is taken from."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from metastable.hunt.claims import CLAIMS, soft_codimension
from metastable.hunt.climbing import climb, heights
from metastable.hunt.instances import draw
from metastable.hunt.rules import Rules
from metastable.hunt.screening import screen
from metastable.hunt.separation import separation
from tests.hunt import planted

CODIMENSION, MULTI = CLAIMS["codimension"], CLAIMS["multi-head"]


def test_separation_bounds_the_distance_from_any_three_centres():
    rng = np.random.default_rng(0)
    for _ in range(20):
        w = rng.normal(size=(7, 2))
        r = float(separation(w))
        apart = np.linalg.norm(w[:, None] - w[None], axis=2)
        by_tokens = min(apart[:, list(c)].min(axis=1).max() for c in combinations(range(7), 3))
        assert r / 2 <= by_tokens <= r + 1e-12
    assert float(separation(np.repeat(w[:3], 4, axis=0))) < 1e-9


@pytest.mark.slow
def test_a_step_uphill_raises_the_settling_time_within_the_rules():
    rules = Rules(n=8, d=3, batch=8, elite=4)
    start = draw(rules, 8, 0)
    climbed, before, after = climb(CODIMENSION, start, rules, 2)
    assert (after >= before).all()
    assert (after > before + 1e-6).sum() >= 4
    assert np.allclose(heights(CODIMENSION, climbed), after)
    assert climbed.a[:, 1:].max() <= 1.0 - rules.gap
    assert np.abs(climbed.a).min() >= rules.floor
    assert np.array_equal(climbed.grows, climbed.a > 0)


@pytest.mark.slow
def test_the_gradient_is_that_of_the_settling_time():
    from metastable.backend import jax

    batch = draw(Rules(n=8, d=3), 1, 1)
    parts = [getattr(batch, k)[0] for k in ("a", "b", "partner", "G", "E", "z", "grows")]
    height = jax.jit(soft_codimension)
    slope = np.asarray(jax.jit(jax.grad(soft_codimension, argnums=5))(*parts))
    i, j = np.unravel_index(np.abs(slope).argmax(), slope.shape)
    h = 1e-6 * np.eye(8)[i][:, None] * np.eye(3)[j]
    up, down = (float(height(*parts[:5], parts[5] + s * h, parts[6])) for s in (1, -1))
    assert (up - down) / 2e-6 == pytest.approx(slope[i, j], rel=1e-4)


def test_the_ring_grows_at_the_rate_of_cyclic_pursuit():
    # exact: a regular polygon stays one, each token looks ANGLE back, and r' = Re(lambda e^{-i ANGLE}) r in x
    seen = screen(CODIMENSION, planted.ring(planted.polygon(4.0)), 8.0, 8, finer=2)
    rate = 0.6 * np.cos(planted.ANGLE) + planted.TURN * np.sin(planted.ANGLE) - 0.6
    grown = np.log(seen.separation[0, 4] / seen.separation[0, 2]) / 4.0
    assert grown == pytest.approx(rate, rel=1e-4)
    assert seen.open[0]


@pytest.mark.slow
def test_equal_heads_that_share_values_are_one_head():
    single = planted.plain()
    double = replace(single, G=np.repeat(single.G, 2, axis=1), E=np.zeros((1, 2, 3, 3)))
    seen = screen(MULTI, double, 16.0, 8)
    import metastable as ms

    dyn = ms.Dynamics(ms.Weights(np.eye(3), single.G[0, 0], single.L()[0]), geometry="euclidean")
    x = ms.simulate(dyn, single.z[0], t=16.0, method="tsit5", save=[16.0]).x[0]
    w = x / np.linalg.norm(x, axis=1).max()
    assert seen.separation[0, -1] == pytest.approx(float(separation(w)), abs=1e-6)
