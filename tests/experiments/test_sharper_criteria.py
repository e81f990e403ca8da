"""Criteria of caps, rotation, interventions, flats and special starts on made-up tokens; and what a breakage does."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import (
    boolean_beyond,
    cloud_motion,
    codimension,
    codimension_high,
    experiment,
    flat_fitting,
    model_dynamics_pictures,
    repulsion_circle,
    settling_time,
    sink_runs,
    special_starts,
)
from metastable.experiments.base import SelfCheckError, Work, self_check


def on_circle(angles: Any) -> np.ndarray:
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def test_one_straggler_does_not_hide_two_opposite_caps() -> None:
    angles = np.concatenate([0.7 + np.linspace(-0.1, 0.1, 40), 0.7 + np.pi + np.linspace(-0.1, 0.1, 23), [2.2]])
    caps, angle = repulsion_circle._caps(on_circle(angles))
    assert caps.sum() == pytest.approx(63 / 64)
    assert caps.min() == pytest.approx(23 / 64)
    assert angle == pytest.approx(np.pi, abs=0.01)
    spread, _ = repulsion_circle._caps(on_circle(np.linspace(0.0, 2.0 * np.pi, 64, endpoint=False)))
    assert spread.sum() < 0.2


def test_angle_between_clusters_needs_two_of_them() -> None:
    two = on_circle(np.concatenate([np.linspace(0.0, 0.1, 6), 2.0 + np.linspace(0.0, 0.1, 6)]))
    lone = on_circle(np.concatenate([np.linspace(0.0, 0.1, 11), [2.0]]))
    found = repulsion_circle._between_clusters(np.stack([two, lone]))
    assert found[0] == pytest.approx(2.0, abs=0.02)
    assert np.isnan(found[1])


def test_a_turning_cloud_swirls_and_a_gathering_one_does_not() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 3))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    t = np.linspace(0.0, 10.0, 101)
    c, s = np.cos(0.8 * t), np.sin(0.8 * t)
    turn = np.moveaxis(np.array([[c, -s, 0 * t], [s, c, 0 * t], [0 * t, 0 * t, 1 + 0 * t]]), -1, 0)  # (T, 3, 3)
    gather = x + np.array([0.0, 0.0, 1.0]) * t[:, None, None]
    gather /= np.linalg.norm(gather, axis=-1, keepdims=True)
    turns, coherent = cloud_motion.rotation(np.stack([np.einsum("tij,nj->tni", turn, x), gather]), t)
    assert turns[0] == pytest.approx(0.8 * 5.0 / (2.0 * np.pi), rel=1e-2)
    assert coherent[0] == pytest.approx(1.0, abs=1e-2)
    assert turns[1] < 0.05


BROKEN = {
    "beta halved": lambda d: replace(d, beta=0.5 * float(np.asarray(d.beta))),
    "mask dropped": lambda d: replace(d, mask="full"),
    "V ignored": lambda d: replace(d, weights=Weights(Q=d.weights.Q, K=d.weights.K, V=np.eye(2))),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_simulator_stops_the_experiment(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    params = repulsion_circle.Params(n=12, instances=2)
    whole = repulsion_circle.instance

    def broken(params: Any, seed: int, reading: str) -> tuple[Dynamics, np.ndarray]:
        dynamics, x = whole(params, seed, reading)
        return BROKEN[how](dynamics), x

    assert self_check(repulsion_circle.EXPERIMENT, params)
    monkeypatch.setattr(repulsion_circle, "instance", broken)
    with pytest.raises(SelfCheckError, match="repulsion-circle"):
        self_check(repulsion_circle.EXPERIMENT, params)


def test_sink_ratio_is_one_for_uniform_attention_and_large_for_a_sink() -> None:
    n, eye = 9, np.eye(2)[None]
    x = np.broadcast_to(on_circle(np.full(n, 0.3)), (1, 1, n, 2))
    even = sink_runs.measured(x, eye, eye, np.array([9.0]), "softmax")
    assert even["ratio"].item() == pytest.approx(1.0)
    assert even["alignment"].item() == pytest.approx(0.0, abs=1e-12)
    apart = on_circle(np.concatenate([[0.0], np.where(np.arange(n - 1) % 2, 1.4, -1.4)]))  # all near the first
    sink = sink_runs.measured(apart[None, None], eye, eye, np.array([1.0]), "softmax")
    assert sink["ratio"].item() != pytest.approx(1.0, abs=1e-3)


def test_flats_are_found_where_they_are() -> None:
    rng = np.random.default_rng(1)
    points = rng.normal(size=(40, 3))
    normal = np.array([0.6, 0.8, 0.0])
    level = np.where(np.arange(40) % 2, 1.0, -1.0)
    planes = points + np.outer(level - points @ normal, normal)
    assert flat_fitting.flats(planes, rng) < flat_fitting.FLAT
    assert flat_fitting.flats(points, rng) > 0.05
    P = np.zeros((4, 4))
    P[:, 2] = 1.0
    assert flat_fitting.led_by_largest(P, np.array([0.1, -0.2, 0.5, 0.4]))
    assert not flat_fitting.led_by_largest(P, np.array([0.1, -0.2, 0.5, 0.7]))


def test_settling_time_of_exponentials() -> None:
    t = np.linspace(0.0, 20.0, 201)
    limits = np.array([[1.0, 0.0], [-1.0, 0.0]])[np.arange(10) % 2]
    z = limits + np.exp(-t)[:, None, None] * np.array([0.0, 1.0])
    found = settling_time.measured(z[None], np.array([20.0]), t)
    assert found["settled"].item() == pytest.approx(-np.log(settling_time.NEAR), abs=0.15)
    assert found["rate"].item() == pytest.approx(1.0, abs=1e-2)
    assert found["clusters"].tolist() == [2]
    assert np.isnan(settling_time.measured(z[None], np.array([3.0]), t)["settled"]).all()  # not certified


def test_special_starts_are_symmetric_and_pushes_are_not() -> None:
    params = special_starts.Params()
    for family in ("asterisks", "origin"):
        x = special_starts.start(params, family, 3)
        assert np.allclose(x.sum(axis=0), 0.0)
        assert not x[-1].any()
        assert special_starts.start(params, family, 3, 1e-6).sum() == pytest.approx(1e-6)
    facet = special_starts.start(params, "facet", 3)
    assert facet[:, 1].sum() == pytest.approx(0.0)
    assert facet[-1, 1] == 0.0


def test_families_of_value_matrices_are_what_they_say() -> None:
    for k, family in enumerate(boolean_beyond.FAMILIES):
        V = boolean_beyond.value_matrix(family, np.random.default_rng(k))
        values = np.linalg.eigvals(V)
        assert values.real.max() == pytest.approx(1.0)
        pair = values[values.real.argmax()].imag != 0.0
        assert pair == (family in ("rotation", "random, pair leads"))
        assert np.allclose(V, V.T) == (family in ("MM^T", "symmetric indefinite"))


def test_high_dimensional_triples_and_their_times() -> None:
    params = codimension.Params(equal_n=6, equal_d=8)
    for scores in codimension_high.SCORES[1:]:
        case = codimension_high.triple(codimension.size(params, scores), 0, scores)
        second, first = np.linalg.eigvalsh(case.V)[-2:]
        assert first - second >= codimension_high.GAP
        assert np.array_equal(case.Q, np.eye(8)) == (scores == "Q = K = I")
    times = codimension_high.samples(90.0, 0.1)
    assert (times[0], times[-1]) == (0.0, pytest.approx(90.0))
    assert (np.diff(times) > 0).all()
    assert (times < 5.0).sum() >= 20  # the transient is seen
    assert codimension_high.one_place(np.ones((5, 2)))
    assert not codimension_high.one_place(np.array([[1.0, 0.0], [-1.0, 0.0]]))


def test_leading_axis_of_eigenvalues() -> None:
    assert model_dynamics_pictures._axis(np.array([0.5 + 1j, 0.5 - 1j, -1.0])).shape == (0, 3)
    axis = model_dynamics_pictures._axis(np.array([2.0, 0.5, -1.0]))
    assert np.abs(axis[0]) == pytest.approx([1.0, 0.0, 0.0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["boolean-beyond", "special-starts", "settling-time", "flats"])
def test_new_experiments_run_judge_and_draw(name: str) -> None:
    made = experiment(name)
    params = made.params(**(dict(made.quick) | {"instances": 4, "chunk": 4}))
    assert self_check(made, params)
    data = made.run(params, Work())
    verdicts = made.judge(params, data)
    assert not [v.claim for v in verdicts if v.kind == "theorem" and v.status == "fails"]
    figures = made.draw(params, data)
    assert all(getattr(f, "caption", "") for f in figures.values())
    assert made.finding(params, data).figure_title in figures
