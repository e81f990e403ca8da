"""Broken simulators are noticed; the whole list is ``python -m tests.broken``."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from metastable.equation import attention
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import EXPERIMENTS, experiment
from metastable.experiments.base import SelfCheckError, self_check
from metastable.report.gallery import SLOTS
from tests.broken.__main__ import MOVING, _summary, everybody, main
from tests.broken.breakages import KINDS, Breakage, _mistaken, broken_equation
from tests.broken.excuses import EXCUSED
from tests.broken.own_code import USED_BY
from tests.broken.trials import Trial, _trial, trials

MODELS = {slot.name for slot in SLOTS}


@pytest.mark.parametrize("kind", ["transposed", "no V", "half beta"])
def test_a_broken_engine_stops_the_collapse(kind):
    made = experiment("collapse")
    params = made.params(**made.quick, n=8)
    self_check(made, params)
    with Breakage("lanes", kind).applied(), pytest.raises(SelfCheckError, match="tokens after the first steps"):
        self_check(made, params)
    self_check(made, params)  # whole again


@pytest.mark.slow
def test_verdicts_move_with_mask_and_beta(capsys):
    found = list(trials("temperature", ("unmasked", "half beta")))
    reached = [t for t in found if t.reached]
    assert {t.breakage.kind for t in reached} == {"unmasked", "half beta"}
    assert all(t.stopped and t.changed for t in reached)
    assert main(["--only", "collapse", "--kind", "no V", "--checks"]) == 0
    assert "Self-checks that stayed silent: none." in capsys.readouterr().out


def test_every_experiment_without_a_model_checks_itself():
    bare = {name for name in EXPERIMENTS if name not in MODELS and experiment(name).check is None}
    assert not bare


def test_a_crash_is_neither_a_refusal_nor_a_verdict(monkeypatch, capsys):
    """Only the self-check's own refusal counts as stopped; anything else is named, and the list is not empty."""

    def crash(params):
        raise RuntimeError("the lamp went out")

    made = dataclasses.replace(experiment("long-context"), check=crash, run=lambda params, work: crash(params))
    found = _trial(made, None, Breakage("equation", "half beta"), {}, ["holds"], True)
    assert (found.stopped, found.changed, found.silent_check, found.silent_verdicts) == ("", 0, True, False)
    assert [error.partition(":")[0] for error in found.errors] == ["check", "run"]
    assert _summary([found], checks=False) == 1
    said = capsys.readouterr().out
    assert "Ended in an error, which is no verdict: long-context (half beta in equation)." in said
    refused = dataclasses.replace(found, stopped="It differs.", errors=(), changed=1)
    assert _summary([refused], checks=False) == 0


def test_verdicts_have_to_notice_transposed_attention(capsys):
    only = Trial("collapse", Breakage("lanes", "transposed"), "It differs.", True, 0, 3)
    assert only.silent_verdicts
    assert _summary([only], checks=False) == 1
    said = capsys.readouterr().out
    assert "Verdicts that stayed silent with self-checks off: collapse (transposed in lanes)." in said


def test_an_ensemble_is_transposed_as_one():
    first, second = (_mistaken(Dynamics(beta=b), "transposed") for b in (1.0, 2.0))
    assert first.normalise is second.normalise


def test_tokens_as_values_need_no_map_back():
    """'no V' in the equation drops O too, as in the engines: with values narrower than tokens it was an error."""
    rng = np.random.default_rng(0)
    x, V, O = rng.normal(size=(4, 3)), rng.normal(size=(2, 2, 3)), rng.normal(size=(2, 3, 2))
    dyn = Dynamics(Weights(Q=rng.normal(size=(2, 3, 3)), V=V, O=O))
    without = dataclasses.replace(dyn, weights=dataclasses.replace(dyn.weights, V=None, O=None))
    plainly = attention.mix(without, without.weights, x, x)
    with broken_equation("no V"):
        assert np.allclose(attention.mix(dyn, dyn.weights, x, x), plainly)


def test_what_runs_the_equation_is_asked():
    """Experiments on models, too, where their numbers come from it."""
    home = Path(__file__).parents[2] / "src" / "metastable" / "experiments"
    words = ("simulate(", "climb(", "fitted_systems")
    moving = {n for n in MODELS if any(word in (home / f"{EXPERIMENTS[n]}.py").read_text() for word in words)}
    assert moving <= set(MOVING)
    assert set(everybody()) == (set(EXPERIMENTS) - MODELS) | set(MOVING)


def test_tables_name_what_exists():
    assert all(set(names) <= EXPERIMENTS.keys() and set(kinds) <= set(KINDS) for names, kinds in USED_BY.values())
    assert all(name in EXPERIMENTS and kind in KINDS for name, _, kind in EXCUSED)
    home = Path(__file__).parents[2] / "src" / "metastable" / "experiments"
    beside = ("metastable.reduced", "metastable.engines.exact", "metastable.continuum.law_pull")  # moved without a plan
    found = {p.stem for p in home.glob("*.py") if any(f"from {place}" in p.read_text() for place in beside)}
    asked = {EXPERIMENTS[name] for names, _ in USED_BY.values() for name in names}
    assert found <= asked, "break what moves tokens without an engine in own_code.py too"
