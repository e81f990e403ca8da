"""The first paper's experiments: quick runs judged and drawn, and verdicts that turn when the dynamics is broken."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from metastable.equation.dynamics import Dynamics
from metastable.experiments import (
    experiment,
    first_token,
    gradient_flow,
    metastable_states,
    neighbour_opinions,
    neighbours,
    single_cluster,
)
from metastable.experiments.base import Work
from metastable.theory.verdicts import Verdict

NAMES = (
    "single-cluster",
    "metastable-states",
    "repulsion-circle",
    "repulsion-sphere",
    "first-token",
    "sinks",
    "temperature",
    "gradient-flow",
    "neighbours",
)
SMALL: dict[
    str, dict[str, Any]
] = {  # smaller than the quick presets: what is tested here is that everything fits together
    "single-cluster": {"instances": 3, "n": 8, "early": 20.0, "horizon": 20.0},
    "metastable-states": {"instances": 20, "n": 12, "later": 20.0, "pair_n": 6, "pair_t": 20.0},
    "repulsion-circle": {"instances": 3, "n": 12},
    "repulsion-sphere": {"instances": 3, "n": 12},
    "first-token": {"instances": 4, "n": 8, "horizon": 20.0},
    "sinks": {"instances": 2, "n": 8, "betas": (1.0, 9.0), "other_n": (6,), "chunk": 2},
    "temperature": {"instances": 3, "n": 16, "betas": (1.0, 2.0, 4.0, 9.0)},
    "gradient-flow": {"instances": 20, "n": 8, "saves": 21},
    "neighbours": {
        "instances": 4,
        "n": 18,
        "shift_layers": 200,
        "vicsek_steps": 40,
        "flock_t": 10.0,
        "noises": (0.1, 6.0),
    },
}


def run_small(name: str) -> tuple[Any, Any, list[Verdict]]:
    made = experiment(name)
    params = made.params(**SMALL[name])
    data = made.run(params, Work())
    return made, (params, data), made.judge(params, data)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n == "neighbours" else n for n in NAMES])
def test_runs_judges_and_draws(name: str) -> None:
    made, (params, data), verdicts = run_small(name)
    assert made.name == name
    assert not [v.claim for v in verdicts if v.kind == "theorem" and v.status == "fails"]
    for verdict in verdicts:
        assert verdict.claim.endswith(".")
        assert verdict.source
        assert verdict.instances in (params.instances, params.instances * len(getattr(params, "betas", ())))
        assert not np.isnan(verdict.interval).any()
    figures = made.draw(params, data)
    assert figures
    assert all(figure.axes for figure in figures.values())
    for film in (made.films(params, data) if made.films else {}).values():
        assert np.isfinite(film["tokens"].x).all()


@pytest.mark.parametrize("name", NAMES)
def test_presets_are_params(name: str) -> None:
    made = experiment(name)
    default, full = made.params(), made.params(**made.full)
    assert made.params(**made.quick).instances < 50
    assert default.instances >= 200
    assert full.instances >= 2000
    assert hash(default) == hash(made.params())  # frozen


def status(verdicts: list[Verdict], words: str) -> str:
    found = [v for v in verdicts if words in v.claim]
    assert len(found) == 1, [v.claim for v in verdicts]
    return found[0].status


def test_first_token_verdict_turns_when_the_mask_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    params = first_token.Params(**SMALL["first-token"])
    right = first_token.judge(params, first_token.run(params, Work()))
    assert status(right, "x_1(t)") == "holds"
    whole = first_token.instance

    def broken(params: first_token.Params, seed: int) -> tuple[Dynamics, np.ndarray]:
        dynamics, x = whole(params, seed)
        return replace(dynamics, mask="full"), x

    monkeypatch.setattr(first_token, "instance", broken)
    wrong = first_token.judge(params, first_token.run(params, Work()))
    assert status(wrong, "x_1(t)") == "fails"
    assert next(v for v in wrong if "x_1(t)" in v.claim).failing_seeds


def test_lifetimes_turn_when_beta_is_not_what_the_theory_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    params = metastable_states.Params(**SMALL["metastable-states"])
    whole = metastable_states.pair

    def broken(params: metastable_states.Params, seed: int) -> tuple[Dynamics, np.ndarray, int]:
        dynamics, x, m = whole(params, seed)
        return replace(dynamics, beta=0.9 * float(dynamics.beta)), x, m

    right = metastable_states._pairs(params, 0, 20)
    monkeypatch.setattr(metastable_states, "pair", broken)
    wrong = metastable_states._pairs(params, 0, 20)
    wrong = {**wrong, "pair_exact": right["pair_exact"]}  # another beta than the theory was told
    assert metastable_states._lifetimes(params, right, list(range(20))).status == "holds"
    assert metastable_states._lifetimes(params, wrong, list(range(20))).status == "fails"


def test_energy_verdicts_turn_when_rates_or_energies_are_off() -> None:
    params = gradient_flow.Params(**SMALL["gradient-flow"])
    data = gradient_flow.run(params, Work())
    assert status(gradient_flow.judge(params, data), "exactly the stated rate (SA, beta = 9)") == "holds"
    off = {**data, "dissipation": data["dissipation"] * (1.0 + 1e-9)}
    assert status(gradient_flow.judge(params, off), "exactly the stated rate (SA, beta = 9)") == "fails"
    down = {**data, "energy": data["energy"][..., ::-1]}
    assert status(gradient_flow.judge(params, down), "never decreases (USA, beta = 1)") == "fails"


@pytest.mark.parametrize("seed", [0, 1000])
def test_causal_energy_falls_whatever_the_seed(seed: int) -> None:
    params = gradient_flow.Params(**SMALL["gradient-flow"] | {"n": 24, "instances": 2, "seed": seed})
    found = gradient_flow.judge(params, gradient_flow.run(params, Work()))
    for beta in params.betas:
        assert status(found, f"never decreases (causal SA, beta = {beta:g})") == "fails"
        assert status(found, f"never decreases (SA, beta = {beta:g})") == "undecided"  # none of two starts


def test_a_token_at_rest_elsewhere_breaks_the_limit() -> None:
    params = single_cluster.Params(**SMALL["single-cluster"])
    data = single_cluster.run(params, Work())
    shape = data["far"].shape
    stuck = {**data, "far": np.full(shape, 1.0), "speed": np.zeros(shape)}
    slow = {**data, "far": np.full(shape, 1.0), "speed": np.full(shape, 1e-3)}
    assert single_cluster._limit(params, stuck, 0).status == "fails"
    assert single_cluster._limit(params, stuck, 0).failing_seeds == (0, 1, 2)
    assert single_cluster._limit(params, slow, 0).status == "not measured"  # no start decides anything


@pytest.mark.slow
def test_instances_can_be_replayed_and_parts_resumed(tmp_path: Any) -> None:
    params = neighbours.Params(**SMALL["neighbours"])
    first = neighbours.run(params, Work(tmp_path))
    started = time.process_time()
    again = neighbours.run(params, Work(tmp_path))
    assert time.process_time() - started < 1.0  # read from disk
    assert all(np.array_equal(first[key], again[key]) for key in first)
    one = neighbour_opinions.run_opinions(params, 2, 3)
    assert one["opinions_count"][0] == first["opinions_count"][2]


def test_mean_shift_is_the_textbook_iteration() -> None:
    params = neighbours.Params(**SMALL["neighbours"])
    dynamics, x = neighbour_opinions.probes(params, 0)
    data, probes = x[: params.n], x[params.n :]
    gap = ((probes[:, None] - data) ** 2).sum(axis=-1)
    kernel = np.exp(-gap / (2.0 * params.bandwidth**2))
    moved = np.asarray(dynamics.layer(0.0, x, 1.0))
    np.testing.assert_allclose(moved[params.n :], kernel @ data / kernel.sum(axis=1, keepdims=True), atol=1e-13)
    np.testing.assert_allclose(moved[: params.n], data, atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_default_runs_find_no_failing_theorem(name: str) -> None:
    """The default settings with a quarter of the instances: the whole is what `metastable reproduce` runs."""
    made = experiment(name)
    params = made.params(instances=50)
    verdicts = made.judge(params, made.run(params, Work()))
    assert not [str(v) for v in verdicts if v.kind == "theorem" and v.status != "holds"]
