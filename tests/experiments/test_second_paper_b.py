"""The experiments on remarks, heads, Ginibre matrices and measures: small runs, and their own arithmetic."""

from dataclasses import replace

import numpy as np
import pytest

from metastable.experiments import beyond_positive_definite as beyond
from metastable.experiments import discrete_time, ginibre, layer_recursion, mean_field, multi_head, plain_formulas
from metastable.experiments import experiment as named
from metastable.experiments.base import Work
from metastable.experiments.run_one import settings
from tests.broken.own_code import _mean_field

NAMES = ("beyond-positive-definite", "discrete-time", "multi-head", "ginibre", "mean-field")


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_large_enough_and_presets_are_settings(name):
    experiment = named(name)
    assert experiment.name == name
    assert settings(experiment, "default", {}).instances >= 200
    assert settings(experiment, "full", {}).instances >= 2000
    assert settings(experiment, "quick", {"seed": 5}).seed == 5


def test_ginibre_counts():
    matrices = np.stack(
        [np.diag([2.0, 1.0]), np.diag([-2.0, 1.0]), [[0.0, -3.0], [3.0, 0.0]], [[1.0, 5.0], [0.0, 3.0]]]
    )
    assert ginibre.good(matrices).tolist() == [True, False, False, True]
    params = ginibre.Params(instances=60, d=16, others=(1, 2, 8))
    data = ginibre.run(params, Work())
    verdicts = ginibre.judge(params, data)
    assert [v.kind for v in verdicts] == ["observation", "theorem", "theorem", "observation"]
    assert all(v.status == "holds" for v in verdicts[1:3])
    # an instance is replayed by its seed alone
    again = ginibre.run(ginibre.Params(instances=1, d=16, others=(), seed=7), Work())
    assert again["good-16"][0] == data["good-16"][7]
    assert len(ginibre.draw(params, data)) == 2


def test_linear_time_velocity_is_the_flow():
    from metastable import Dynamics, Weights

    x = np.random.default_rng(0).uniform(-2.5, 2.5, (2, 64))
    exact = np.asarray(Dynamics(Weights(1.0, 1.0, 1.0), geometry="euclidean").velocity(0.0, x[..., None]))[..., 0]
    assert np.abs(mean_field.velocity(x) - exact).max() < 1e-9


def test_mean_field_judges():
    params = mean_field.Params(sizes=(32, 64, 128, 256), instances=60, least=60, dt=0.1, horizon=0.5)
    data = mean_field.run(params, Work())
    rate, constant, stable, field = mean_field.judge(params, data)
    assert stable.status == field.status == "holds"
    with _mean_field("transposed"):
        turned = mean_field.run(replace(params, sizes=(128, 256), instances=30), Work())
    assert mean_field.judge(replace(params, sizes=(128, 256)), turned)[-1].status == "fails", "columns are no rows"
    assert constant.measured == pytest.approx(0.0, abs=0.1)
    assert rate.eligible == sum(params.count(n) for n in params.sizes)
    # W1 of a shifted sample is the shift
    x = np.random.default_rng(1).normal(size=50)
    assert mean_field.distance(x, x[::-1] + 0.25) == pytest.approx(0.25)


def test_recursion_of_remark_four():
    """The corrected recursion is the Euler iteration, the printed one is not; a wrong R would be noticed."""
    p = discrete_time.instance(discrete_time.Params(n=8), 1, 3)
    right, printed = layer_recursion.identity_errors(p, 0.5, 6)
    assert right < 1.0 < printed
    x = p.tokens
    R = np.eye(3) + 0.5 * p.V
    z1 = np.linalg.solve(R, plain_formulas.layer(x, p.Q, p.K, p.V, dt=0.5).T).T
    assert np.abs(layer_recursion.rescaled_layer(p, x, 0, 0.5) - z1).max() < 1e-12
    assert np.abs(layer_recursion.rescaled_layer(p, x, 1, 0.5) - z1).max() > 1e-3


def test_boundary_distance():
    square = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [0.5, 0.0], [0.1, 0.0]])
    assert beyond.boundary_distance(square) == pytest.approx([0.0, 0.0, 0.0, 0.0, 0.5, 0.1])
    line = np.stack([np.linspace(1, 2, 5), np.linspace(2, 4, 5)], axis=1)
    assert beyond.boundary_distance(line).max() < 1e-12


def test_trivial_limits_are_told_from_others():
    """Ends at one point, on a flat and at the corners of a cube, in each theorem's own coordinates."""
    params = beyond.Params(instances=3, n=8)
    cube = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
    ends = np.stack([np.ones((8, 3)), cube * [1.0, 0.0, 0.0], cube])
    for case, expected in ((0, [True, True, False]), (1, [True, False, False]), (2, [True, True, False])):
        assert beyond._trivial(params, {f"end-{case}": ends}, case).tolist() == expected, case


def test_broken_assumptions_are_broken():
    params = beyond.Params(n=5)
    for case, (claim, _) in enumerate(beyond.CLAIMS):
        for seed in range(8):
            p = beyond.instance(params, case, seed)
            assert all(f.holds is True for f in claim.hypotheses(p)), (case, seed)


@pytest.mark.parametrize(
    ("module", "options", "count"),
    [
        (beyond, {"n": 8, "instances": 4, "chunk": 4}, 13),
        (discrete_time, {"n": 8, "instances": 2, "chunk": 2, "steps": (1.0,), "shown": 1.0, "layers": 3}, 6),
        (multi_head, {"n": 8, "instances": 3, "chunk": 3, "heads": (1, 2)}, 6),
    ],
)
def test_small_runs(module, options, count, tmp_path):
    params = module.Params(**options)
    data = module.run(params, Work(tmp_path))
    verdicts = module.judge(params, data)
    assert len(verdicts) == count
    assert not any(v.status == "fails" and v.kind == "theorem" for v in verdicts)
    again = module.run(params, Work(tmp_path))  # from the parts on disk
    assert all(np.array_equal(data[key], again[key], equal_nan=True) for key in data)
    assert all(figure.axes for figure in module.draw(params, data).values())
