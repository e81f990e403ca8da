"""The five experiments beyond the papers' figures: laws on the smallest settings, and verdicts that can fail."""

import numpy as np
import pytest

from metastable.experiments import causal_leaders, eigenvalue_maps, instability, lifetimes, phase_diagram
from metastable.experiments.base import Work, self_check
from metastable.theory.equiangular import equiangular_path

ALL = (causal_leaders, eigenvalue_maps, instability, lifetimes, phase_diagram)


@pytest.mark.parametrize("module", ALL)
def test_the_simulator_agrees_with_the_plain_formulas(module):
    assert self_check(module.EXPERIMENT, module.Params())


def test_lifetimes_are_those_of_the_quadrature():
    params = lifetimes.Params(ns=(4, 8), betas=(1.0, 2.0, 3.0), instances=10, saves=100)
    data = lifetimes.run(params, Work())
    exact, growth, _ = lifetimes.judge(params, data)
    assert exact.status == "holds"
    assert abs(growth.measured) < 0.05
    longer = {**data, "time": data["time"] * 1.05}
    assert lifetimes.judge(params, longer)[0].status == "fails"


def test_modes_grow_at_the_bessel_rates():
    params = instability.Params(n=24, modes=4, highest=6.0, instances=20)
    data = instability.run(params, Work())
    rates, first = instability.judge(params, data)[:2]
    assert rates.status == "holds"
    assert first.status in ("holds", "undecided")
    wrong = {**data, "rates softmax": data["rates softmax"] * 1.01, "first softmax": data["first softmax"] + 1}
    assert [v.status for v in instability.judge(params, wrong)[:2]] == ["fails", "fails"]


@pytest.mark.parametrize(("n", "d", "beta"), [(8, 512, 2.7), pytest.param(8, 512, 5.3, marks=pytest.mark.slow)])
def test_the_diagram_tends_to_the_closed_form(n, d, beta):
    params = phase_diagram.Params(n=n, betas=(beta,), usa_betas=(1.3,), t=4.0, usa_t=1.0, times=5)
    for attention, b in ((0, beta), (1, 1.3)):
        found = phase_diagram.diagram(params, d, attention, 0, 0, 0, 8)["cosine"].mean(axis=0)[0]
        times = phase_diagram.grid(params, attention)[1]
        law = equiangular_path(times, n, b, normalise=phase_diagram.ATTENTIONS[attention])
        assert np.abs(found - law).max() < 0.05


def test_eigenvalues_decide_the_clusters():
    params = eigenvalue_maps.Params(n=6, a=(-1.0, 1.0), b=(1.0,), t=30.0, times=31, instances=4)
    data = eigenvalue_maps.run(params, Work())
    first, real, turning, speed = eigenvalue_maps.judge(params, data)[:4]
    assert first.measured == real.measured == turning.measured == 1.0
    assert speed.status == "holds"
    lost = {**data, "counts complex causal": data["counts complex causal"] + 1}
    assert eigenvalue_maps.judge(params, lost)[2].measured == 0.0


def test_strong_centres_are_as_many_as_expected():
    params = causal_leaders.Params(n=24, betas=(4.0, 16.0), t=4.0, instances=60, dims=(2,))
    data = causal_leaders.run(params, Work())
    expected, still = causal_leaders.judge(params, data)[:2]
    assert expected.measured == pytest.approx(1.0, abs=0.1)
    assert still.status == "holds"
