"""Every observable of a run: named axes, equal to its array function time by time and run by run."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from metastable import observables as obs
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.errors import InputError
from metastable.observables import OBSERVABLES, observe
from metastable.trajectory import Trajectory

T, RUNS, N, D, HEADS = 4, (2, 3), 6, 3, 2
rng = np.random.default_rng(0)
W = Weights(*(rng.normal(size=(3, HEADS, D, D)) / 2))


@dataclass
class StandIn:
    """The least a run must offer."""

    t: np.ndarray
    x: np.ndarray
    dynamics: Any
    kept: Any = None
    missing = ()
    moved_by = Trajectory.moved_by

    def attention(self, k):
        return (
            self.kept[k] if self.dynamics is None else np.asarray(self.dynamics.attention(float(self.t[k]), self.x[k]))
        )


def cloud(*shape):
    x = np.random.default_rng(1).normal(size=shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def a_run(runs=RUNS, kind=StandIn, **parts):
    parts = {"weights": W, "beta": 1.5, "mask": "causal", **parts}
    return kind(np.linspace(0, 1, T), cloud(T, *runs, N, D), Dynamics(**parts))


OWN = {"token": N, "head": HEADS, "cluster": N, "bin": 100, "direction": D}


@pytest.mark.parametrize("runs", [(), RUNS])
@pytest.mark.parametrize("name", OBSERVABLES)
@pytest.mark.parametrize("kind", [StandIn, Trajectory])
def test_axes_are_named_and_runs_are_independent(name, runs, kind):
    run = a_run(runs, kind)
    found = observe(run, name)
    entry = OBSERVABLES[name]
    assert found.name == entry.name == name
    assert found.dims == ("time", *(f"run{k}" for k in range(len(runs))), *entry.dims)
    assert found.shape == (T, *runs, *(OWN[dim] for dim in entry.dims))
    assert np.array_equal(found["time"], run.t)
    for index in np.ndindex(runs):
        one = kind(run.t, run.x[(slice(None), *index)], run.dynamics)
        tolerance = (
            {"tolerance": 0.1} if name == "hyperplane_counts" else {}
        )  # the default follows the ensemble's scale
        alone, within = observe(one, name, **tolerance), observe(run, name, **tolerance)
        assert np.allclose(alone, within[(slice(None), *index)], rtol=1e-10, atol=1e-12)


def test_values_are_those_of_the_array_functions():
    run = a_run()
    P = np.stack([run.attention(k) for k in range(T)])
    A, V = run.dynamics.weights.score_map(), run.dynamics.weights.value_map()
    causal = np.tri(N, dtype=bool)
    expected = {
        "clusters": obs.cluster_count(run.x, 0.01),
        "energy": obs.interaction_energy(run.x, 1.5, A),
        "log_energy": obs.log_energy(run.x, 1.5, A),
        "rank": obs.rank(P),
        "effective_rank": obs.effective_rank(P),
        "boolean_distance": obs.boolean_distance(P),
        "leaders": obs.is_leader(P),
        "sinks": obs.sink_mass(P, causal),
        "similarity": obs.similarity_histogram(run.x)[0],
        "order": obs.order_parameter(run.x),
        "hull": obs.hull_count(run.x),
        "hull_growth": obs.hull_growth(run.x),
        "hyperplanes": obs.projections(run.x, V[0]),
    }
    for name, values in expected.items():
        assert np.allclose(observe(run, name), values, rtol=1e-12), name
    assert np.allclose(observe(run, "hyperplanes", head=1), obs.projections(run.x, V[1]))
    assert np.allclose(observe(run, "sinks")["baseline"], obs.sink_baseline(N, causal))
    assert np.allclose(observe(run, "sinks_baseline")[2, 1, 2], obs.sink_baseline(N, causal))
    centers = observe(run, "similarity", bins=4)["bin"]
    assert np.allclose(centers, [-0.75, -0.25, 0.25, 0.75])
    assert observe(run, "hyperplanes")["eigenvalue"].shape == (D,)


def test_the_energy_rate_is_the_slope_along_the_flow():
    """With V = Q^T K = I and full attention it is also the dissipation of ORACLES 4."""
    run = a_run(weights=Weights(), mask="full", beta=3.0)
    v = np.stack([np.asarray(run.dynamics.velocity(t, x)) for t, x in zip(run.t, run.x)])
    rate = observe(run, "energy_rate")
    assert np.allclose(rate, obs.dissipation(run.x, v, 3.0), rtol=1e-11)
    step = 1e-6
    ahead, back = (obs.interaction_energy(run.x + s * v, 3.0) for s in (step, -step))
    assert np.allclose(rate, (ahead - back) / (2 * step), rtol=1e-6)


def test_one_beta_per_run_and_weights_that_change():
    beta = np.array([[0.5, 1.0, 2.0], [3.0, 4.0, 5.0]])
    run = a_run(weights=Weights(Q=lambda t: (1 + t) * np.eye(D)[None]), beta=beta)
    energy = observe(run, "energy")
    form = (1 + run.t[2]) * np.eye(D)
    assert np.isclose(energy[2, 1, 0], obs.interaction_energy(run.x[2, 1, 0], 3.0, form))


def test_the_default_tolerance_follows_the_cloud_in_flat_space():
    x = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.004]])
    for scale in (1e-6, 1.0, 1e6):
        run = StandIn(np.zeros(1), scale * x[None], Dynamics(Weights(), geometry="euclidean"))
        assert observe(run, "clusters").item() == 2
        assert observe(run, "clusters", tolerance=scale * 1e-3).item() == 3
        assert observe(run, "hyperplane_counts").values.tolist() == [[2, 1]]
    collapsed = StandIn(np.zeros(1), np.ones((1, 3, 2)), Dynamics(Weights(), geometry="euclidean"))
    assert observe(collapsed, "clusters").item() == 1
    assert observe(run, "clusters", tolerance=0.0).item() == 3


def test_identities_persist():
    angles = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    run = StandIn(np.arange(3.0), np.stack([np.cos(angles), np.sin(angles)], axis=-1), Dynamics(Weights()))
    assert observe(run, "cluster_identities").values.tolist() == [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    assert observe(run, "cluster_sizes").values.tolist() == [[1, 2, 0], [2, 1, 0], [3, 0, 0]]


def test_window_masks_have_their_own_baseline():
    run = a_run(mask="window(1)")
    seen = np.abs(np.subtract.outer(np.arange(N), np.arange(N))) <= 1
    assert np.allclose(observe(run, "sinks")["baseline"], obs.sink_baseline(N, seen))


@pytest.mark.parametrize("causal", [True, False])
def test_tokens_of_a_model(causal):
    seen = np.tri(N, dtype=bool) if causal else np.ones((N, N), dtype=bool)
    P = np.where(seen, np.random.default_rng(3).uniform(0.1, 1, (T, HEADS, N, N)), 0.0)
    run = StandIn(np.arange(T), 40 * cloud(T, N, D), None, kept=P / P.sum(-1, keepdims=True))
    assert np.allclose(observe(run, "sinks")["baseline"], obs.sink_baseline(N, seen))
    assert np.array_equal(observe(run, "clusters"), obs.cluster_count(run.x))
    for name in ("rank", "leaders", "similarity", "order", "hull", "cluster_sizes"):
        assert observe(run, name).shape[0] == T
    for name in ("energy", "energy_rate", "hyperplanes"):
        with pytest.raises(InputError, match="without dynamics"):
            observe(run, name)


def test_a_run_with_a_chart_is_projected_from_it():
    """At late times z holds only the growing coordinates; the others must come from the chart."""
    values = np.array([1.0, -1.0, 0.5 + 2j, 0.5 - 2j])
    S = np.random.default_rng(4).normal(size=(4, 4))
    block = np.array([[1.0, 0, 0, 0], [0, -1.0, 0, 0], [0, 0, 0.5, -2.0], [0, 0, 2.0, 0.5]])
    V = S @ block @ np.linalg.inv(S)
    zeta = np.random.default_rng(5).normal(size=(3, 8, 4))
    zeta[1:, :, 1] *= [[1e13], [1e40]]  # e^{-t lambda} with lambda = -1

    class Charted(StandIn):
        chart = True

        def coordinates(self):
            return zeta, values, np.linalg.inv(S)

    run = Charted(np.array([0.0, 30.0, 92.0]), zeta @ S.T, Dynamics(Weights(V=V), geometry="rescaled"))
    found = observe(run, "hyperplanes").values
    _, rows = obs.left_eigenvectors(V)
    assert np.allclose(found[0], run.x[0] @ rows.T)
    assert not np.allclose(found[2], run.x[2] @ rows.T, rtol=0.1)  # what z itself would give
    for k, own in ((0, 0), (3, 1)):  # eigenvalues 1 and -1: one coordinate of the chart each
        factor = (rows[k] @ S)[own]
        assert np.allclose(found[..., k], factor * zeta[..., own], rtol=1e-9)
    assert np.allclose(found[..., 1:3], zeta[..., 2:] @ (rows[1:3] @ S)[:, 2:].T, rtol=1e-9, atol=1e-9)
    assert observe(run, "hyperplane_counts", tolerance=1e-9).shape == (3, 4)


@pytest.mark.parametrize(
    ("name", "options", "parts", "says"),
    [
        ("cluster", {}, {}, "did you mean 'clusters'"),
        ("clusters", {"tolerence": 1.0}, {}, "did you mean 'tolerance'"),
        ("order", {"tolerance": 1.0}, {}, "takes no options"),
        ("clusters", {"geometry": "flat"}, {}, "angles"),
        ("energy", {}, {"beta": 0.0}, "divides by beta"),
        ("energy", {}, {"geometry": "rescaled", "weights": Weights()}, "euclidean"),
        ("energy", {}, {"score": "distance", "weights": Weights()}, "score"),
        ("hyperplanes", {"head": 2}, {}, "no head 2"),
        ("hyperplanes", {}, {"weights": Weights(V=lambda t: (1 + t) * np.eye(D)[None])}, "changes with time"),
    ],
)
def test_bad_input_gets_a_sentence(name, options, parts, says):
    with pytest.raises(InputError, match=says):
        observe(a_run(**parts), name, **options)


def test_a_diverged_run_is_refused():
    run = a_run()
    run.x[-1, 0, 0, 0] = np.nan
    with pytest.raises(InputError, match="nan or inf"):
        observe(run, "clusters")
