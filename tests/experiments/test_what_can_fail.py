"""Verdicts that one setting, one reading or a bound beyond all measure used to save."""

import numpy as np
import pytest

from metastable.experiments import (
    claim_instances,
    codimension,
    flats,
    mean_field,
    model_controls,
    model_dynamics,
    rank_collapse,
    rank_collapse_verdicts,
    settling_time,
    single_cluster,
    sinks,
)
from metastable.experiments.base import Data, Work
from metastable.experiments.codimension_cases import Params as CodimensionParams
from metastable.theory.verdicts import Verdict


def high_dimensions(counterexample: str) -> Verdict:
    """Conjecture 4.2 in high dimension: 24 instances of each size of scores, one of which breaks it."""
    data: Data = {}
    for name in ("high", "large", "equal"):
        outcome = np.full(24, claim_instances.HOLDS)
        outcome[7] = claim_instances.BREAKS if name == counterexample else claim_instances.HOLDS
        data |= {f"{name}_{key}": np.ones(24) for key in ("codimension", "reached", "residual")}
        data |= {f"{name}_outcome": outcome, f"{name}_trivial": np.zeros(24, dtype=bool)}
    return codimension._in_high_dimension(CodimensionParams(seed=100), data, "Tokens tend to three subspaces, ")


def test_a_counterexample_in_one_setting_is_one() -> None:
    found = high_dimensions("large")
    assert (found.status, found.failing_seeds, found.kind) == ("fails", (107,), "conjecture")
    assert [row.status for row in found.rows] == ["holds", "fails", "holds"]
    assert high_dimensions("none").status == "holds"


def test_leaders_are_asked_of_both_families() -> None:
    params = flats.Params(instances=80)
    lead = np.arange(80) % 2 == 0  # right in one family of weights only
    data = {"lead_now": lead, "boolean": np.zeros(80)}
    found = flats._leaders(params, data, "lead_now", "at the end", 0.9)
    assert found.status == "fails"
    assert {row.status for row in found.rows} == {"holds", "fails"}


def test_a_cluster_structure_is_asked_of_both_clouds() -> None:
    params = rank_collapse_verdicts.Params(strengths=(0.0, 1.0), instances=30)
    data = {f"{f}-{s}/count": np.full(30, 3.0 if f == "cloud" else 1.0) for f in ("random", "cloud") for s in (0, 1)}
    assert rank_collapse_verdicts._rich(params, data).status == "fails"


def test_every_beta_is_asked() -> None:
    params = sinks.Params(betas=(1.0, 9.0))
    weight = np.zeros((30, 3, len(sinks.BINS) - 1))
    weight[:, 0] = 5.0  # significant at the first beta only
    found = sinks._exponential(params, {"weight_sum": weight, "weight_count": np.ones_like(weight)})
    assert [row.status for row in found.rows] == ["holds", "fails"]
    assert found.status == "fails"


def test_both_controls_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    data: Data = {}
    for variant, share in {"trained": 0.5, "init": 0.9, "shuffle": 0.1, "tokens": 0.5}.items():
        data |= {f"m/{variant}/{key}": np.full((1, 30, 2, 2), share) for key in ("largest", "mixed_share")}
    found = model_controls._inherent(data, "m", 1, 1)[0]
    assert [row.status for row in found.rows] == ["holds", "fails"]
    assert (found.status, found.kind) == ("fails", "reading")


def test_one_head_of_many_needs_a_wider_interval() -> None:
    count = np.full((40, 16, 2), 3)
    count[:13, :, 1] = 4  # 27 of 40 stay: more than half by a 95% interval, not by one for 16 rows
    data = {"count": count, "t": np.array([6.0, 15.0]), "cases": np.zeros((16, 2), int)}
    data["eigenvalues"] = np.ones((16, 3))
    found = model_dynamics._metastable(model_dynamics.Params(n=64), data)
    assert found.status == "undecided"
    assert found.rows[0].interval[0] < 0.5
    assert "99.688% interval" in found.criterion


def test_a_bound_that_nothing_could_break_is_trivial() -> None:
    parted, seeds = [np.full((30, 2), 0.5)], list(range(30))
    near, far = [np.tile([1.0, 50.0], (30, 1))], [np.tile([50.0, 90.0], (30, 1))]
    assert mean_field.stability("c", parted, near, seeds, "n").status == "holds"
    found = mean_field.stability("c", parted, far, seeds, "n")
    assert (found.status, "above 1000 at every time" in found.notes) == ("trivial only", True)
    assert mean_field.stability("c", [np.full((30, 2), 2.0)], near, seeds, "n").status == "fails"


def test_the_distance_from_rank_one_is_judged_and_drawn() -> None:
    params = rank_collapse.Params(instances=24, n=8, d=4, strengths=(0.0, 0.5), layers=30)
    data = rank_collapse.run(params, Work())
    found = {v.claim: v for v in rank_collapse.judge(params, data)}
    cubed = found["Without skip connections the distance from rank one is cubed by every layer near one point "
                  "(exponent 3)."]  # fmt: skip
    assert cubed.status == "holds"
    shrinks = next(v for claim, v in found.items() if claim.startswith("With") and "from rank one shrinks" in claim)
    assert shrinks.status == "holds"
    lost = next(v for claim, v in found.items() if "converges to a rank-1 solution" in claim)
    assert [row.reading.split()[0] for row in lost.rows] == ["Random", "The", "Unit"]
    assert rank_collapse_verdicts.RANKS in rank_collapse.draw(params, data)


def test_a_token_that_grows_breaks_the_hull() -> None:
    params = settling_time.Params(instances=24, sides=(1.0,), ns=(4,))
    data = {f"{name}_longest": np.full(24, 1.0) for name in ("side1", "n4")}
    assert settling_time._inside(params, data).status == "holds"
    data["n4_longest"][5] = 1.001
    assert settling_time._inside(params, data).failing_seeds == (5,)


def test_a_second_token_that_moves_away_is_a_failure_and_no_crash() -> None:
    params = single_cluster.Params(instances=1)
    data = {"t": np.array([0.0, *params.snapshots]), "second": np.full((1, 4), 0.7), "speed": np.zeros(1)}
    data["second"][:, -1] = 0.8
    assert single_cluster._second_token(params, data).status == "fails"
