"""Weights, masks and geometries that change at once: a step that ends there keeps the order of its method."""

import numpy as np
import pytest

import metastable as ms
from metastable.equation.weights import Stack

V = np.random.default_rng(3).normal(size=(4, 1, 3, 3))
X = ms.initial.sphere(5, 3, seed=1)
CASES = {
    "weights": (
        ms.Dynamics(ms.Weights(V=Stack(V, 0.25))),
        [ms.Dynamics(ms.Weights(V=one)) for one in V],
    ),
    "masks": (
        ms.Dynamics(ms.Weights(V=V[0]), mask=ms.masks.by_layer(["full", "causal"], 0.25)),
        [ms.Dynamics(ms.Weights(V=V[0]), mask=mask) for mask in ("full", "causal", "full", "causal")],
    ),
    "Mix-LN": (
        ms.Dynamics(ms.Weights(V=V[1]), geometry="mix-ln(0.25)"),
        [ms.Dynamics(ms.Weights(V=V[1]), geometry=g) for g in ("sphere", *["pre-ln"] * 3)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_layers_are_solved_to_the_fourth_order(case):
    """Against each layer alone; the second half step must take 12 times off the error, where one order takes 2."""
    whole, parts = CASES[case]
    exact = X
    for one in parts:
        exact = ms.simulate(one, exact, 0.25, method="dopri8", rtol=1e-12, save=[0.25]).x[-1]
    off = [np.abs(np.asarray(ms.flow(whole, X, [1.0], "rk4", dt)[-1]) - exact).max() for dt in (0.125, 0.0625)]
    assert 0 < off[1] < off[0] / 12
    assert np.abs(ms.simulate(whole, X, 1.0, 0.0625, save=[1.0]).x[-1] - exact).max() == pytest.approx(off[1], rel=1e-6)
    assert np.abs(np.asarray(ms.flow(whole, X, [1.0])[-1]) - exact).max() < off[0]  # default steps end with layers
    assert ms.simulate(whole, X, 1.0, save=[0.5]).provenance["dt"] == pytest.approx(0.25 / 3)


def test_steps_of_what_does_not_change_are_the_methods_own():
    assert ms.simulate(ms.Dynamics(), X, 1.0, save=2).provenance["dt"] == 0.1
    assert ms.simulate(ms.Dynamics(geometry="mix-ln"), X, 1.0, save=2).provenance["dt"] == 0.1
    assert ms.simulate(CASES["weights"][0], X, 1.0, save=2, method="layers").provenance["dt"] == 1.0
