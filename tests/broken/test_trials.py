"""Broken simulators are noticed; the whole list is ``python -m tests.broken``."""

from pathlib import Path

import pytest

from metastable.experiments import EXPERIMENTS, experiment
from metastable.experiments.base import SelfCheckError, self_check
from metastable.report.gallery import SLOTS
from tests.broken.__main__ import main
from tests.broken.breakages import KINDS, Breakage
from tests.broken.own_code import OWN_CODE, USED_BY
from tests.broken.trials import trials

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


def test_tables_name_what_exists():
    assert all(set(names) <= EXPERIMENTS.keys() and set(kinds) <= set(KINDS) for names, kinds in USED_BY.values())
    home = Path(__file__).parents[2] / "src" / "metastable" / "experiments"
    reduced = [path.name for path in home.glob("*.py") if "metastable.reduced" in path.read_text()]
    broken = {name.partition(".")[0] for name in OWN_CODE}
    assert {name.removesuffix(".py") for name in reduced} <= broken, "break metastable.reduced in own_code.py too"
