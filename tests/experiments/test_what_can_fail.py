"""Verdicts that one setting, one reading or a bound beyond all measure used to save."""

import numpy as np
import pytest

from metastable.experiments import (
    claim_instances,
    codimension,
    codimension_high,
    first_token,
    flats,
    lifetimes,
    mean_field,
    model_controls,
    model_dynamics,
    multi_head_sphere_verdicts,
    rank_collapse,
    rank_collapse_verdicts,
    repulsion_circle,
    repulsion_sphere,
    settling_time,
    single_cluster,
    sinks,
)
from metastable.experiments.base import Data, Work
from metastable.experiments.codimension_cases import Params as CodimensionParams
from metastable.experiments.negative_values import READINGS
from metastable.theory.intervals import mean_interval
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


def test_a_head_under_which_nothing_clusters_says_so() -> None:
    count = np.full((24, 2, 2), 60)
    count[:, 1, 1] = 3
    data = {"count": count, "t": np.array([6.0, 15.0]), "cases": np.zeros((2, 2), int), "eigenvalues": np.ones((2, 3))}
    data |= {"excess": np.tile([0.0, 0.5], (24, 2, 1)), "apart": np.ones((24, 2, 2))}
    found = model_dynamics._apart(model_dynamics.Params(n=64), data)
    assert [row.status for row in found.rows] == ["not measured", "holds"]
    assert found.rows[0].notes == "no start has clustered"
    assert "in 100% of 24 clustered starts at t = 0" in found.rows[1].notes


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


def turning_or_gathering() -> Data:
    """Thirty starts of Fig. 6: the fourth V turns tokens and the last gathers them; both make the cloud denser."""
    many, readings, n = 30, len(READINGS), 12
    size = np.zeros((many, readings, 5, n), dtype=int)
    size[..., 0] = 1
    size[:, 4, -1, :2] = 6
    turns = np.zeros((many, readings))
    turns[:, 3] = 3.0
    nearest = np.broadcast_to(np.array([0.5, 0.4, 0.3, 0.2, 0.1]), (many, readings, 5))
    second = np.zeros((many, readings, 5))
    return {"size": size, "turns": turns, "coherent": np.ones_like(turns), "nearest": nearest, "second": second}


def test_clusters_that_swirl_are_asked_of_one_v() -> None:
    params, data = repulsion_sphere.Params(n=12, instances=30), turning_or_gathering()
    several, denser, swirling, at_once, _ = repulsion_sphere.judge(params, data)
    assert (several.status, denser.status, swirling.status) == ("holds", "holds", "holds")  # by different V
    assert (at_once.status, {row.status for row in at_once.rows}) == ("fails", {"fails"})
    assert repulsion_sphere.finding(params, data).measured.startswith(
        "None of 5 readings of V does all of that at once"
    )
    data["size"][:, 3] = data["size"][:, 4]
    assert repulsion_sphere.judge(params, data)[3].status == "holds"


def test_a_reading_that_holds_alone_is_named() -> None:
    params = repulsion_circle.Params(instances=30)
    caps, angle = np.full((30, 4, 3, 2), 0.1), np.full((30, 4, 3), np.pi)
    caps[:, 3] = 0.5
    data = {"caps": caps, "cap_angle": angle, "t": np.array([0.0, *params.snapshots[-1:], params.t])}
    found = repulsion_circle._opposite(params, data, params.t)
    assert (found.status, found.notes.split(";")[0]) == ("holds", "holds in 1 of 4 readings: V = diag(1, -1)")
    assert "They do in 1 of 4 readings" in repulsion_circle.finding(params, data).measured


def test_rows_of_sinks_are_corrected_for_their_number() -> None:
    params, line = sinks.Params(betas=(1.0, 9.0), other_n=(12,)), np.linspace(-1.0, 1.0, 24)
    line = line + 2.5 * line.std(ddof=1) / np.sqrt(24)  # 2.5 standard errors from 0
    change = np.broadcast_to(line[:, None, None], (24, len(sinks.SCORES), 2))
    rows = sinks._rows(params, {"ratio_12": np.zeros((24, 3, 7))}, change, 0, "ratio")
    wide = mean_interval(change[:, 0, 0], 1.0 - 0.05 / 9)
    assert rows[0].interval == pytest.approx(wide)
    assert rows[0].status == "undecided"
    assert mean_interval(change[:, 0, 0])[0] > 0.0  # without the correction it would hold
    assert pytest.approx(1.0 - 0.05 / (len(sinks.VALUES) * len(sinks._SENTENCES) + 1)) == sinks.LEVEL


def test_starts_without_a_rate_are_not_left_out_in_silence() -> None:
    params = settling_time.Params(instances=40, sides=(1.0, 5.0), ns=(4, 8))
    names = ("side1", "side5", "n4", "n8")
    data = {f"{name}_{key}": np.ones(40) for name in names for key in ("settled", "clusters", "rate", "longest")}
    data |= {"scaled": np.zeros(20), "pair": np.ones(24), "pair_exact": np.ones(24)}
    data["side5_rate"][:4] = np.nan
    rate = next(v for v in settling_time.judge(params, data) if "e^{-t}" in v.claim)
    assert (rate.status, rate.notes.split(";")[0]) == ("undecided", "4 of 40 values could not be measured")


def test_leaders_do_not_enter_the_rate_at_which_others_approach() -> None:
    t = np.linspace(0.0, 20.0, 201)
    follower, leader = np.exp(-t), np.exp(-np.exp(t))
    off = np.stack([follower, leader, leader, leader], axis=-1)
    assert settling_time._rate(off, t) == pytest.approx(1.0)
    assert settling_time._rate(off[:, 1:], t) > 5.0  # nobody follows


def test_pairs_that_never_merge_are_not_left_out_in_silence() -> None:
    params = lifetimes.Params(ns=(4, 8), betas=(1.0, 2.0, 3.0), instances=80)
    data = {key: np.ones((2, 3, 80)) for key in ("time", "exact", "life")}
    data["life"][:, :, :20] = np.nan
    growth, sizes = lifetimes.judge(params, data)[1:]
    assert (growth.status, growth.eligible, growth.instances) == ("undecided", 60, 80)
    assert (sizes.status, sizes.eligible, sizes.instances) == ("undecided", 30, 40)  # even pairs, whatever the betas


def test_heads_that_start_alike_are_one_instance() -> None:
    params = multi_head_sphere_verdicts.Params(heads=(1, 4), instances=20)
    data = {f"ginibre-{h}/{key}": np.full(20, 4.0 * h) for h in (1, 4) for key in ("count", "start")}
    found = multi_head_sphere_verdicts._gather(params, data, "ginibre")
    assert (found.eligible, found.measured) == (20, 10.0 / params.n)


def test_pictures_of_coordinates_last_until_they_have_gathered() -> None:
    t = np.linspace(0.0, 40.0, 41)
    late = np.clip(30.0 - t, 0.0, None)[:, None, None] * np.array([0.5, -0.5])[None, :, None] + 2.0
    figure = codimension_high._converging(t, np.repeat(late, 2, axis=2), np.array([1.5, 1.0]))
    assert figure.axes[0].lines[0].get_xdata().max() > 30.0


def test_an_interval_of_few_starts_is_students() -> None:
    params = first_token.Params(instances=6)
    owed = np.linspace(-1.0, 1.0, 12).reshape(6, 2)
    V = np.stack([np.diag([s, -2.0, -2.0]) for s in (1.0, 1.0, 1.0, -1.0, -1.0, -1.0)])
    said = first_token.finding(params, {"V": V, "owed": owed, "t": np.array([0.0, 9.0])}).measured
    low, high = mean_interval(owed[:3, -1])
    assert f"+- {(high - low) / 2.0:.3f}" in said
