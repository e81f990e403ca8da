"""What is taken away says the same as the page: code makes the same tokens, a table holds them."""

import csv
import io
import tomllib

import numpy as np
import pytest

from metastable.explorer.computing import make
from metastable.explorer.take_away import taken

STATES = {
    "moved": {"n": 6, "t": 1.0, "moved": "2:0:0:1;4:1:1:0"},
    "noise": {"n": 6, "t": 1.0, "noise": 0.3, "seed": 5},
    "layers": {"n": 6, "t": 4.0, "method": "layers", "V": "0.5*goe", "mask": "causal"},
    "rescaled": {"n": 6, "t": 2.0, "geometry": "rescaled", "V": "1,0.5,-0.2", "beta": 1.0},
    "adaptive": {"n": 6, "t": 1.0, "method": "tsit5", "heads": 2, "Q": "psd", "K": "psd"},
}


def text_of(made, kind):
    return taken(kind)[2](made).decode()


@pytest.mark.slow  # every program compiles its run anew
@pytest.mark.parametrize("name", STATES)
def test_the_code_makes_the_same_tokens(name, tmp_path, monkeypatch):
    made = make(STATES[name])
    monkeypatch.chdir(tmp_path)
    space = {}
    exec(compile(text_of(made, "python"), "run.py", "exec"), space)
    assert np.allclose(space["run"].x, made.run.x, rtol=0, atol=1e-12)
    assert (tmp_path / "run.html").stat().st_size > 10_000


def test_the_table_holds_every_token_at_every_time():
    made = make(STATES["moved"])
    rows = list(csv.DictReader(io.StringIO(text_of(made, "csv"))))
    found = np.array([[float(row[f"x{k}"]) for k in (1, 2, 3)] for row in rows]).reshape(made.run.x.shape)
    assert np.allclose(found, made.run.x, rtol=1e-8, atol=1e-9)
    assert [int(row["token"]) for row in rows[:6]] == list(range(6))


def test_the_settings_say_that_moved_tokens_are_left_out():
    text = text_of(make(STATES["moved"]), "toml")
    assert tomllib.loads(text)["simulate"]["n"] == 6
    assert "moved by hand are not in this file" in text
