"""Pictures of a sweep's table: legends that cover nothing, names that fit."""

import numpy as np
import pandas
import pytest

from metastable.plots.sweep_plots import plot_sweep

BETAS = (0.5, 1.0, 2.0, 3.5, 5.0, 7.0)
MATRICES = tuple(f"[[1.0, {k / 10}, 0.0], [0.0, 1.0, 0.0], [0.1, 0.0, -1.0]]" for k in range(3))


def means(by):
    """Rows of every combination of the names asked for."""
    axes = {"beta": BETAS, "V": MATRICES, "time": (0.0, 1.0, 2.0)}
    rows = pandas.MultiIndex.from_product([axes[name] for name in by], names=by).to_frame(index=False)
    rows["order"] = np.arange(len(rows), dtype=float)
    return rows.assign(order_low=rows["order"] - 1, order_high=rows["order"] + 1)


def picture(**options):
    return plot_sweep(means, ["beta", "V"], ["order"], "lines", x="time", **options)


@pytest.mark.parametrize("by", ["beta", "V"])
def test_panels_share_one_legend_that_covers_none_of_them(by):
    figure = picture(by=by, panels="V" if by == "beta" else "beta")
    figure.draw_without_rendering()
    assert all(ax.get_legend() is None for ax in figure.axes)
    assert len(figure.legends[0].get_texts()) == (6 if by == "beta" else 3)
    box = figure.legends[0].get_window_extent()
    assert not any(box.overlaps(ax.get_window_extent()) for ax in figure.axes)
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert min(ax.get_window_extent().height for ax in figure.axes) > 0.2 * figure.bbox.height / (
        1 if by == "beta" else 2
    )


def test_few_lines_keep_their_legend_in_the_panel():
    assert picture(by="V").axes[0].get_legend() is not None
    assert not picture(by="V").legends
    assert len(picture(by="beta").legends) == 1
    assert tuple(picture(by="beta", size=(5.0, 3.0)).get_size_inches()) == (5.0, 3.0)


def test_long_names_are_cut_and_stay_apart():
    titles = [ax.get_title() for ax in picture(by="beta", panels="V").axes]
    assert len(set(titles)) == 3
    assert max(map(len, titles)) <= 32
