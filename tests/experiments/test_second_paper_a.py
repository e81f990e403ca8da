"""Seven experiments of the second paper: quick runs are judged and drawn, and broken dynamics change verdicts."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from metastable.experiments import (
    boolean_attention,
    codimension,
    codimension_cases,
    collapse,
    experiment,
    hyperplanes,
    low_rank_attention,
    polytope,
)
from metastable.experiments import claim_instances as parts
from metastable.experiments.base import Work, self_check
from metastable.theory.hypotheses import good_triple, score_positive_definite
from metastable.theory.theorems import Triple
from metastable.theory.verdicts import Verdict, verdict_from_dict

NAMES = (
    "low-rank-attention",
    "polytope",
    "hyperplanes",
    "codimension",
    "polytope-times-subspace",
    "collapse",
    "limit-geometry",
)
LONG = (
    "low-rank-attention",
    "hyperplanes",
    "codimension",
    "limit-geometry",
    "polytope-times-subspace",
)  # of many settings
RUN = [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in NAMES]
_made: dict[str, Any] = {}


def quick(name: str) -> tuple[Any, Any, Any]:
    """The experiment, its quick parameters and data, run once per session."""
    if name not in _made:
        e = experiment(name)
        params = e.params(**e.quick)
        _made[name] = (e, params, e.run(params, Work()))
    return _made[name]


@pytest.mark.parametrize("name", RUN)
def test_quick_run_is_judged(name: str) -> None:
    e, params, data = quick(name)
    verdicts = e.judge(params, data)
    assert all(isinstance(v, Verdict) for v in verdicts)
    assert all(verdict_from_dict(v.to_dict()).status == v.status for v in verdicts)
    assert not [v.claim for v in verdicts if v.kind == "theorem" and v.status == "fails"]
    assert any(v.status == "holds" for v in verdicts)
    assert all(v.source and v.criterion and v.claim.endswith(".") for v in verdicts)


@pytest.mark.parametrize("name", RUN)
def test_quick_run_is_drawn(name: str) -> None:
    e, params, data = quick(name)
    figures = e.draw(params, data)
    assert figures
    assert all(figure.axes for figure in figures.values())
    for shown in (e.films(params, data) if e.films else {}).values():
        run = shown["tokens"] if isinstance(shown, dict) else shown
        assert len(run.t) == len(run.x) > 20


@pytest.mark.parametrize("name", RUN)
def test_data_survive_storage(name: str) -> None:
    """Parts go through .npz without pickle, so every array must be of a plain type."""
    _, _, data = quick(name)
    assert {v.dtype.kind for v in data.values()} <= set("fiub")


def test_defaults_are_many_and_full_is_more() -> None:
    for name in NAMES:
        e = experiment(name)
        assert e.params().instances * (4 if name == "limit-geometry" else 1) >= 200
        assert e.full["instances"] >= 1000


def test_instances_replay_alone() -> None:
    """An instance depends on its own number only: seeds in verdicts can be replayed."""
    params = hyperplanes.Params()
    few = dataclasses.replace(params, instances=3)
    for index in range(3, 8):
        a, b = hyperplanes.triple(params, index), hyperplanes.triple(few, index)
        assert all(np.array_equal(getattr(a, k), getattr(b, k)) for k in ("Q", "K", "V", "tokens"))


def test_families_come_back_in_order() -> None:
    calls: list[list[int]] = []

    def make(indices: list[int]) -> dict[str, np.ndarray]:
        calls.append(indices)
        return {"index": np.array(indices), "path": np.array([i for i in indices if i < 2])}

    data = parts.in_families(Work(), "x", 7, 2, 3, make)
    assert data["index"].tolist() == list(range(7))
    assert data["path"].tolist() == [0, 1]
    assert all(len({i % 3 for i in call}) == 1 for call in calls)


# --- verdicts must notice broken dynamics ---------------------------------------------------------------------------


def test_polytope_notices_tokens_that_never_moved() -> None:
    _, params, data = quick("polytope")
    start = np.stack([polytope.triple(params, i).tokens for i in range(params.instances)])
    measured = [polytope.CLAIM.measure(polytope.triple(params, i), z, lambda: np.eye(1)) for i, z in enumerate(start)]
    residual = np.array([m.residual for m in measured])
    assert (residual > parts.RESOLUTION).all()
    broken = data | {"residual": residual, "outcome": np.full(params.instances, parts.BREAKS), "end": start}
    assert polytope.judge(params, broken)[0].status == "fails"
    assert polytope.judge(params, data)[0].status == "holds"


def test_polytope_of_negative_values_fails() -> None:
    """V = -I spreads rescaled tokens: the hull grows, and the same measurement finds no polytope."""
    _, params, data = quick("polytope")
    cases = [polytope.triple(params, i) for i in range(params.instances)]
    runs = parts.runs_of(cases, [-1.0] * len(cases), parts.HORIZON, "rk4", params.chunk)
    growth = np.array([polytope._measure(case, run)["growth"] for case, run in zip(cases, runs)])
    assert (growth > 1.0).all()
    verdict = polytope.judge(params, data | {"growth": growth})[3]
    assert verdict.status == "fails"
    assert verdict.failing_seeds == tuple(range(params.instances))


def test_hyperplanes_notice_a_fourth_level() -> None:
    case = hyperplanes.triple(hyperplanes.Params(**experiment("hyperplanes").quick), 1)
    normal = np.linalg.eig(case.V.T)
    phi = normal[1][:, normal[0].real.argmax()].real
    levels = np.array([2.0, 2.0, 1.0, -2.0])
    z = levels[:, None] * phi / (phi @ phi)
    assert hyperplanes.CLAIM.measure(case, z, lambda: np.eye(1)).residual > 0.3
    assert hyperplanes.CLAIM.measure(case, z[[0, 1, 3]], lambda: np.eye(1)).residual < 1e-12


@pytest.mark.slow
def test_codimension_as_printed_fails_for_the_identity_and_for_a_chase() -> None:
    _, params, data = quick("codimension")
    for literal in codimension.judge(params, data)[2:4]:
        assert literal.kind == "conjecture"
        assert literal.status == "fails"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 17])
def test_the_self_check_of_codimension_does_not_depend_on_the_draw(seed: int) -> None:
    e = experiment("codimension")
    assert self_check(e, e.params(**{**e.quick, "seed": seed}))


def test_the_chase_is_a_good_triple_with_positive_scores() -> None:
    p = codimension.turning_triple(codimension.Params(), 0)
    assert good_triple(p.Q, p.K, p.V).holds is True
    assert score_positive_definite(p.Q, p.K).holds is True


def test_collapse_notices_positive_values() -> None:
    """Tokens that grow like e^t, as under V = I, break the claim."""
    _, params, data = quick("collapse")
    growth = np.exp(0.05 * collapse.times(params))
    x = data["path"][:, :1] * growth[None, :, None, None]  # (1, T, n, d)
    few = dataclasses.replace(params, instances=1)
    broken = collapse.measured(np.swapaxes(x, 0, 1))
    assert collapse.judge(few, broken)[0].status == "fails"


def test_attention_of_three_leaders_is_not_boolean_of_rank_two() -> None:
    P = np.eye(3)[np.array([0, 0, 1, 1, 2, 2])]
    P = np.pad(P, ((0, 0), (0, 3)))
    distance = boolean_attention._distance(P, np.array([0, 1]))
    assert distance.tolist() == [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    rows = {"x_first": np.array([[1.0, 1.0]]), "x_second": np.array([[1.0, 1.0]]), "x_sound": np.array([True])}
    assert boolean_attention.boolean(rows, "x_", exempt=0) == [False]
    assert boolean_attention.boolean(rows, "x_", exempt=1) == [False]
    moving = rows | {"x_second": np.array([[1.0, 0.4]])}
    assert boolean_attention.boolean(moving, "x_", exempt=1) == [None]


def test_three_leaders_in_space_break_the_claim_only_once_the_first_direction_leads() -> None:
    params = low_rank_attention.Params()
    gaps = [-np.diff(np.linalg.eigvalsh(low_rank_attention.weights(params, 2, i)[2])[::-1])[0] for i in range(6)]
    rows = {"x_first": np.ones((6, 2)), "x_second": np.ones((6, 2)), "x_sound": np.ones(6, dtype=bool)}
    found = low_rank_attention._in_space(params, rows, "x_", 2)
    assert found == [False if gap * params.plane_t / 3.0 >= np.log(1e3) else None for gap in gaps]
    assert False in found


def test_depth_of_attention_is_exact() -> None:
    gaps = np.array([[[0.0, -5.0, -7.0]]])
    P = np.exp(gaps) / np.exp(gaps).sum()
    depth = boolean_attention._depth(gaps)
    assert np.allclose(depth, -np.log(1.0 - P.max()), rtol=1e-12)


def test_rate_of_two_tokens_is_doubly_exponential() -> None:
    """Tokens +1, -1 on the line: 1 - P is exactly 1/(1 + e^{2u^2}) u being the token, 0.94830 e^t in the end."""
    one = np.ones((1, 1))
    case = (one, one, one, np.array([[1.0], [-1.0]]))
    data = boolean_attention.attention_of([case], 5.0, "rk4", 1, keep=True)
    x = 0.94830 * np.exp(5.0)
    assert np.isclose(data["depth"][0, -1, 0], 2 * x**2, rtol=1e-3)
    assert data["rank"][0] == 2


@pytest.mark.slow
def test_low_rank_beyond_the_line_in_quick_size() -> None:
    params = low_rank_attention.Params(instances=4, other_n=(), plane=4, high=4, high_d=16, chunk=4, method="rk4")
    data = low_rank_attention.run(params, Work())
    assert {v.status for v in low_rank_attention.judge(params, data)} <= {"holds", "undecided"}


def test_triples_of_the_published_matrices_have_the_published_eigenvalues() -> None:
    assert np.allclose(np.sort(np.linalg.eigvals(hyperplanes.FIGURE_6).real), [-0.068, 1.348], atol=1e-3)
    assert np.allclose(np.linalg.eigvalsh(codimension_cases.FIGURE_7), [-0.222, 0.253, 1.963], atol=1e-3)
    assert (np.linalg.eigvals(hyperplanes.FIGURE_13).real.min()) < 0.0
    assert (np.linalg.eigvals(hyperplanes.FIGURE_14).real.min()) > 0.0
    assert isinstance(hyperplanes.triple(hyperplanes.Params(), 0), Triple)


@pytest.mark.parametrize(
    "name", ["polytope", "hyperplanes", pytest.param("codimension", marks=pytest.mark.slow), "polytope-times-subspace"]
)
def test_one_instance_of_any_seed_is_judged_and_drawn(name: str) -> None:
    """What a verdict's failing seed is replayed with: that seed and one instance."""
    e = experiment(name)
    params = e.params(**(dict(e.quick) | {"instances": 1, "seed": 3}))
    data = e.run(params, Work())
    assert e.judge(params, data)[0].instances <= 1
    assert e.draw(params, data)
    assert e.films is None or e.films(params, data)
