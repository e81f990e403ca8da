"""What a notebook shows: short lines, cards without arrays, films inline; and runs as tables for other tools."""

import html.parser
import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metastable as ms
from metastable.errors import InputError
from metastable.learning.fit_result import Fit
from metastable.theory.verdicts import from_readings, judge_share

X = ms.initial.sphere(6, 3, seed=3)
CURVE = {"value": np.array([1.0, 0.5, 1e-3]), "error": np.array([1.0, 0.5, 1e-3]), "effort": np.zeros(3)}
DYN = ms.Dynamics(ms.Weights(V=np.diag([1.0, 0.5, -0.25])), beta=4.0, mask="causal")
RK = ms.methods.Tableau(a=((), (1.0,)), b=(0.5, 0.5))


class Made:
    """What the tests look at, made when the first of them does: workers that run other tests do not compute it."""

    @cached_property
    def run(self):
        return ms.simulate(DYN, X, t=2.0, save=5)

    @cached_property
    def many(self):
        return ms.simulate(ms.Dynamics(beta=np.array([1.0, 4.0])), ms.initial.sphere(6, 3, runs=2), t=1.0, save=3)

    @cached_property
    def swept(self):
        return ms.sweep({"simulate": {"n": 4, "t": 0.2}, "sweep": {"beta": [1.0, 4.0], "seed": [0, 1, 2], "times": 2}})

    @cached_property
    def probed(self):
        return ms.models.from_arrays(np.random.default_rng(0).normal(size=(4, 5, 8)))


MADE = Made()


class Checked(html.parser.HTMLParser):
    """Opened and closed tags must match."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in ("img", "br", "rect", "circle", "polyline"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("rect", "circle", "polyline"):
            assert self.open.pop() == tag


SHOWN = {
    "weights": (lambda: DYN.weights, ["V", "eigenvalues 1, 0.5, -0.25"]),
    "identity": (lambda: ms.Weights(), ["identity"]),
    "many heads": (lambda: ms.Weights(V=np.ones((4, 3, 3))), ["4"]),
    "in time": (lambda: ms.Weights(V=lambda t: t * np.eye(2)), ["a function of t"]),
    "dynamics": (lambda: DYN, ["causal", "beta", "softmax of beta"]),
    "noisy": (lambda: ms.Dynamics(noise=0.5, score="distance"), ["noise", "distance"]),
    "run": (lambda: MADE.run, ["6 tokens in d = 3", "nothing certified", "rk4"]),
    "ensemble": (lambda: MADE.many, ["2 runs of 6 tokens"]),
    "measured": (lambda: ms.Trajectory(np.arange(3.0), np.ones((3, 4, 2))), ["4 tokens", "measured in a model"]),
    "loaded": (
        lambda: ms.Trajectory(np.arange(3.0), np.ones((3, 4, 2)), missing=("mask",)),
        ["not in the record: mask"],
    ),
    "verdict": (
        lambda: judge_share("a < b" + " and so on" * 20, "here", [True] * 30),
        ["Holds", "30 of 30", "a &lt; b"],
    ),
    "readings": (
        lambda: from_readings("Tokens meet.", "p. 1", [judge_share("all", "p. 1", [False])]),
        ["Fails", "all"],
    ),
    "sweep": (lambda: MADE.swept, ["6 runs at 2 times", "beta (2) x seed (3)", "6 done", "<svg"]),
    "fit": (
        lambda: Fit(DYN, X, {"V": np.eye(3)}, CURVE, {}, "done", idle=("beta",)),
        ["V (3, 3)", "0.001 after step 2", "no influence", "polyline"],
    ),
    "density": (lambda: ms.density(ms.Dynamics(), "uniform", t=0.1, d=2), ["the circle", "order"]),
    "probe": (lambda: MADE.probed, ["1 text, 5 tokens", "mean cosine", "similarity"]),
    "model": (lambda: MADE.probed.model, []),
    "escaped": (lambda: ms.Dynamics(mask=ms.Mask(lambda i, j: j <= i, name="<mine>")), ["&lt;mine&gt;"]),
}


@pytest.mark.parametrize("name", SHOWN)
def test_lines_and_cards(name):
    make, words = SHOWN[name]
    thing = make()
    line = repr(thing)
    assert line.startswith(type(thing).__name__ + "(")
    assert len(line) < 200
    assert "\n" not in line
    assert "array(" not in line
    if not words:
        return
    page = thing._repr_html_()
    reader = Checked()
    reader.feed(page)
    assert not reader.open
    assert len(page) < 60_000
    for word in words:
        assert word in page


def test_pictures_of_a_sweep_take_sizes_axes_and_have_captions():
    import matplotlib.pyplot as plt

    figure = MADE.swept.plot("heatmap", size="column")
    assert figure.get_size_inches()[0] == pytest.approx(3.4)
    assert figure.caption == "Clusters over beta and time: n = 4. Mean over seed."
    _, axes = plt.subplots()
    assert MADE.swept.plot("lines", by="beta", ax=axes).caption.endswith("with its 95% interval.")
    assert len(axes.lines) == 2
    with pytest.raises(InputError, match="'sizes'; did you mean 'size'"):
        MADE.swept.plot("heatmap", sizes=3)


def test_a_player_is_one_line_and_names_its_options():
    assert repr(MADE.run.view()).startswith("View(a run that plays")
    assert len(repr(MADE.run.view())) < 120
    with pytest.raises(InputError, match="'titel'; did you mean 'title'"):
        MADE.run.export("a.html", titel="x")


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: ms.Score("x"), "score must be a function"),
        (lambda: ms.methods.Explicit("h", order="x", tableau=RK), "whole number >= 1, not 'x'"),
        (lambda: ms.methods.Explicit("h", order=2, tableau=3), "tableau must be a Tableau"),
    ],
)
def test_parts_of_the_wrong_kind_are_refused_when_made(made, words):
    with pytest.raises(InputError, match=words):
        made()


def test_rows_of_a_sweep_are_printed_as_a_table():
    assert str(MADE.swept).splitlines()[0].split() == list(MADE.swept.columns)
    assert repr(MADE.swept.head(3)) == str(MADE.swept.head(3))
    assert repr(MADE.swept[["beta", "clusters"]]).startswith("    beta")
    assert "SweepTable" not in MADE.swept.head(3)._repr_html_()


def test_a_card_draws_every_token_within_its_picture():
    page = MADE.run._repr_html_()
    dots = page.split("<circle ")[2:]  # the first circle is the sphere
    assert len(dots) == 6
    for dot in dots:
        place = {k: float(v.strip("'")) for k, v in (w.split("=") for w in dot.split()[:3])}
        assert place["cx"] - place["r"] >= 0
        assert place["cx"] + place["r"] <= 112


# --- observables ---


def test_functions_names_and_dicts():
    def height(run):
        return run.x[..., 2].max(-1)

    alone = MADE.run.observe(height)
    assert alone.name == "height"
    assert np.array_equal(alone, MADE.run.x[..., 2].max(-1))
    both = MADE.run.observe(
        {"count": "clusters", "height": height, "norms": lambda run: np.linalg.norm(run.x, axis=-1)}
    )
    assert both.norms.dims == ("time", "token")
    assert np.array_equal(both["count"], MADE.run.observe("clusters"))
    assert list(MADE.run.observe(["energy", "order"]).data_vars) == ["energy", "order"]
    assert MADE.many.observe(height).dims == ("time", "run0")


def test_words_units_and_parameters_travel_along():
    data = MADE.run.observe("clusters")
    assert data.attrs["long_name"] == "number of clusters by single linkage"
    assert data.attrs["tolerance"] == 0.01
    assert data.attrs["tolerance_units"] == "rad"
    assert data.time.attrs["long_name"] == "time"
    assert (float(data.beta), str(data.mask.values), int(data.n), str(data.method.values)) == (4.0, "causal", 6, "rk4")
    assert MADE.run.observe("clusters", tolerance=0.5).attrs["tolerance"] == 0.5
    assert MADE.many.observe("order").beta.dims == ("run0",)
    assert MADE.many.observe("order").beta.values.tolist() == [1.0, 4.0]


@pytest.mark.parametrize(
    ("what", "options", "words"),
    [
        ("cluster", {}, "did you mean 'clusters'"),
        ("clusters", {"tol": 1}, "Unknown option of clusters 'tol'; did you mean 'tolerance'"),
        ("order", {"tol": 1}, "takes no options"),
        (lambda run: 3, {}, "one value, or one array, for every saved time"),
        (lambda run: ["a"] * 5, {}, "one value"),
        (lambda run: 1 / 0, {}, "ZeroDivisionError"),
        (3, {}, "a name or a function"),
        (["order"], {"a": 1}, "leave out a"),
    ],
)
def test_what_cannot_be_observed(what, options, words):
    with pytest.raises(InputError, match=words):
        MADE.run.observe(what, **options)


def test_a_function_in_a_series_and_in_an_ensemble():
    figure = MADE.run.plot(kind="series", observable=lambda run: run.x[..., 2].max(-1))
    assert np.allclose(figure.axes[0].lines[0].get_ydata(), MADE.run.x[..., 2].max(-1))
    with pytest.raises(InputError, match="Unknown option of plot 'observabel'; did you mean 'observable'"):
        MADE.run.plot(kind="series", observabel="order")
    x0 = ms.initial.sphere(6, 3, runs=2)
    data = ms.observe_many(ms.Dynamics(), x0, {"top": lambda run: run.x[..., 2].max(-1), "o": "order"}, t=1.0, save=3)
    assert data.top.dims == data.o.dims == ("time", "run")


# --- tables ---


def test_tables_hold_the_run_and_how_it_was_made(tmp_path):
    import pandas

    frame = MADE.run.to_pandas()
    assert list(frame.columns) == ["time", "token", "x0", "x1", "x2"]
    back = frame[["x0", "x1", "x2"]].to_numpy().reshape(MADE.run.x.shape)
    assert np.array_equal(back, MADE.run.x)
    assert frame.attrs["beta"] == 4.0
    assert frame.attrs["method"] == "rk4"
    path = MADE.run.to_csv(tmp_path / "new" / "run.csv")
    read = pandas.read_csv(path, comment="#")
    assert np.allclose(read.to_numpy(), frame.to_numpy(), atol=0)
    head = dict(line[2:].split(": ", 1) for line in path.read_text().splitlines() if line.startswith("# "))
    assert json.loads(head["mask"]) == "causal"
    assert "metastable" in head
    with pytest.raises(InputError, match=r"\.csv"):
        MADE.run.to_csv(tmp_path / "run.xlsx")
    many = MADE.many.to_pandas()
    assert list(many.columns) == ["time", "run0", "token", "x0", "x1", "x2"]
    assert many.set_index(["time", "run0", "token"]).loc[(1.0, 1, 5), "x2"] == MADE.many.x[-1, 1, 5, 2]
    data = MADE.many.to_xarray()
    assert data.beta.dims == ("run0",)
    assert data.x.attrs["long_name"] == "tokens x"


def test_films_play_inline(tmp_path):
    film = MADE.run.film(frames=4, size=(64, 64))
    assert film._repr_html_().startswith("<video ")
    assert film.save(tmp_path / "a.mp4").read_bytes() == film.data
    assert film.data[4:8] == b"ftyp"
    assert MADE.run.film(format="gif", frames=3, size=(64, 64))._repr_html_().startswith("<img ")
    with pytest.raises(InputError, match="mp4 or gif"):
        MADE.run.film(format="avi")
    with pytest.raises(InputError, match="Unknown option of animate 'framez'"):
        MADE.run.film(framez=3)


def test_parts_with_arrays_are_one_line() -> None:
    block = ms.Block(ms.blocks.MLP(np.ones((96, 24)), np.ones((24, 96))), attention_out=ms.blocks.Scale(np.ones(24)))
    assert repr(block) == "Block(mlp=MLP(W_in (96, 24), W_out (24, 96)), attention_out=Scale(gain (24,)))"
    assert repr(ms.positions.Relative(np.zeros(31))) == "Relative(table (1, 31))"
    V = ms.weights.from_eigenvalues([1, 0.5 + 2j, 0.5 - 2j])
    assert repr(ms.Weights(V=V)) == "Weights(1 head, d = 3, Q = I, K = I, V with eigenvalues 1, 0.5 ± 2i)"


def test_tables_say_which_matrices(tmp_path: Path) -> None:
    """A run cannot be made again from its table without them."""
    V = [[1.0, 0.0], [0.0, -0.5]]
    run = ms.simulate(ms.Dynamics(ms.Weights(V=V)), ms.initial.sphere(4, 2), t=1.0, save=3)
    head = run.to_csv(tmp_path / "run.csv").read_text()
    assert '# V: "[[1.0, 0.0], [0.0, -0.5]]"\n' in head
    assert '# Q: "identity"\n' in head
    assert json.loads(run.to_xarray().attrs["V"]) == V
    assert "time 0.5;" in repr(run.at(0.5)), "one saved time is not a span"


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"score": lambda q, k, beta: q}, r"the score <lambda> must return an array of shape \(1, 4, 4\), but returns"),
        ({"normalise": lambda s, seen: s.sum()}, "the normalisation <lambda> must return"),
        ({"mask": lambda i: i}, "the mask <lambda> could not be computed"),
    ],
)
def test_functions_of_a_wrong_shape_are_named(part: dict[str, Any], words: str) -> None:
    with pytest.raises(ms.InputError, match=words):
        ms.simulate(ms.Dynamics(**part), ms.initial.sphere(4, 2), t=1.0)


def test_a_record_does_not_take_the_place_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (".", ""):
        with pytest.raises(InputError, match="current folder"):
            MADE.run.save(path)
    assert list(tmp_path.iterdir()) == []


def test_a_series_shows_one_observable() -> None:
    with pytest.raises(InputError, match="A series shows one observable"):
        MADE.run.plot(kind="series", observable={"a": "clusters"})


def test_one_token_is_one_and_parts_are_short_lines():
    assert repr(ms.simulate(ms.Dynamics(), X[:1], t=0.1, save=2)).startswith("Trajectory(1 token in d = 3")
    for table in (ms.methods.METHODS, ms.observables.OBSERVABLES, ms.plots.PLOTS, ms.masks.MASKS):
        lines = [repr(part) for part in table.values()]
        assert [line for line in lines if len(line) > 240 or " at 0x" in line or "\n" in line] == []
