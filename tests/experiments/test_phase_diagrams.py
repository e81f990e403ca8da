"""The five experiments beyond the papers' figures: laws on the smallest settings, and verdicts that can fail."""

import warnings

import numpy as np
import pytest

from metastable.experiments import (
    causal_leaders,
    eigenvalue_limits,
    eigenvalue_maps,
    instability,
    lifetimes,
    phase_diagram,
)
from metastable.experiments.base import Work, self_check
from metastable.experiments.closing_rates import rates_of
from metastable.experiments.phase_diagram_maps import judge_maps
from metastable.experiments.phase_diagram_runs import diagram
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
        found = diagram(params, d, attention, 0, 0, 0, 8)["cosine"].mean(axis=0)[0]
        times = phase_diagram.grid(params, attention)[1]
        law = equiangular_path(times, n, b, normalise=phase_diagram.ATTENTIONS[attention])
        assert np.abs(found - law).max() < 0.05


def test_opposite_tokens_have_no_centre_and_no_rate():
    x = np.tile(np.array([[1.0, 0.0], [-1.0, 0.0]]), (1, 6, 1, 1))  # one run at six times
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rates = rates_of(x, np.arange(6.0), np.array([0]))
    assert all(np.isnan(values).all() for values in rates.values())


def test_eigenvalues_decide_the_clusters():
    params = eigenvalue_maps.Params(n=6, a=(-1.0, 1.0), b=(1.0,), t=30.0, times=31, instances=4)
    data = eigenvalue_maps.run(params, Work())
    first, _, real, turning, speed = eigenvalue_maps.judge(params, data)[:5]
    assert first.measured == real.measured == turning.measured == 1.0
    assert speed.status == "holds"
    lost = {**data, "counts complex causal": data["counts complex causal"] + 1}
    assert eigenvalue_maps.judge(params, lost)[3].measured == 0.0


def test_strong_centres_are_as_many_as_expected():
    params = causal_leaders.Params(n=24, betas=(4.0, 16.0), t=4.0, instances=60, dims=(2,))
    data = causal_leaders.run(params, Work())
    expected, still = causal_leaders.judge(params, data)[:2]
    assert expected.measured == pytest.approx(1.0, abs=0.1)
    assert still.status == "holds"


def test_maps_without_a_curve_have_the_exact_first_two_tokens():
    params = phase_diagram.Params(n=6, dims=(2, 5), betas=(0.5, 6.0), usa_betas=(0.5, 3.0), t=8.0, usa_t=2.0, times=5,
                                  instances=3, others=3)  # fmt: skip
    data = phase_diagram.run(params, Work())
    exact = [v for v in judge_maps(params, data) if v.claim.startswith(("With random V", "Token 2"))]
    assert [v.status for v in exact] == ["holds"] * 5
    wrong = {name: v * 1.01 if name.endswith(("pair", "first")) else v for name, v in data.items()}
    exact = [v for v in judge_maps(params, wrong) if v.claim.startswith(("With random V", "Token 2"))]
    assert [v.status for v in exact] == ["fails"] * 5


def test_causal_tokens_gather_and_repelled_ones_do_not():
    params = phase_diagram.Params(n=8, dims=(3, 8), betas=(0.1, 0.5), t=20.0, times=3, instances=15, others=15,
                                  usa_others=0, usa_betas=(0.5,), usa_t=0.1)  # fmt: skip
    data = phase_diagram.run(params, Work())
    names = ("With V = I causal", "With V = -I and causal")
    assert [v.status for v in judge_maps(params, data) if v.claim.startswith(names)] == ["holds", "holds"]
    name = phase_diagram.key(3, 0, 1, 1)
    wrong = {**data, f"{name} share": data[f"{name} share"][..., ::-1] + [0.0, 0.0, 1.0]}
    wrong[f"{phase_diagram.key(3, 0, 1, 0)} clusters"] = 1.0 + data[f"{phase_diagram.key(3, 0, 1, 0)} clusters"]
    assert [v.status for v in judge_maps(params, wrong) if v.claim.startswith(names)] == ["fails", "fails"]


def test_eigenvalues_choose_the_limit_set():
    params = eigenvalue_maps.Params(n=8, a=(-0.5, 0.5, 1.0), t=24.0, slow=0.5, instances=10)
    data = eigenvalue_limits.run(params, Work())
    lines, polytope, groups = eigenvalue_limits.judge(params, data)
    assert (lines.status, polytope.status, groups.status) == ("holds", "holds", "holds")
    wrong = {**data, "limit residual": data["limit residual"] + 0.1, "limit before": data["limit before"] + 0.1}
    wrong["pair"] = 1.01 * wrong["pair"]
    assert [v.status for v in eigenvalue_limits.judge(params, wrong)] == ["fails", "fails", "fails"]


def test_the_fitted_spacing_of_centres():
    """Counts that are those of centres at 2.5 beta^(-1/2) give c = 2.5 and the power -1/2 back."""
    params = causal_leaders.Params(n=64, betas=(4.0, 16.0, 64.0), instances=30, dims=(2,))
    x0 = np.stack([causal_leaders.sphere(params.n, 2, seed=k) for k in range(30)])
    count = lambda delta: causal_leaders.renyi_centers(x0, delta).sum(axis=-1)  # noqa: E731
    data = {
        "clusters 2": np.stack([count(2.5 / np.sqrt(b)) for b in params.betas], axis=1).astype(float),
        "spaced 2": np.stack([count(delta) for delta in causal_leaders.DELTAS], axis=1).astype(float),
    }
    found = causal_leaders.spacings(data, 2).mean(axis=0) * np.sqrt(np.array(params.betas))
    assert found == pytest.approx(2.5, rel=0.05)
    verdict = causal_leaders._scale(params, data, 2)
    assert verdict.measured == pytest.approx(-0.5, abs=0.02)
    assert verdict.status == "holds"
    flat = {**data, "clusters 2": data["clusters 2"] ** 0.5}
    assert causal_leaders._scale(params, flat, 2).status == "fails"
