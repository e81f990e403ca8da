"""Figures for papers: sizes, axes of one's own, exact times, log time, overlays, captions, one tolerance, slides."""

import hashlib
import inspect
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import metastable as ms
from metastable import plots
from metastable.errors import InputError
from metastable.plots import PLOTS, overlay, plot
from metastable.plots.colours import identity_colours, token_colours
from metastable.plots.motion import read_motion
from metastable.plots.shown_times import pick
from metastable.plots.style import COLUMN, SIZES

DYNAMICS = ms.Dynamics(ms.Weights(V=np.diag([1.0, 0.5, -0.2])), beta=9.0, mask="causal")


@pytest.fixture(scope="module")
def run():
    return ms.simulate(DYNAMICS, ms.initial.sphere(n=8, d=3, seed=4), t=4.0, save=9)


@pytest.fixture(scope="module")
def ensemble():
    return ms.simulate(DYNAMICS, ms.initial.sphere(n=8, d=3, seed=0, runs=5), t=4.0, save=9)


# every public function that draws a figure
PICTURES = [
    name
    for name in plots.__all__
    if inspect.isroutine(getattr(plots, name)) and inspect.signature(getattr(plots, name)).return_annotation is Figure
]


def still(**room):
    """How each public picture is drawn: a new one is missed here."""
    x = np.random.default_rng(0).normal(size=(6, 2))
    made = ms.simulate(ms.Dynamics(geometry="euclidean"), x, t=0.1, save=2)
    return {
        "series": lambda: plots.series([0.0, 1.0], [1.0, 2.0], **room),
        "projections": lambda: plots.projections([0.0, 1.0], x[None, :, 0] * np.ones((2, 1)), **room),
        "histograms": lambda: plots.histograms([[1, 2]], [0, 1, 2], **room),
        "heatmap": lambda: plots.heatmap(np.eye(3), **room),
        "attention_maps": lambda: plots.attention_maps(np.eye(3), **room),
        "attention_clouds": lambda: plots.attention_clouds(x, x, np.eye(6), **room),
        "eigenvalues": lambda: plots.eigenvalues([1.0, 2.0j], **room),
        "phase_diagram": lambda: plots.phase_diagram([1, 2], [1, 2], np.eye(2), **room),
        "table": lambda: plots.table(["a"], ["b"], [["c"]], **room),
        "snapshots": lambda: plots.snapshots(x, **room),
        "polytope": lambda: plots.polytope(x, **room),
        "trajectories": lambda: plots.trajectories(np.stack([x, 2 * x]), **room),
        "agreement": lambda: plots.agreement({"a": ([0.0], [1.0])}, xlabel="", ylabel="", **room),
        "density_picture": lambda: ms.density(ms.Dynamics(), "uniform", 0.1, save=2).plot(**room),
        "overlay": lambda: plots.overlay(made, "order", **room),
        "plot": lambda: plot(made, "trajectories", **room),
    }


def test_every_picture_is_in_the_api_pages():
    page = (Path(__file__).parents[2] / "docs" / "api" / "pictures.md").read_text()
    assert [name for name in PICTURES if f"autofunction:: metastable.plots.{name}\n" not in page] == []
    assert len(PICTURES) > 12


def test_maps_of_the_sphere_take_axes():
    law = ms.density(ms.Dynamics(), "uniform", 0.1, d=3, save=2)
    mine = Figure()
    assert law.plot(ax=[mine.add_subplot(1, 2, k, projection="mollweide") for k in (1, 2)]) is mine
    assert law.plot(times=2, size="column").get_figwidth() == pytest.approx(COLUMN)
    with pytest.raises(InputError, match="mollweide"):
        law.plot(ax=mine.subplots(1, 2))


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_takes_a_size_and_axes(name):
    assert still(size="column")[name]().get_figwidth() == pytest.approx(COLUMN)
    assert still(size=(4.0, 3.0))[name]().get_size_inches().tolist() == [4.0, 3.0]
    mine = Figure()
    axes = mine.add_subplot()
    axes.set_gid("mine")
    assert still(ax=axes)[name]() is mine
    assert mine.get_supxlabel() == "", "nothing is written outside the axes that were given"
    with pytest.raises(InputError, match="leave out `size`"):
        still(size=3, ax=axes)[name]()


@pytest.mark.parametrize("kind", PLOTS)
def test_every_named_picture_takes_a_size_and_has_a_caption(run, kind):
    figure = plot(run, kind, size="column")
    assert figure.get_figwidth() == pytest.approx(COLUMN)
    for words in ("n = 8, d = 3, beta = 9, causal mask", "V = diag(1, 0.5, -0.2)", "first tokens given as an array"):
        assert words in figure.caption
    assert figure.caption.endswith(".")
    assert figure._repr_png_().startswith(b"\x89PNG") if kind == "snapshots" else True


def test_a_lambda_has_no_name_in_a_caption(run):
    own = ms.Dynamics(mask=lambda i, j: j <= i + 1, normalise=lambda scores, visible: 0.1 * scores)
    caption = plot(ms.simulate(own, run.x[0], t=0.2, save=3)).caption
    assert "own mask, own normalisation" in caption


def test_a_caption_says_what_is_known_of_the_first_tokens(run, tmp_path):
    """A record of the command knows its cloud and seed; to Python tokens came as an array, never guessed at."""
    from metastable.cli import main

    flags = ["--n", "8", "--t", "1", "--save", "3", "--initial", "cap(angle=0.4)", "--seed", "42", "--runs", "2"]
    assert (
        main(
            [
                "simulate",
                *flags,
                "--noise",
                "0.1",
                "--method",
                "euler",
                "--out",
                str(tmp_path / "a"),
                "--no-pictures",
                "--quiet",
            ]
        )
        == 0
    )
    made = ms.load(tmp_path / "a")
    said = "noise = 0.1 (seed 42), V = I, Q^T K = I, euler, 2 runs, first tokens cap(angle=0.4), seed 42."
    for same in (made, made[1:], made.extend(2.0), made.at(0.3), ms.load(made.save(tmp_path / "b"))):
        assert said in plot(same).caption
    digest = hashlib.sha256(run.x[0].tobytes()).hexdigest()[:8]
    assert f"rk4, first tokens given as an array (SHA-256 {digest})" in plot(run).caption
    assert "first tokens" not in plot(run[1:]).caption


def test_panels_of_a_column_stay_readable(run):
    rows = {panel.get_subplotspec().get_gridspec().ncols for panel in plot(run, times=4, size="column").axes}
    assert rows == {2}
    assert {p.get_subplotspec().get_gridspec().ncols for p in plot(run, times=4, size="page").axes} == {4}


def test_a_wrong_size_is_a_sentence(run):
    with pytest.raises(InputError, match="did you mean 'column'"):
        plot(run, size="colum")
    for size in (0.0, (1.0, 2.0, 3.0), (3.0, -1.0)):
        with pytest.raises(InputError, match="width"):
            plot(run, size=size)


def test_times_are_met_exactly(run):
    times = [0.0, 0.37, 1.234, 4.0]
    figure = plot(run, times=times, color="black")
    assert [panel.get_title() for panel in figure.axes] == ["t = 0.0", "t = 0.37", "t = 1.234", "t = 4.0"]
    exact = ms.simulate(DYNAMICS, run.x[0], t=4.0, save=times)
    motion, chosen = pick(read_motion(run), times, tokens=run)
    assert motion.t[chosen].tolist() == times
    error = np.abs(motion.x[chosen] - exact.x).max()
    assert error < (1e-9 if hasattr(run, "at") else 2e-2)
    assert [p.get_title() for p in plot(run, "attention", times=times[:1]).axes] == ["t = 0.0"]
    with pytest.raises(InputError, match="between 0 and 4"):
        plot(run, times=[5.0])


def test_there_is_no_half_layer():
    run = ms.simulate(ms.Dynamics(), ms.initial.sphere(4, 3), t=4, dt=1.0, method="layers", save=5)
    assert [panel.get_title() for panel in plot(run, times=[1, 3]).axes] == ["layer 1", "layer 3"]
    with pytest.raises(InputError, match="layers lie at whole numbers"):
        plot(run, times=[1.5])


def test_one_tolerance_for_colours_series_and_observables():
    run = ms.simulate(ms.Dynamics(beta=4.0), ms.initial.sphere(n=8, d=3, seed=1), t=8.0, save=9)
    motion = read_motion(run)
    colours = token_colours(motion, "cluster")
    np.testing.assert_array_equal(colours, identity_colours(run.observe("cluster_identities").values))
    count = int(run.observe("clusters")[-1])
    assert 1 < count < 8
    figure = plot(run)
    assert f"{count} clusters at 0.01 rad" in figure.caption
    assert f"{count} clusters at 0.01 rad" in figure.get_supxlabel()
    assert plot(run, "series").axes[0].get_ylabel() == "clusters at 0.01 rad"


def test_colours_of_tokens_that_stay_alone_are_plain():
    x = np.eye(3)[None].repeat(2, axis=0)
    x = np.concatenate([x, [np.eye(3)[[0, 0, 1]]]])
    whole = token_colours(read_motion(x))  # two tokens meet: paler before
    assert (whole[0, 0] > whole[2, 0])[:2].any()
    assert (whole[2, 0] == whole[2, 1]).all()
    x = x[:2]
    assert len(np.unique(token_colours(read_motion(x)).reshape(-1, 4), axis=0)) == 1
    assert plots.snapshots(x).get_supxlabel() == ""


def test_log_time(run):
    for kind in ("series", "hyperplanes"):
        assert plot(run, kind, log_time=True).axes[0].get_xscale() == "log"
    with pytest.raises(InputError, match="no option 'log_time'"):
        plot(run, "attention", log_time=True)


def test_plateaus_are_marked():
    angles = np.array([0.0, 0.5, 2.0, 3.0])
    meet = np.array([[0.0, 0.0, 2.0, 3.0]] * 6 + [[0.0, 0.0, 2.0, 2.0]] * 4)
    path = np.concatenate([angles[None], meet])
    made = ms.simulate(ms.Dynamics(), ms.initial.sphere(4, 2), t=10.0, save=11)
    import dataclasses

    run = dataclasses.replace(made, x=np.stack([np.cos(path), np.sin(path)], -1))
    figure = plot(run, "series")
    assert [text.get_text() for text in figure.axes[0].texts] == ["3 for 6", "2 for 3"]
    assert "plateaus" in figure.caption


def test_overlay(run, ensemble):
    figure = overlay({"one": run, "many": ensemble}, "order", band="range", log_time=True, size=(3.0, 2.0))
    (panel,) = figure.axes
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "linear")
    assert [text.get_text() for text in panel.get_legend().get_texts()] == ["one", "many"]
    assert len(panel.lines) == 2
    assert len(panel.collections) == 1, "a band for the ensemble alone"
    order = ensemble.observe("order").values
    edge = panel.collections[0].get_paths()[0].vertices[:, 1]
    assert (edge.min(), edge.max()) == pytest.approx((order.min(), order.max()))
    assert "Median and whole range over 5 runs" in figure.caption
    mean = overlay(ensemble, "order", centre="mean", band="none").axes[0].lines[0].get_ydata()
    np.testing.assert_allclose(mean, ensemble.observe("order").values.mean(axis=1))
    named = overlay([run, ms.simulate(ms.Dynamics(beta=1.0), run.x[0], t=1.0, save=3)], "order")
    assert [text.get_text() for text in named.axes[0].get_legend().get_texts()] == ["beta = 9", "beta = 1"]
    wrongs = [
        ({"centre": "mode"}, "mean"),
        ({"band": 2.0}, "share"),
        ({"band": "sdt"}, "std"),
        ({"xlog": 1}, "log_time"),
    ]
    for wrong, words in wrongs:
        with pytest.raises(InputError, match=words):
            overlay(ensemble, "order", **wrong)
    with pytest.raises(InputError, match="Runs to overlay"):
        overlay([1, 2])


def test_ensembles_choose_their_middle_and_band(ensemble):
    figure = plot(ensemble, "series", observable="order", centre="mean", band="std")
    assert "mean and standard deviation over 5 runs" in figure.get_supxlabel()
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), ensemble.observe("order").values.mean(axis=1))


def test_slides_are_larger_and_leave_nothing_behind(run):
    before = dict(matplotlib.rcParams)
    with plots.slides():
        figure = plot(run, "series", observable="order")
    assert tuple(figure.get_size_inches()) == SIZES["slide"]
    assert figure.axes[0].xaxis.label.get_fontsize() == 16
    assert dict(matplotlib.rcParams) == before
    assert plot(run, "series", observable="order").axes[0].xaxis.label.get_fontsize() == 8
    with matplotlib.style.context("metastable.plots.slides"):
        assert matplotlib.rcParams["font.size"] == 16
