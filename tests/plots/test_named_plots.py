"""Named pictures of real runs, and the examples in the docstrings."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest
from matplotlib.figure import Figure

import metastable as ms
from metastable import plots
from metastable.errors import InputError
from metastable.plots import PLOTS, plot
from metastable.plots.trajectory_plots import Choices


@pytest.fixture(scope="module")
def run():
    weights = ms.Weights(V=np.diag([1.0, 0.5, -0.2]))
    return ms.simulate(
        ms.Dynamics(weights, beta=9.0, mask="causal"), ms.initial.sphere(n=8, d=3, seed=0), t=1.0, save=6
    )


@pytest.fixture(scope="module")
def ensemble():
    x0 = np.stack([ms.initial.sphere(n=8, d=3, seed=seed) for seed in range(3)])
    two_heads = ms.Weights(Q=np.stack([np.eye(3), 2 * np.eye(3)]), V=np.stack([np.eye(3), -np.eye(3)]))
    return ms.simulate(ms.Dynamics(two_heads, beta=2.0), x0, t=1.0, save=6)


@pytest.mark.parametrize("kind", PLOTS)
def test_every_named_picture_of_a_run(run, kind):
    assert isinstance(plot(run, kind), Figure)


@pytest.mark.parametrize("kind", PLOTS)
def test_every_named_picture_of_one_run_of_an_ensemble(ensemble, kind):
    options = {"run": 1} if "run" in PLOTS[kind].options else {}
    assert isinstance(plot(ensemble, kind, **options), Figure)


def test_attention_over_times_or_heads(run, ensemble):
    assert [ax.get_title() for ax in plot(run, "attention", times=[0.0, 1.0]).axes] == ["t = 0.0", "t = 1.0"]
    assert [ax.get_title() for ax in plot(ensemble, "attention", times=1).axes] == ["head 0", "head 1"]
    assert "head 1" in plot(ensemble, "attention", head=1).get_supxlabel()
    with pytest.raises(InputError, match="heads 0 to 1"):
        plot(ensemble, "attention", head=2)
    shown = plot(ensemble, "attention", times=[1.0], head=1, run=2).axes[0].images[0].get_array()
    np.testing.assert_allclose(shown, ensemble.attention(-1)[2, 1])


def test_series_of_observables(run, ensemble):
    assert plot(run, "series", observable="energy", log=True).axes[0].get_yscale() == "log"
    assert "3 runs" in plot(ensemble, "series").get_supxlabel()
    assert plot(ensemble, "series", run=1).get_supxlabel() == ""
    assert len(plot(ensemble, "series", observable="rank", run=1).axes[0].lines) == 2
    with pytest.raises(InputError, match="observable"):
        plot(run, "series", observable="enregy")


def test_unknown_kind_and_option_without_meaning(run):
    with pytest.raises(InputError, match="did you mean 'snapshots'"):
        plot(run, "snapshot")
    with pytest.raises(InputError, match="'series' has no option 'first'; it takes observable, run, log"):
        plot(run, "series", first="red")


def test_trajectory_methods(run, tmp_path):
    run.plot(tmp_path / "run.svg", kind="trajectories", first="red")
    assert (tmp_path / "run.svg").read_text().startswith("<?xml")
    assert run.animate(tmp_path / "run.mp4", frames=2, size=(64, 64)).exists()
    assert "<script" in run.animate(tmp_path / "run.html").read_text()


def test_table_is_complete():
    for kind, picture in PLOTS.items():
        assert picture.shows, kind
        assert set(picture.options) <= set(Choices.__dataclass_fields__)


@pytest.mark.parametrize("name", [m.name for m in pkgutil.iter_modules(plots.__path__)])
def test_examples_in_docstrings(name):
    module = importlib.import_module(f"metastable.plots.{name}")
    assert doctest.testmod(module).failed == 0
