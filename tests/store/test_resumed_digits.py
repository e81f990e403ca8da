"""A run cut at any checkpoint and taken up from disk has the same digits, certificate and end as one left alone."""

import warnings

import numpy as np
import pytest

import metastable as ms
from metastable.solve.plan import make_plan
from metastable.store import recorder

X = np.random.default_rng(7).uniform(-1, 1, (5, 2))
V = np.array([[0.9, 0.3], [0.1, -0.5]])
JORDAN = np.array([[0.4, 1.0], [0.0, 0.4]])


def rescaled(V, **more):
    return ms.Dynamics(ms.Weights(V=V), geometry="rescaled", **more)


EVEN = ms.Dynamics(beta=4.0)  # a symmetric start, which rounding breaks
SQUARE = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
slow = pytest.mark.slow
CASES = {
    "noise": (
        ms.Dynamics(beta=2.0, noise=0.3),
        ms.initial.sphere(5, 2, seed=7),
        {"t": 3.0, "dt": 0.05, "method": "euler", "save": 44, "seed": 9},
    ),
    "trust": (EVEN, SQUARE, {"t": 40.0, "trust": True, "save": 41}),
    "trust tsit5": (EVEN, SQUARE, {"t": 40.0, "trust": True, "save": 41, "method": "tsit5"}),
    "rescaled": (rescaled(V), X, {"t": 60.0, "save": 31}),
    "rescaled tsit5": (rescaled(V), X, {"t": 60.0, "save": 31, "method": "tsit5"}),
    "rescaled tsit5 that loses its digits": (
        rescaled(np.diag([1.0, 1.0])),
        np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]),
        {"t": 10.0, "save": 21, "method": "tsit5"},
    ),
    "rescaled without eigenvectors": (rescaled(JORDAN), X, {"t": 12.0, "save": 13}),
    "rescaled layers": (rescaled(V), X, {"t": 12.0, "dt": 0.5, "save": 13, "method": "layers"}),
}
QUICK = ("rescaled",)


class Cut(Exception):
    pass


def cut_after(count):
    left = [count]

    def progress(t):
        left[0] -= 1
        if left[0] < 0:
            raise Cut

    return progress


def recorded(case, folder, progress=None):
    dyn, x, asked = CASES[case]
    plan, tokens = make_plan(dyn, x, **asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return recorder.run(plan, tokens, folder, progress=progress)


@pytest.mark.parametrize("case", [c if c in QUICK else pytest.param(c, marks=slow) for c in CASES])
def test_a_run_cut_twice_has_the_digits_of_one_left_alone(case, tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "_INTERVAL", 0.0)
    seen = []
    whole = recorded(case, tmp_path / "whole", seen.append)
    assert len(seen) > 4
    assert (whole.valid_until is None) == (case == "noise")
    for first, second in ((1, 1), (2, 3), (len(seen) // 2, 1), (len(seen) - 1, 1)):
        folder = tmp_path / f"cut-{first}"
        for count in (first, second):
            try:
                recorded(case, folder, cut_after(count))
            except Cut:
                assert not (folder / "done").exists()
        run, read = recorded(case, folder), ms.load(folder)
        for got in (run, read):
            assert got.x.tobytes() == whole.x.tobytes()
            assert (got.valid_until, got.status, got.message) == (whole.valid_until, whole.status, whole.message)
