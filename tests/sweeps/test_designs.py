"""What a user may write for the values of a parameter, and which runs follow."""

import json

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.sweeps.axes import Drawn, outside, plain, read_axis, restored
from metastable.sweeps.chunks import Part, restored_part
from metastable.sweeps.designs import Box, Design, make_design, new_boxes, restored_design

FLOAT, WHOLE, TEXT = ["float"], ["int"], ["str"]


@pytest.mark.parametrize(
    ("name", "given", "kinds", "values"),
    [
        ("beta", [0.5, 1], FLOAT, (0.5, 1.0)),
        ("beta", "0.5,1,2", FLOAT, (0.5, 1.0, 2.0)),
        ("beta", "0.5:9:3", FLOAT, (0.5, 4.75, 9.0)),
        ("beta", {"start": 0.5, "stop": 9, "count": 3}, FLOAT, (0.5, 4.75, 9.0)),
        ("beta", "0.1:10:3:log", FLOAT, (0.1, 1.0, 10.0)),
        ("seed", {"start": 0, "count": 300}, WHOLE, range(300)),
        ("seed", "5:8", WHOLE, range(5, 8)),
        ("n", {"start": 8, "count": 3, "step": 8}, WHOLE, range(8, 32, 8)),
        ("mask", "full,window(8, causal)", TEXT, ("full", "window(8, causal)")),
        ("V", "1,1;1,-1", ["str", "float", "list"], ("1,1", "1,-1")),
        ("V", [[1.0, 1.0], "goe"], ["str", "float", "list"], ("[1.0, 1.0]", "goe")),
        ("beta", 3, FLOAT, (3.0,)),
        ("beta", "0.5..9", FLOAT, Drawn(0.5, 9.0)),
        ("n", {"low": 4, "high": 8}, WHOLE, Drawn(4.0, 8.0, "linear", True)),
    ],
)
def test_values_of_a_parameter(name, given, kinds, values):
    found = read_axis(name, given, kinds)
    assert found == pytest.approx(values) if kinds == FLOAT and isinstance(values, tuple) else found == values
    assert restored(json.loads(json.dumps(plain(found)))) == found


@pytest.mark.parametrize(
    ("name", "given", "kinds", "said"),
    [
        ("beta", "0.5:9", FLOAT, "how many"),
        ("beta", [], FLOAT, "no values"),
        ("beta", [1.0, 1.0], FLOAT, "more than once"),
        ("beta", ["x"], FLOAT, "finite number"),
        ("beta", [float("nan")], FLOAT, "finite number"),
        ("n", [2.5], WHOLE, "whole number"),
        ("n", {"start": 1, "stop": 2, "count": 3}, WHOLE, "whole number"),
        ("beta", {"start": 0, "count": 0}, FLOAT, "count of beta"),
        ("beta", {"begin": 0, "count": 2}, FLOAT, "Unknown entry"),
        ("beta", {"low": 2, "high": 1}, FLOAT, "low < high"),
        ("beta", {"start": -1, "stop": 1, "count": 3, "scale": "log"}, FLOAT, "positive"),
        ("mask", {"start": 0, "count": 2}, TEXT, "give a list"),
        ("seed", True, WHOLE, "cannot be True"),
    ],
)
def test_values_that_mean_nothing_are_refused(name, given, kinds, said):
    with pytest.raises(InputError, match=said):
        read_axis(name, given, kinds)


def test_a_long_range_stays_short():
    seeds = read_axis("seed", {"start": 0, "count": 10**9}, WHOLE)
    assert plain(seeds) == {"start": 0, "count": 10**9, "step": 1}
    assert outside(seeds, range(10**8)) == range(10**8, 10**9)


def everything(boxes):
    names = sorted(boxes[0].axes)
    found = [tuple(row) for box in boxes for row in zip(*(box.columns(np.arange(box.runs))[n] for n in names))]
    assert len(found) == len(set(found))
    return set(found)


def test_an_extension_has_the_new_runs_and_no_old_one():
    old = Design({"n": (4, 8), "seed": range(3), "beta": (1.0, 2.0)})
    new = Design({"n": (4, 8), "seed": range(5), "beta": (0.5, 1.0, 2.0, 3.0)})
    first, more = everything(new_boxes(old, None)), everything(new_boxes(new, old))
    assert not first & more
    assert first | more == everything(new_boxes(new, None))
    assert new_boxes(new, new) == []
    with pytest.raises(InputError, match="leaves out"):
        new_boxes(old, new)


def test_drawn_points():
    axes = {"beta": Drawn(0.5, 8.0, "log"), "n": Drawn(4, 6, "linear", True), "seed": range(2)}
    design = make_design(axes, "random", 50, seed=3)
    found = design.draws.columns(np.arange(50))
    assert found["beta"].min() >= 0.5
    assert found["beta"].max() < 8.0
    assert set(found["n"].tolist()) == {4, 5, 6}
    later = make_design(axes, "random", 80, seed=3)  # more samples: the first stay
    assert np.array_equal(later.draws.columns(np.arange(50))["beta"], found["beta"])
    assert design.runs == 100
    assert restored_design(json.loads(json.dumps(design.plain()))) == design


def test_a_latin_hypercube_fills_every_row_and_column():
    design = make_design({"beta": Drawn(0.0, 1.0), "noise": Drawn(0.0, 1.0)}, "latin", 20, seed=1)
    for values in design.draws.columns(np.arange(20)).values():
        assert sorted((values * 20).astype(int).tolist()) == list(range(20))
    longer = make_design({"beta": Drawn(0.0, 1.0), "noise": Drawn(0.0, 1.0)}, "latin", 30, seed=1)
    with pytest.raises(InputError, match="cannot be extended"):
        new_boxes(longer, design)


def test_samples_go_with_drawn_parameters():
    with pytest.raises(InputError, match="say how many"):
        make_design({"beta": Drawn(0.0, 1.0)}, "random", None, 0)
    with pytest.raises(InputError, match="every value is listed"):
        make_design({"beta": (1.0,)}, "grid", 5, 0)
    with pytest.raises(InputError, match="did you mean 'latin'"):
        make_design({"beta": Drawn(0.0, 1.0)}, "lattin", 5, 0)


def test_chunks_cover_every_run_once():
    box = Box({"n": (4, 8, 16), "seed": range(10), "beta": (1.0, 2.0, 3.0)})
    part = Part(box, 1, (16, 8, 1), ({"engine": "a"}, {"engine": "b"}, {"engine": "c"}), offset=100, before=7)
    chunks = [part.chunk(k) for k in range(part.chunks)]
    assert [k for c in chunks for k in range(c.first, c.last)] == list(range(90))
    assert [c.number for c in chunks] == list(range(7, 7 + part.chunks))
    assert part.chunks == 2 + 4 + 30
    assert {c.how["engine"] for c in chunks if c.first >= 60} == {"c"}
    assert restored_part(json.loads(json.dumps(part.plain()))) == part
