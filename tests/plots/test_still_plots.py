"""Heat maps, clouds, series, histograms, phase diagrams and spectra."""

import numpy as np
import pytest

from metastable import plots
from metastable.errors import InputError
from metastable.plots import save_figure
from metastable.plots.phase import _edges
from tests.plots.plot_runs import attention

RNG = np.random.default_rng(0)


def test_attention_row(tmp_path, short_run):
    P = attention(short_run[1][[0, 10, 20]])
    figure = plots.attention_maps(P, titles=["a", "b", "c"])
    assert [ax.get_title() for ax in figure.axes] == ["a", "b", "c"]
    assert figure.axes[0].get_ylabel() == "query $i$"
    assert figure.axes[1].get_ylabel() == ""
    np.testing.assert_array_equal(figure.axes[1].images[0].get_array(), P[1])
    save_figure(figure, tmp_path / "row.pdf", dpi=60)


def test_attention_grid_one_token_and_log(tmp_path):
    assert len(plots.attention_maps(RNG.random((12, 4, 4))).axes) == 13  # and the colour bar
    save_figure(plots.attention_maps(np.ones((1, 1)), log=True), tmp_path / "one.png", dpi=40)
    named = plots.attention_maps(np.eye(3), tokens=["[CLS]", "a", "b"])
    assert [label.get_text() for label in named.axes[0].get_xticklabels()] == ["[CLS]", "a", "b"]


def test_attention_of_wrong_shape():
    with pytest.raises(InputError, match="shape"):
        plots.attention_maps(np.ones((2, 3)))
    with pytest.raises(InputError, match="2 titles"):
        plots.attention_maps(np.ones((3, 2, 2)), titles=["a", "b"])
    with pytest.raises(InputError, match="names"):
        plots.attention_maps(np.ones((3, 3)), tokens=["a"])


def test_heatmap(tmp_path):
    figure = plots.heatmap(np.array([[1.0, -0.2], [np.nan, 1.0]]), diverging=True, bar="correlation")
    assert figure.axes[0].images[0].get_clim() == (-1.0, 1.0)
    save_figure(figure, tmp_path / "h.png", dpi=40)
    save_figure(plots.heatmap(np.zeros((3, 7)), rows=["a", "b", "c"]), tmp_path / "flat.png", dpi=40)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_clouds_join_queries_to_keys_by_attention(tmp_path, k):
    x = RNG.normal(size=(2, 6, k))
    P = RNG.dirichlet(np.ones(6), size=(2, 6))
    figure = plots.attention_clouds(x, 2 * x, P, titles=["0", "1"])
    lines = figure.axes[1].collections[0]
    kept = np.sort(P[1][P[1] > 0.004])
    np.testing.assert_allclose(np.array(lines.get_linewidths()) / 2.6, kept)
    if k == 2:
        ends = np.array([path.vertices for path in lines.get_paths()])
        i, j = np.unravel_index(np.argmax(P[1]), P[1].shape)
        np.testing.assert_allclose(ends[-1], [2 * x[1, i], x[1, j]])
    save_figure(figure, tmp_path / "clouds.png", dpi=40)


def test_clouds_of_wrong_shape():
    with pytest.raises(InputError, match="Clouds need"):
        plots.attention_clouds(np.zeros((3, 2)), np.zeros((4, 2)), np.zeros((3, 3)))


def test_series_lines_bands_and_references():
    t = np.linspace(0, 1, 5)
    figure = plots.series(
        t, {"SA": t, "USA": t**2}, band={"SA": (t - 0.1, t + 0.1)}, reference={"theory": (t, t)}, ylabel="energy"
    )
    ax = figure.axes[0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["SA", "USA", "theory"]
    assert len(ax.collections) == 1
    assert ax.get_ylabel() == "energy"


def test_counts_are_steps_and_log_axes_mask():
    counts = plots.series([0, 1, 2], np.array([3, 2, 2])).axes[0]
    assert counts.lines[0].get_drawstyle() == "steps-post"
    decay = plots.series([0.0, 1.0, 2.0], [1.0, 0.1, 0.0], yscale="log", xscale="symlog").axes[0]
    assert decay.get_yscale() == "log"
    assert plots.series([1.0], [2.0]).axes[0].lines[0].get_marker() == "o"


def test_a_logarithmic_axis_of_a_decade_has_plain_numbers():
    """4, not 4 x 10^0; powers of ten stay where there are many."""

    def labels(last):
        figure = plots.series([0.0, 1.0], [2.0, last], yscale="log")
        figure.canvas.draw()
        return [label.get_text() for label in figure.axes[0].get_yticklabels(which="both")]

    assert {"2", "3", "4", "6"} <= set(labels(9.0))
    assert not any("10^" in label for label in labels(9.0))
    assert any("10^" in label for label in labels(9e6))


def test_series_of_wrong_shape_or_scale():
    with pytest.raises(InputError, match="one value per time"):
        plots.series([0.0, 1.0], [1.0])
    with pytest.raises(InputError, match="did you mean 'log'"):
        plots.series([0.0], [1.0], yscale="logg")


def test_projection_means_and_shades():
    t = np.linspace(0, 3, 7)
    y = np.stack([1 + np.outer(np.exp(-t), np.linspace(-1, 1, 5)), -2 + np.outer(np.exp(-t), np.ones(5))], axis=-1)
    one = plots.projections(t, y, names=["a", "b"])
    np.testing.assert_allclose(one.axes[0].lines[0].get_ydata(), 1.0)
    two = plots.projections(t, y, split=True, spread="range", levels=[1.0, -2.0])
    assert len(two.axes) == 2
    grouped = plots.projections(t, y[..., 0], groups=[0, 0, 1, 1, 1])
    assert len(grouped.axes[0].collections) == 2
    with pytest.raises(InputError, match="times"):
        plots.projections(t[:3], y)
    with pytest.raises(InputError, match="spread"):
        plots.projections(t, y, spread="variance")


@pytest.mark.parametrize("layout", ["ridge", "panels"])
def test_histograms(tmp_path, layout):
    counts = RNG.integers(0, 9, size=(4, 10))
    counts[2] = 0  # an empty row
    figure = plots.histograms(counts, np.linspace(-1, 1, 11), labels=list("abcd"), layout=layout)
    assert len(figure.axes) == (1 if layout == "ridge" else 4)
    save_figure(figure, tmp_path / "h.png", dpi=40)


@pytest.mark.parametrize("layout", ["ridge", "panels"])
def test_histograms_with_bands(layout):
    """A row is scaled by the largest of its band, so that no row reaches into the next."""
    counts = np.array([[1.0, 3.0, 1.0], [2.0, 2.0, 2.0]])
    figure = plots.histograms(counts, [0, 1, 2, 3], band=[0.5 * counts, 2.0 * counts], layout=layout)
    if layout == "ridge":
        tops = [each.get_paths()[0].vertices[:, 1].max() for each in figure.axes[0].collections]
        np.testing.assert_allclose(tops, [1.46, 1.92, 0.46, 0.92])
    with pytest.raises(InputError, match="band"):
        plots.histograms(counts, [0, 1, 2, 3], band=[counts], layout=layout)


def test_histograms_of_wrong_shape():
    with pytest.raises(InputError, match="edges"):
        plots.histograms(np.ones((2, 5)), np.arange(5))
    with pytest.raises(InputError, match="did you mean 'ridge'"):
        plots.histograms(np.ones((2, 5)), np.arange(6), layout="rigde")


def test_phase_diagram(tmp_path):
    x, y = np.geomspace(0.1, 10, 5), np.array([8.0, 16.0, 32.0])
    z = RNG.random((3, 5))
    z[1, 2] = np.nan
    figure = plots.phase_diagram(
        x, y, z, xscale="log", yscale="log", contours=[0.5], curves={"theory": (x, 10 * x)}, bar="share"
    )
    assert figure.axes[1].get_ylabel() == "share"
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["8", "16", "32"]
    save_figure(figure, tmp_path / "p.pdf", dpi=40)
    save_figure(plots.phase_diagram([1.0], [2.0], np.array([[3]])), tmp_path / "one.png", dpi=40)
    save_figure(plots.phase_diagram(x, y, np.full((3, 5), np.nan)), tmp_path / "nan.png", dpi=40)


def test_phase_cells_reach_half_way():
    np.testing.assert_allclose(_edges(np.array([1.0, 3.0]), "linear"), [0, 2, 4])
    np.testing.assert_allclose(_edges(np.array([1.0, 100.0]), "log"), [0.1, 10, 1000])
    with pytest.raises(InputError, match="increase"):
        plots.phase_diagram([1.0, 0.5], [1.0], np.ones((1, 2)))
    with pytest.raises(InputError, match=r"shape \(1, 2\)"):
        plots.phase_diagram([0.5, 1.0], [1.0], np.ones((2, 1)))


def test_eigenvalues_set_off_the_leading_one():
    ax = plots.eigenvalues([2.0, -1.0, 0.5j, -0.5j]).axes[0]
    np.testing.assert_allclose(ax.collections[1].get_offsets(), [[2.0, 0.0]])
    assert ax.collections[1].get_facecolors().size  # real, simple, positive: filled
    pair = plots.eigenvalues([1 + 1j, 1 - 1j, 0.2], radius=1.0).axes[0]
    assert len(pair.collections[1].get_offsets()) == 2
    assert not pair.collections[1].get_facecolors().size
    assert len(plots.eigenvalues(np.ones((3, 4)), titles=list("abc")).axes) == 3
    with pytest.raises(InputError, match="shape"):
        plots.eigenvalues(np.zeros((2, 0)))
