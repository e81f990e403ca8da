"""States and links: what a page may ask for, and what it may not."""

import re

import numpy as np
import pytest

import metastable as ms
from metastable.config.job import build
from metastable.config.settings import Simulate
from metastable.errors import InputError
from metastable.explorer.computing import Cancelled, Ticket, Workshop, make, quick
from metastable.explorer.payload import describe
from metastable.explorer.presets import FIRST, PRESETS, SECOND, TOUR
from metastable.explorer.steering import (
    DEFAULTS,
    eigenvalues_of,
    eigenvalues_text,
    from_query,
    moved_of,
    moved_text,
    settings_of,
    tidy,
    to_query,
    work_of,
)
from metastable.explorer.take_away import TAKEN
from metastable.plots.motion import read_motion

SMALL = {"n": 6, "t": 1.0}


def test_a_link_holds_what_differs_and_comes_back():
    state = {"n": 9, "beta": 2.5, "mask": "causal", "V": "1+2j,1-2j,0.5", "seed": 4}
    assert from_query(to_query(state)) == state
    assert to_query(DEFAULTS) == ""


def test_the_links_own_names_are_left_alone():
    assert from_query("look=trails&at=0.5&view=1,2,3&n=5&token=abc") == {"n": 5}


@pytest.mark.parametrize("one", [*PRESETS, *TOUR], ids=lambda one: getattr(one, "key", one.title))
def test_every_preset_and_step_is_a_run_that_can_be_asked_for(one):
    settings = settings_of(one.state)
    assert isinstance(settings, Simulate)
    if not str(settings.V).startswith("model:"):
        build(settings)  # every check that is made before a run
    assert from_query(to_query(one.state)) == tidy(one.state)


def test_presets_have_keys_of_their_own_and_say_what_to_watch():
    keys = [one.key for one in PRESETS]
    assert len(set(keys)) == len(keys)
    assert all(len(one.watch) > 30 for one in PRESETS)


def test_eigenvalues_follow_the_dimension():
    assert eigenvalues_of("1,0.5", 3) == [1, 0.5, 0.5]
    assert eigenvalues_of("goe", 3) == []
    assert eigenvalues_text(eigenvalues_of("1+2j,1-2j", 3)) == "1+2j,1-2j,1"
    assert eigenvalues_text(eigenvalues_of("1+2j,1-2j", 1)) == "1"  # half a pair is none


def test_moved_tokens_start_where_they_were_put():
    state = {**SMALL, "d": 2, "moved": moved_text({2: [3.0, 4.0]})}
    run = make(state).run
    np.testing.assert_allclose(run.x[0, 2], [0.6, 0.8])
    assert moved_of("") == {}
    with pytest.raises(ms.InputError, match="moved token"):
        make({**state, "moved": "99:1:0"})


def test_a_run_is_that_of_the_package():
    state = {"n": 7, "d": 3, "beta": 3.0, "mask": "causal", "t": 2.0, "seed": 5}
    x0 = ms.initial.sphere(7, 3, seed=5)
    own = ms.simulate(ms.Dynamics(beta=3.0, mask="causal"), x0, t=2.0)
    np.testing.assert_allclose(make(state).run.x, own.x, atol=1e-12)


@pytest.mark.parametrize(
    "name",
    ["way-out/x", "../../etc", "/etc", "~root", "org/model", "reactions-albert-x", " reactions-albert", ""],
)
def test_a_head_is_taken_from_a_model_of_the_zoo_and_from_nowhere_else(name):
    for matrix in ("Q", "K", "V"):
        with pytest.raises(InputError, match="model of the zoo"):
            settings_of({matrix: f"model:{name}/head=0"})
    settings_of({"V": "model:reactions-albert/head=4/top=3"})


def test_what_a_run_costs_counts_heads_dimension_and_starts():
    wide = {"n": 600, "heads": 16, "d": 128}
    assert work_of({**wide, "t": 1.0}) == 600**2 * 10 * 16 * 128
    assert work_of(SMALL, runs=16) == 16 * work_of(SMALL)
    assert quick({})
    assert not quick({**wide, "t": 1.0})
    assert not quick({"n": 300, "t": 30.0}, runs=16)
    with pytest.raises(InputError, match="heads"):
        settings_of(wide)
    layers = {"method": "layers", "n": 4000, "t": 1000.0}  # a layer is a step of 1
    assert work_of(layers) == 4000**2 * 1000 * 3
    settings_of(layers)


def test_the_line_above_the_scene_names_what_is_not_usual():
    run = make({**SMALL, "score": "distance", "geometry": "euclidean"}).run
    assert describe(run, read_motion(run)).endswith("full, softmax, distance, euclidean")


def test_what_is_wrong_is_said_before_what_it_would_cost():
    with pytest.raises(InputError, match="^dt must be"):
        settings_of({"dt": 0.0})


def test_a_token_moved_to_where_it_has_no_direction_is_refused():
    with pytest.raises(InputError, match="token 1 has no direction"):
        make({**SMALL, "moved": "1:0:0:0"})
    far = make({**SMALL, "moved": "1:1e300:0:-1e300"}).run.x[0, 1]
    np.testing.assert_allclose(far, [2**-0.5, 0.0, -(2**-0.5)], atol=1e-12)


def test_a_run_is_computed_once_and_given_up_when_nobody_waits():
    workshop = Workshop()
    first = workshop.get(SMALL, Ticket())
    assert workshop.get(dict(SMALL), Ticket()) is first
    gone = Ticket()
    gone.cancel()
    with pytest.raises(Cancelled):
        workshop.get({**SMALL, "seed": 1}, gone)
    with pytest.raises(InputError):
        workshop.get({**SMALL, "moved": "99:0:0:1"}, Ticket())
    assert not workshop.making  # neither leaves anything behind
    workshop.close()


def test_settings_and_code_that_are_taken_away_make_the_same_run(tmp_path, monkeypatch):
    state = {"n": 5, "beta": 2.0, "t": 1.0, "V": "1,0.5,-0.5", "seed": 3, "moved": "1:0:0:1"}
    made = make(state)
    code = TAKEN["python"][2](made).decode()
    monkeypatch.chdir(tmp_path)
    space = {}
    exec(code, space)
    np.testing.assert_allclose(space["run"].x, made.run.x, atol=1e-12)
    assert (tmp_path / "run.html").exists()
    import tomllib

    table = tomllib.loads(TAKEN["toml"][2](made).decode())["simulate"]
    assert table["V"] == "1,0.5,-0.5"
    rows = TAKEN["csv"][2](made).decode().splitlines()
    assert len(rows) == 1 + 5 * len(made.run.t)


def test_a_state_that_would_fill_memory_is_refused_in_a_sentence():
    settings_of({"n": 4000, "d": 32, "t": 1.0})
    with pytest.raises(InputError, match="512,000 coordinates"):
        settings_of({"n": 4000, "d": 128, "t": 1.0})


def test_every_figure_of_the_papers_has_a_preset():
    def figures(paper):
        said = " ".join(one.source for one in PRESETS if one.source.startswith(paper))
        return set(re.findall(r"\b\d+[ab]?\b", " ".join(re.findall(r"Figs?\.? ([\d ab,and]+)", said))))

    # all that their texts show or name; both lists were read off the papers
    assert figures(FIRST) == set("12345678")
    assert figures(SECOND) == {*"1234568", "7a", "7b", "10", "11", "13", "14", "15"}
