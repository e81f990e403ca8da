"""Verdicts: intervals against SciPy's, and no word said too early."""

import json

import numpy as np
import pytest
from scipy import stats

from metastable.errors import InputError
from metastable.theory.intervals import bootstrap_interval, exact_interval, mean_interval, wilson_interval
from metastable.theory.verdicts import (
    MINIMUM,
    RULE,
    STATUSES,
    Verdict,
    from_readings,
    from_settings,
    judge_number,
    judge_share,
    verdict_from_dict,
)


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (199, 200), (1, 1000)])
def test_share_intervals_are_scipys(k, n):
    for ours, method in ((wilson_interval, "wilson"), (exact_interval, "exact")):
        theirs = stats.binomtest(k, n).proportion_ci(0.95, method=method)
        assert ours(k, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_intervals_at_the_edges():
    assert wilson_interval(0, 0) == exact_interval(0, 0) == (0.0, 1.0)
    assert mean_interval([1.0]) == bootstrap_interval([1.0]) == (-np.inf, np.inf)
    with pytest.raises(InputError, match="between 0 and 3"):
        exact_interval(4, 3)


def test_mean_and_bootstrap_intervals():
    values = np.random.default_rng(0).normal(3.0, 2.0, 50)
    theirs = stats.t.interval(0.95, 49, loc=values.mean(), scale=stats.sem(values))
    assert mean_interval(values) == pytest.approx(theirs)
    low, high = bootstrap_interval(values, np.mean)
    assert (low, high) == pytest.approx(theirs, abs=0.15)
    assert bootstrap_interval(values, np.mean) == (low, high)  # seeded


def test_a_universal_claim_needs_no_counterexample_and_few_gaps():
    assert judge_share("c", "s", [True] * 200).status == "holds"
    broken = judge_share("c", "s", [True] * 199 + [False], seeds=range(1000, 1200))
    assert (broken.status, broken.failing_seeds) == ("fails", (1199,))
    assert judge_share("c", "s", [True] * 196 + [None] * 4).status == "holds"
    late = judge_share("c", "s", [True] * 100 + [None] * 100)
    assert late.status == "undecided"
    assert "100 of 200 undecided" in late.notes


def test_holds_needs_enough_instances():
    few = judge_share("c", "s", [True] * (MINIMUM - 1), notes="more")
    assert (few.status, few.notes) == ("undecided", f"few instances: {MINIMUM - 1} of {MINIMUM}; more")
    assert judge_share("c", "s", [True] * MINIMUM).status == "holds"
    assert judge_share("c", "s", [True], exact=True).status == "holds"
    assert judge_share("c", "s", [True] * 3 + [False], exact=True).status == "fails"
    assert judge_share("c", "s", [True, False]).status == "fails", "one counterexample is enough"
    # the undecided are no deciding instances
    late = judge_share("c", "s", [True] * (MINIMUM - 1) + [None])
    assert late.status == "undecided"
    assert "few instances" in late.notes


def test_nothing_decided_is_not_measured():
    assert judge_share("c", "s", []).status == "not measured"
    assert judge_share("c", "s", [None, None]).status == "not measured"
    assert judge_share("c", "s", [True] * 30, eligible=[False] * 30).status == "not measured"
    assert judge_number("c", "s", [], (0.9, 1.1)).status == "not measured"


def test_trivial_limits_decide_nothing():
    trivial = [True] * 40 + [False] * 25
    assert judge_share("c", "s", [True] * 65, trivial=trivial).status == "holds"
    assert judge_share("c", "s", [True] * 40 + [None] * 25, trivial=trivial).status == "trivial only"
    few = judge_share("c", "s", [True] * 65, trivial=[True] * 60 + [False] * 5)
    assert (few.status, few.notes) == ("undecided", f"few instances: 5 of {MINIMUM}")
    assert judge_share("c", "s", [True] * 39 + [False], trivial=[True] * 40).status == "fails"
    share = judge_share("c", "s", [True] * 200, required=0.9, trivial=[True] * 200)
    assert share.status == "trivial only"


def test_readings_of_one_sentence_are_one_verdict():
    holds, fails = judge_share("a", "s", [True] * 30), judge_share("b", "s", [True, False], seeds=[7, 9])
    few, none = judge_share("c", "s", [True]), judge_share("d", "s", [])
    trivial = judge_share("e", "s", [True], trivial=[True])
    cases = {
        ("holds", "fails", "few"): "holds",
        ("fails", "fails"): "fails",
        ("fails", "few"): "undecided",
        ("fails", "none"): "undecided",
        ("none", "none"): "not measured",
        ("trivial", "none"): "trivial only",
        ("trivial", "fails"): "undecided",
    }
    named = {"holds": holds, "fails": fails, "few": few, "none": none, "trivial": trivial}
    for names, status in cases.items():
        verdict = from_readings("sentence", "s", [named[name] for name in names])
        assert verdict.status == status, names
        assert [row.reading for row in verdict.rows] == [named[name].claim for name in names]
    both = from_readings("sentence", "s", [fails, holds], kind="observation", notes="note")
    assert (both.kind, both.measured, both.failing_seeds) == ("observation", 1.0, ())
    assert both.notes == f"holds in 1 of 2 readings: {holds.claim}; note"
    assert from_readings("sentence", "s", [holds, holds], notes="note").notes == "note"
    assert from_readings("sentence", "s", [fails]).failing_seeds == (9,)
    assert "fails: b" in str(both)
    with pytest.raises(InputError, match="one per reading"):
        from_readings("sentence", "s", [])


def test_a_claim_about_settings_needs_all_of_them():
    holds, fails = judge_share("a", "s", [True] * 30), judge_share("b", "s", [True, False], seeds=[7, 9])
    more, few = judge_share("b", "s", [False], seeds=[3]), judge_share("c", "s", [True])
    none, trivial = judge_share("d", "s", []), judge_share("e", "s", [True], trivial=[True])
    cases = {
        (holds, holds): "holds",
        (holds, fails): "fails",
        (holds, few): "undecided",
        (holds, trivial): "undecided",
        (fails, none): "fails",
        (trivial, none): "trivial only",
        (none, none): "not measured",
    }
    for rows, status in cases.items():
        verdict = from_settings("claim", "s", rows)
        assert verdict.status == status
        assert [row.status for row in verdict.rows] == [v.status for v in rows]
    verdict = from_settings("claim", "s", [holds, fails, more])
    assert (verdict.failing_seeds, verdict.measured) == ((3, 9), 0.5)
    assert from_settings("claim", "s", [holds, few]).notes == ""
    assert verdict_from_dict(json.loads(json.dumps(verdict.to_dict()))) == verdict
    with pytest.raises(InputError, match="one per setting"):
        from_settings("claim", "s", [])


def test_a_reading_that_fails_keeps_its_seeds():
    fails = judge_share("strict", "s", [True, False], seeds=[7, 9])
    verdict = from_readings("sentence", "s", [judge_share("loose", "s", [True] * 30), fails])
    assert (verdict.status, [row.failing_seeds for row in verdict.rows]) == ("holds", [(), (9,)])


def test_outcomes_of_numpy_count_and_others_are_refused():
    verdict = judge_share("c", "s", list(np.arange(30) >= 1), required=0.5)
    assert (verdict.status, verdict.measured, verdict.failing_seeds) == ("holds", 29 / 30, (0,))
    for wrong in (1, 0.0, float("nan"), "yes"):
        with pytest.raises(InputError, match="True, False or None"):
            judge_share("c", "s", [wrong])


def test_what_was_not_measured_is_counted():
    nan = float("nan")
    some = judge_number("c", "s", [1.0] * 38 + [nan] * 2, (0.9, 1.1))
    assert (some.status, some.instances, some.eligible) == ("holds", 40, 38)
    assert some.notes == "2 of 40 values could not be measured"
    many = judge_number("c", "s", [1.0] * 37 + [nan] * 3, (0.9, 1.1))
    assert (many.status, many.measured) == ("undecided", 1.0)
    assert judge_number("c", "s", [2.0] * 30 + [nan] * 9, (0.9, 1.1)).status == "undecided"
    assert judge_number("c", "s", [nan] * 30, (0.9, 1.1)).status == "not measured"
    assert judge_number("c", "s", [1.0] * 99 + [nan], (0.9, 1.1), exact=True).status == "undecided"
    assert judge_number("c", "s", [nan], (0.9, 1.1), interval=(nan, nan), deciding=30).status == "not measured"


def test_an_interval_for_many_rows_is_wider_and_says_so():
    values = [0.0, 1.0] * 20
    assert judge_number("c", "s", values, (0.33, 0.67)).status == "holds"
    wide = judge_number("c", "s", values, (0.33, 0.67), level=1 - 0.05 / 16)
    assert wide.status == "undecided"
    assert wide.criterion.startswith("the 99.688% interval")
    share = judge_share("c", "s", [True] * 30 + [False] * 14, required=0.52)
    strict = judge_share("c", "s", [True] * 30 + [False] * 14, required=0.52, level=1 - 0.05 / 16)
    assert (share.status, strict.status) == ("holds", "undecided")
    assert strict.criterion.startswith("the 99.688% interval")


def test_the_rule_names_what_is_done():
    assert RULE.count(". ") == 0, "one sentence"
    for word in (*STATUSES, str(MINIMUM), "95%", "5%", "readings", "settings", "range of all its values", "wider"):
        assert word in RULE


def test_only_eligible_instances_count():
    verdict = judge_share("c", "s", [True, False] * 20, eligible=[True, False] * 20)
    assert (verdict.status, verdict.instances, verdict.eligible, verdict.failing_seeds) == ("holds", 40, 20, ())
    with pytest.raises(InputError, match="one entry per instance"):
        judge_share("c", "s", [True], seeds=[1, 2])


def test_a_share_is_judged_by_its_interval():
    assert judge_share("c", "s", [True] * 200, required=0.9).status == "holds"
    assert judge_share("c", "s", [True] * 25, required=0.9).status == "undecided"  # interval from 0.86
    assert judge_share("c", "s", [True] * 50 + [False] * 150, required=0.9).status == "fails"
    # 20 unreached horizons could all be failures
    assert judge_share("c", "s", [True] * 180 + [None] * 20, required=0.9).status == "undecided"


def test_numbers_are_judged_by_their_interval():
    assert judge_number("c", "s", [1.0, 1.01, 0.99] * 7, (0.9, 1.1)).status == "holds"
    assert judge_number("c", "s", [1.0, 1.01, 0.99] * 6, (0.9, 1.1)).status == "undecided"
    assert judge_number("c", "s", [2.0, 2.01, 1.99], (0.9, 1.1)).status == "fails"
    assert judge_number("c", "s", [1.0, 1.2, 0.8], (0.9, 1.1)).status == "undecided"
    pooled = judge_number("c", "s", [5.0], (0.0, 1.0), interval=(0.2, 0.3), deciding=50)
    assert (pooled.status, pooled.instances, pooled.eligible) == ("holds", 50, 50)


def test_an_identity_is_decided_by_every_value():
    assert judge_number("c", "s", [1.0], (0.9, 1.1), exact=True).status == "holds"
    assert judge_number("c", "s", [1.0, 1.0, 2.0], (0.9, 1.1), exact=True).status == "undecided"
    assert judge_number("c", "s", [2.0], (0.9, 1.1), exact=True).status == "fails"


def test_coverage_of_the_exact_interval():
    rng = np.random.default_rng(1)
    hits = sum(low <= 0.3 <= high for low, high in (exact_interval(int(k), 40) for k in rng.binomial(40, 0.3, 2000)))
    assert hits / 2000 >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / 2000)


def test_verdicts_travel_as_json_and_print():
    verdict = judge_share("tokens meet", "Theorem 9", [True, None], kind="conjecture")
    again = verdict_from_dict(json.loads(json.dumps(verdict.to_dict())))
    assert again == verdict
    rows = from_readings("tokens meet", "sec. 9", [verdict, judge_share("c", "s", [True] * 30)])
    assert verdict_from_dict(json.loads(json.dumps(rows.to_dict()))) == rows
    assert "tokens meet" in str(verdict)
    open_end = Verdict("c", "s", "undecided", "observation", "r", 0, 0, np.nan, (-np.inf, np.inf))
    assert json.loads(json.dumps(open_end.to_dict(), allow_nan=False))["measured"] is None


def test_a_verdict_without_deciding_instances_says_so():
    told = ("a claim", "a paper", "undecided", "theorem", "a criterion", 7, 0)
    assert Verdict(*told, float("nan"), (0.0, 1.0)).reading() == "not measured"
    assert Verdict(*told, 0.5, (0.25, 1.0)).reading() == "0.5 [0.25, 1]"
    assert "nan" not in str(Verdict(*told, float("nan"), (0.0, 1.0)))


def test_ends_and_gaps_count_as_said():
    required = exact_interval(30, 30)[0]
    assert judge_share("c", "s", [True] * 30, required=required).status == "holds"  # at the end itself
    assert judge_share("c", "s", [True] * 30, required=np.nextafter(required, 1.0)).status == "undecided"
    assert judge_share("c", "s", [True, True, True, False, None], required=0.5).measured == 0.75  # of those decided
    nothing = judge_number("c", "s", [], (0.0, 1.0), exact=True)
    assert nothing.status == "not measured"
    open_ended = judge_number("c", "s", [0.5], (0.0, 1.0), interval=(-np.inf, np.inf), deciding=30)
    assert verdict_from_dict(open_ended.to_dict()).interval == (-np.inf, np.inf)
    whole, cut = (repr(judge_number("c" * size, "s", [0.5] * 30, (0.0, 1.0))) for size in (100, 101))
    assert "c" * 100 in whole
    assert "c" * 99 + "…" in cut
