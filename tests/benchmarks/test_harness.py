"""The benchmark harness in its tiny mode: processes, comparison, tables, goals."""

import numpy as np
import pytest

from benchmarks import __main__ as program
from benchmarks import harness, kept, narrow, processes, report, rounds, workloads

Case, Engine, Goal, Row = harness.Case, harness.Engine, harness.Goal, harness.Row
Table, Workload = harness.Table, harness.Workload
WORKLOADS, load = workloads.WORKLOADS, workloads.load


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_loads_and_holds_together(name):
    workload = load(name)
    keys = [case.key for case in workload.cases(False)]
    assert keys == [case.key for case in workload.cases(True)]
    assert len(set(keys)) == len(keys)
    assert harness.OURS in workload.engines
    for engine in workload.engines.values():
        assert engine.reference is None or engine.reference in workload.engines
        assert set(engine.only or ()) <= set(keys)


@pytest.mark.parametrize("name", WORKLOADS)
def test_goals_ask_for_engines_and_cases_that_exist(name):
    workload = load(name)
    cases = {case.key: case for case in workload.cases(False)}
    rows = {
        key: [Row(n, "", 1.0, 1.0, 0.0, 0.0, 1.0) for n, e in workload.engines.items() if e.takes(case)]
        for key, case in cases.items()
    }
    table = Table(name, workload, {}, cases, rows)
    for goal in workload.goals:
        assert np.isfinite(goal.measure(table))


@pytest.mark.slow
def test_a_quick_run_writes_tables_and_judges_nothing(tmp_path, capsys):
    out = tmp_path / "deep" / "results.md"
    assert program.main(["W6", "--quick", "--out", str(out)]) == 0
    text = out.read_text()
    assert text.startswith("# Benchmark results")
    assert "quick trial" in text
    assert "| metastable" in text
    assert "speed over torch SDPA's" in text
    assert "peak exp float64" in text
    assert "## W6" in capsys.readouterr().out


def test_a_workload_measured_again_replaces_its_own_section(tmp_path):
    folder, facts = tmp_path / "RESULTS", {"date": "2026-01-01 10:00 UTC", "commit": "abc", "CPU": "one"}
    for name, seconds in (("W1", 2.0), ("W2", 3.0), ("W1", 1.0)):
        case = load(name).cases(True)[0]
        rows = [Row(harness.OURS, "", seconds, times={0: seconds, 3: 2 * seconds}), Row("peer", "", absent="no such")]
        kept.keep(folder, Table(name, load(name), {"exp": 1e9}, {case.key: case}, {case.key: rows}, facts=facts))
    first, second = kept.kept(folder)
    assert (first.name, second.name) == ("W1", "W2")
    ours, absent = first.rows[case.key]
    assert ours.times == {0: 1.0, 3: 2.0}
    assert np.isnan(ours.error)
    assert absent.absent == "no such"
    report.write(tmp_path / "RESULTS.md", [first, second], quick=False)
    text = (tmp_path / "RESULTS.md").read_text()
    assert text.count("at commit abc") == 2
    assert text.index("## W1") < text.index("## W2") < text.index("## Machine")


def test_unknown_workload():
    with pytest.raises(SystemExit) as stop:
        program.main(["W99"])
    assert stop.value.code == 2


def table(goal):
    workload = Workload("title", lambda quick: [], {}, 0.0, (goal,))
    rows = {"a": [Row(harness.OURS, "", 2.0, megabytes=10.0), Row("peer", "", 6.0, share=0.5, megabytes=10.0)]}
    return Table("T", workload, {}, {"a": Case("a", {"n": 3})}, rows)


@pytest.mark.parametrize(("bound", "at_least", "met"), [(2.5, True, "yes"), (3.5, True, "no"), (2.5, False, "no")])
def test_goals_are_judged_by_what_was_measured(bound, at_least, met):
    goal = Goal("faster", lambda t: t.faster("a", "peer"), bound, at_least)
    line = report.goals([table(goal)], quick=False)[-2]
    assert [word.strip() for word in line.strip("|").split("|")][-2:] == ["3x", met]


def test_a_goal_without_its_engine_is_not_measured():
    goal = Goal("faster", lambda t: t.faster("a", "absent peer"), 2.0)
    assert "not measured" in report.goals([table(goal)], quick=False)[-2]


def test_scaled_times_are_marked():
    lines = "\n".join(report.tables(table(Goal("", lambda t: 0.0, 0.0))))
    assert "timed on 50% of the work, scaled" in lines


def test_difference_compares_the_part_that_both_did():
    whole = np.arange(6.0).reshape(3, 2)
    assert harness.difference(whole[:1] + 1e-3, whole) == pytest.approx(1e-3)
    assert harness.difference(whole, whole[:1]) == 0.0
    with pytest.raises(harness.Failure, match="shapes"):
        harness.difference(whole, whole.T)
    assert harness.difference(2 * whole, whole) == 1.0
    assert not harness.difference(whole * np.nan, whole) <= 1.0  # nan never agrees


def test_disagreement_stops_a_workload(monkeypatch):
    replies = {"first": np.zeros(2), "second": np.ones(2)}

    class Fake:
        def __init__(self, workload, engine, python=None):
            self.engine = engine

        def ask(self, *request):
            return replies[self.engine], 1.0, 0.1

        def stop(self):
            pass

    monkeypatch.setattr(processes, "Worker", Fake)
    engines = {name: Engine(lambda case: lambda: np.zeros(2)) for name in replies}
    workload = Workload("title", lambda quick: [Case("a", {"n": 2})], engines, 1e-3)
    found = harness.measure("T", workload, True, {}, lambda text: None)
    assert "second is off by 1" in found.failure


def test_ratios_are_of_the_same_rounds():
    ours = {0: 1.0, 1: 2.0, 2: 4.0}
    theirs = {1: 4.0, 2: 8.0, 3: 100.0}  # a slow phase, in which both are slow, leaves the ratio as it is
    assert rounds.ratio(theirs, ours) == rounds.Spread(2.0, 2.0, 2.0, 2)
    assert rounds.ratio({5: 1.0}, ours) is None
    assert str(rounds.ratio({0: 1.0, 1: 4.0, 2: 12.0}, ours)) == "2 (1.5 to 2.5)"


def test_rounds_go_on_until_ratios_settle(monkeypatch):
    monkeypatch.setattr(rounds, "_PAUSE", 0.0)
    noise = np.random.default_rng(0)
    steady = {"metastable": lambda seconds: 1.0, "peer": lambda seconds: 2.0}
    shaky = {"metastable": lambda seconds: 1.0, "peer": lambda seconds: 2.0 * noise.uniform(0.5, 2.0)}
    few, many = (rounds.interleaved(ask, "metastable", False, lambda text: None) for ask in (steady, shaky))
    assert len(few["peer"]) == 5
    assert len(many["peer"]) > 20
    assert len(rounds.interleaved(shaky, "metastable", True, lambda text: None)["peer"]) == 2


def test_every_engine_of_ours_has_its_version_before():
    engines = harness.with_before(dict.fromkeys(["numpy", "metastable", "metastable, causal"], Engine(None)))
    assert list(engines) == ["numpy", "metastable", "before", "metastable, causal", "before, causal"]
    assert [name for name in engines if harness.is_before(name)] == ["before", "before, causal"]


@pytest.mark.parametrize(("now", "met"), [([1.0, 1.0, 1.0], "yes"), ([1.05, 1.5, 1.5], "no"), ([1.0, 1.0, 9.0], "yes")])
def test_slower_than_before_beyond_the_spread_misses_a_goal(now, met):
    found = table(Goal("", lambda t: 0.0, 0.0))
    found.rows["a"][0].times = dict(enumerate(now))
    found.rows["a"].append(Row("before", "", 1.0, times=dict.fromkeys(range(3), 1.0)))
    line = report.goals([found], quick=False)[-2]
    assert "before" in line
    assert line.strip("| ").endswith(met)
    assert "time / before" in "\n".join(report.tables(found))


def test_narrow_leaves_nothing_wider_than_avx2():
    pytest.importorskip("llvmlite")
    found = narrow.environment()
    features = found["NUMBA_CPU_FEATURES"].split(",")
    assert "+avx2" in features
    assert not [f for f in features if f.startswith(("+avx512", "+amx"))]
    assert "narrow" in found["METASTABLE_CACHE"]
