"""What a study shows of its controls: beside the model, in every statistic, with seeds as bands."""

from typing import Any

import numpy as np
import pytest

from metastable.models.conclusions import findings
from metastable.models.study_figures import every_picture, picture
from tests.models.study_records import made_study


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return made_study(tmp_path_factory.mktemp("made") / "whole")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return made_study(tmp_path_factory.mktemp("made") / "bare", control=(), maps=False, parts=False)


STATISTICS = ("similarity", "shares", "clusters", "mixed-clusters", "same-token", "groups", "ranks", "sinks")


@pytest.mark.parametrize("name", [*STATISTICS, "sink-punctuation"])
def test_controls_are_beside_every_statistic(whole: Any, name: str) -> None:
    """One line for the model and one for each control, seeds as a band, also where they are centred."""
    figure = picture(whole, name)
    for panel in figure.axes:
        labels = [line.get_label() for line in panel.lines]
        assert {"trained", "fresh weights", "random tokens"} <= set(labels)
        assert len(panel.collections) == 2  # bands
    assert "seeds" in every_picture(whole)[name].caption


@pytest.mark.parametrize("name", ["similarity", "shares", "same-token"])
def test_columns_and_axes_of_a_grid_have_names(whole: Any, name: str) -> None:
    panels = picture(whole, name).axes
    assert [panel.get_title() for panel in panels] == ["raw", "centred"] + [""] * (len(panels) - 2)
    assert [panel.get_xlabel() for panel in panels[-2:]] == ["state (layers passed)"] * 2
    assert all(panel.get_ylabel() for panel in panels[::2])
    assert [text.get_text() for text in panels[0].texts] == ["trained"]


@pytest.mark.parametrize("kind", ["raw", "centred"])
def test_histograms_of_controls_are_beside_the_models(whole: Any, bare: Any, kind: str) -> None:
    """Fig. 1 of the first paper: a panel for each, the band around a row from the least seed to the largest."""
    panels = picture(whole, f"cosines-{kind}").axes
    assert [panel.get_title() for panel in panels] == ["trained", "fresh weights", "random tokens"]
    rows = [len(panel.get_yticks()) for panel in panels]
    assert [len(panel.collections) for panel in panels] == [rows[0], 2 * rows[1], 2 * rows[2]]
    edges = panels[1].collections[1].get_paths()[0].vertices[:, 1]
    seeds = whole.controls.similarity["histogram"].sel(control="init", kind=kind, layer=0)
    most = seeds.max("seed").values
    np.testing.assert_allclose(edges.max() - (rows[1] - 1), 0.92)
    np.testing.assert_allclose(np.unique(edges - (rows[1] - 1))[-2], 0.92 * np.sort(most)[-2] / most.max(), rtol=1e-6)
    assert len(picture(bare, f"cosines-{kind}").axes) == 1


def test_bands_reach_from_the_least_to_the_largest_seed(whole: Any) -> None:
    panel = picture(whole, "similarity").axes[0]
    assert [line.get_label() for line in panel.lines[:3]] == ["trained", "fresh weights", "random tokens"]
    np.testing.assert_allclose(panel.lines[1].get_ydata(), 0.99)
    assert len(panel.collections) == 2


def test_ranks_of_controls(whole: Any) -> None:
    said = " ".join(next(one for one in findings(whole) if one.name == "heads").sentences)
    assert "In the median head of the controls it is 5.0 with fresh weights and 5.0 with random tokens." in said


def test_evenly_spread_attention_is_that_of_the_texts_read(tmp_path: Any) -> None:
    """Random tokens hold less punctuation, so that attention spread evenly pays it less: a line of its own."""
    study = made_study(tmp_path)

    def dotted() -> list[float]:
        panel = picture(study, "sink-punctuation").axes[0]
        return [
            float(line.get_ydata()[0]) for line in panel.lines if line.get_linestyle() == ":" and line.get_lw() == 0.9
        ]

    assert dotted() == [0.1]
    study.controls.sinks["position"].loc[{"control": "tokens", "kind": "punctuation"}] = 0.01
    assert dotted() == [0.1, 0.01]
