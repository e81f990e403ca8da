"""Rank collapse, heads and systems on the sphere, neighbours, measures in space: small runs, checks and breakages."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import (
    experiment,
    mean_field_space,
    multi_head_sphere,
    neighbour_checks,
    plain_formulas,
    rank_collapse,
    rank_collapse_verdicts,
    rank_one,
)
from metastable.experiments.base import Experiment, SelfCheckError, Work, self_check

SMALL: dict[str, dict[str, Any]] = {
    "rank-collapse": {"instances": 3, "n": 8, "d": 4, "strengths": (0.0, 0.5, 1.0), "layers": 12},
    "multi-head-sphere": {
        **{"instances": 2, "n": 6, "heads": (1, 2), "systems": (2,), "couplings": (0.0, 4.0, 16.0, 32.0)},
        **{"t": 2.0, "dt": 0.1},
    },
    "mean-field-space": {"instances": 3, "least": 3, "sizes": (8, 12), "times": (0.0, 0.5, 1.0, 2.0), "dt": 0.1},
}


def made(name: str) -> tuple[Experiment, Any]:
    found = experiment(name)
    return found, found.params(**SMALL[name])


@pytest.mark.parametrize("name", SMALL)
def test_small_runs(name: str, tmp_path: Any) -> None:
    found, params = made(name)
    data = found.run(params, Work(tmp_path))
    again = found.run(params, Work(tmp_path))  # from the parts on disk
    assert all(np.array_equal(data[key], again[key], equal_nan=True) for key in data)
    verdicts = found.judge(params, data)
    assert not [str(v) for v in verdicts if v.status == "fails" and v.kind == "theorem"]
    figures = found.draw(params, data)
    assert all(figure.axes and figure.caption for figure in figures.values())
    assert found.finding is not None
    sentence = found.finding(params, data)
    assert sentence is not None
    assert sentence.figure_title in figures


@pytest.mark.parametrize("name", [*SMALL, pytest.param("neighbours", marks=pytest.mark.slow)])
def test_self_checks_agree_and_notice_a_difference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = experiment(name)
    params = found.params(**SMALL.get(name, {"n": 12}))
    assert self_check(found, params)
    module, formula = (neighbour_checks, "_gaps") if name == "neighbours" else (plain_formulas, "attention")
    real = getattr(module, formula)
    monkeypatch.setattr(module, formula, lambda *given: 0.99 * real(*given))
    with pytest.raises(SelfCheckError):
        self_check(found, params)


def test_rank_collapse_tells_a_wrong_beta_and_a_lost_value_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    params = rank_collapse.Params(instances=24, n=8, d=4, strengths=(0.0,), layers=1)
    right = rank_collapse_verdicts._cubic_law(params, rank_collapse.run(params, Work()))
    assert right.status == "holds"
    real = rank_collapse.instance

    def halved(*given: Any) -> tuple[Dynamics, np.ndarray]:
        member, x = real(*given)
        return replace(member, beta=member.beta / 2), x

    law = rank_collapse.cubic
    monkeypatch.setattr(rank_collapse, "instance", halved)
    monkeypatch.setattr(rank_collapse, "cubic", lambda m, x: law(replace(m, beta=2 * m.beta), x))
    assert rank_collapse_verdicts._cubic_law(params, rank_collapse.run(params, Work())).status == "fails"
    monkeypatch.setattr(rank_collapse, "instance", real)
    monkeypatch.setattr(
        rank_collapse, "cubic", lambda m, x: law(replace(m, weights=Weights(m.weights.Q, m.weights.K, np.eye(4))), x)
    )
    assert rank_collapse_verdicts._cubic_law(params, rank_collapse.run(params, Work())).status == "fails"


def test_distances_from_one_point_and_from_rank_one() -> None:
    line = np.array([[1.0, 2.0], [2.0, 4.0], [-1.0, -2.0]])
    assert rank_one.from_rank_one(line) == pytest.approx(0.0, abs=1e-15)
    assert rank_one.from_one_point(line) > 0.5
    assert rank_one.from_one_point(np.ones((4, 3))) == 0.0
    assert rank_one.diameter(line) == pytest.approx(np.hypot(3.0, 6.0))
    assert np.isnan(rank_one.rates(np.ones((1, 5)))[0])


def test_values_of_heads_have_the_sizes_that_are_said() -> None:
    rng = np.random.default_rng(0)
    for heads in (1, 2, 4):
        for family in ("identity", "opposed"):
            assert multi_head_sphere.values(family, heads, 3, rng).sum(axis=0) == pytest.approx(np.eye(3))


def test_wasserstein_of_shifted_samples() -> None:
    x = np.random.default_rng(0).normal(size=(7, 2))
    assert mean_field_space.distance(x, x[::-1] + np.array([3.0, 4.0])) == pytest.approx(5.0)
