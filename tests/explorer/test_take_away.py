"""The code that is taken away makes the same tokens, whatever was steered (tables and settings: test_steering.py)."""

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


@pytest.mark.slow  # every program compiles its run anew
@pytest.mark.parametrize("name", STATES)
def test_the_code_makes_the_same_tokens(name, tmp_path, monkeypatch):
    made = make(STATES[name])
    monkeypatch.chdir(tmp_path)
    space = {}
    exec(compile(taken("python")[2](made).decode(), "run.py", "exec"), space)
    assert np.allclose(space["run"].x, made.run.x, rtol=0, atol=1e-12)
    assert (tmp_path / "run.html").stat().st_size > 10_000
