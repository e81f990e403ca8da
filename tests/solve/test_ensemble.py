"""A run in an ensemble and the same run alone agree to 1e-12."""

import numpy as np
import pytest

import metastable as ms

SLOW = [pytest.param(geometry, "tsit5", marks=pytest.mark.slow) for geometry in ("sphere", "rescaled")]


@pytest.mark.parametrize(("geometry", "method"), [("sphere", "rk4"), ("rescaled", "rk4"), *SLOW])
def test_members_equal_runs_alone(method, geometry, monkeypatch):
    from metastable.engines import dense

    monkeypatch.setattr(dense, "_MOST_ENTRIES", 2 * 36)  # chunks of two or four members
    members = [
        ms.Dynamics(ms.Weights(V=ms.weights.perron(3, seed)), beta=0.5 + seed, geometry=geometry, mask="causal")
        for seed in range(5)
    ]
    x0 = ms.initial.sphere(6, 3, seed=1, runs=5)
    runs = ms.simulate(members, x0, t=3.0, save=[0.0, 1.0, 2.95, 3.0], method=method, rtol=1e-9)
    for k, run in enumerate(runs):
        alone = ms.simulate(members[k], x0[k], t=3.0, save=[0.0, 1.0, 2.95, 3.0], method=method, rtol=1e-9)
        # adaptive rescaled members share the lengths of their segments, so they agree to the tolerance only
        tolerance = 1e-12 if method == "rk4" or geometry == "sphere" else 1e-7
        assert np.abs(run.x - alone.x).max() < tolerance * max(1.0, np.abs(alone.x).max())
        assert np.abs(run.attention(-1) - alone.attention(-1)).max() < max(1e-10, 10 * tolerance)
        assert run.dynamics is members[k]


def test_mixed_structures_are_refused():
    with pytest.raises(ms.InputError, match="same parts"):
        ms.simulate([ms.Dynamics(), ms.Dynamics(mask="causal")], ms.initial.sphere(4, 3, runs=2))
    with pytest.raises(ms.InputError, match="need tokens"):
        ms.simulate([ms.Dynamics()], ms.initial.sphere(4, 3))
