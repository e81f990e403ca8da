"""What an experiment leaves behind besides verdicts: its self-check, captions, finding; and the plain formulas."""

import ast
import inspect

import numpy as np
import pytest

from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import SelfCheckError, self_check
from metastable.experiments.run_one import run_into
from metastable.experiments.workers import Task, run_task
from tests.reproduce import fakes


@pytest.fixture(autouse=True)
def log(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def test_a_record_holds_captions_checks_and_the_finding(tmp_path):
    record = run_into(fakes.make("good"), tmp_path / "good", "quick")
    assert record.figures == (("seeds-in-order.svg", "Seeds in order", "Seeds from 0 on."),)
    made_of_settings = "chunk = 2, pause = 0.0, crash = False, holds = True, kill_at = -1, mistake = 0.0, "
    assert record.films == (("turning.mp4", "Turning", made_of_settings + "4 instances from seed 0 on."),)
    assert record.checks == (("two and two", 0.0, 1e-9),)
    assert record.finding == ("Seeds are claimed to grow.", "The last is 3.", "Seeds in order")
    assert (record.about["topic"], record.about["leaves_out"]) == ("theorem", "")


def test_a_disagreement_stops_the_experiment_before_it_runs(tmp_path, log):
    task = Task("mistaken", "tests.reproduce.fake_mistaken", tmp_path / "mistaken", "quick", {})
    result = run_task(task, lambda share, text: None)
    assert result.failed
    assert "two and two differs from the paper's formula" in result.error
    assert "by 0.5; 1e-09 is allowed" in result.error
    assert not log.exists(), "nothing was run"


def test_what_is_no_number_is_no_agreement():
    experiment = fakes.make("good")
    for mistake in (np.nan, np.inf):
        with pytest.raises(SelfCheckError, match="two and two"):
            self_check(experiment, fakes.Params(mistake=mistake))
    with pytest.raises(SelfCheckError, match="has shape"):
        self_check(experiment, fakes.Params(mistake=np.zeros(2)))  # type: ignore[arg-type]


# --- plain formulas -----------------------------------------------------------------------------------------------


def test_plain_formulas_import_nothing_of_the_simulator():
    tree = ast.parse(inspect.getsource(plain))
    names = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names == {"numpy", "collections.abc"}


def test_attention_by_hand():
    x = np.array([[1.0, 0.0], [0.0, 1.0]])
    Q, K = np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([[1.0, 0.0], [3.0, 1.0]])
    scores = np.array([[1.0, 0.0], [2.0 + 3.0, 1.0]])  # <Q x_i, K x_j>: Q x = (1,0), (2,1); K x = (1,3), (0,1)
    expected = np.exp(0.5 * scores) / np.exp(0.5 * scores).sum(axis=1, keepdims=True)
    assert plain.attention(x, Q, K, 0.5) == pytest.approx(expected)
    assert plain.attention(x, Q, K, 0.5, causal=True)[0] == pytest.approx([1.0, 0.0])
    V = np.array([[0.0, 1.0], [0.0, 0.0]])  # V e_2 = e_1, V e_1 = 0
    assert plain.pull(x, Q, K, V, 0.5)[:, 0] == pytest.approx(expected[:, 1])


def test_rescaled_tokens_are_the_flow_seen_from_e_tv():
    rng = np.random.default_rng(3)
    x, Q, K, V = rng.normal(size=(5, 2)), *rng.normal(size=(3, 2, 2)) / 2
    moved = plain.moved(lambda t, y: plain.pull(y, Q, K, V, 0.7), x, 0.8, 200)
    seen = plain.moved(lambda t, z: plain.rescaled(t, z, Q, K, V, 0.7), x, 0.8, 200)
    assert seen @ plain.flow_of(0.8, V).T == pytest.approx(moved, abs=1e-9)


def test_two_tokens_on_the_circle_meet_at_the_rate_of_the_closed_form():
    # Q = K = V = I, beta = 0: the angle a between two tokens obeys a' = -sin a, so tan(a/2) falls like e^-t
    start = np.array([[1.0, 0.0], [np.cos(1.0), np.sin(1.0)]])
    one = np.eye(2)
    x = plain.moved(lambda t, y: plain.projected(y, plain.pull(y, one, one, one, 0.0)), start, 1.5, 100)
    angle = np.arccos(x[0] @ x[1])
    assert np.tan(angle / 2) == pytest.approx(np.exp(-1.5) * np.tan(0.5), abs=1e-8)
