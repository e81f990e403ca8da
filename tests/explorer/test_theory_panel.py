"""The theorem panel says what the theory module says, and draws what it predicts."""

import numpy as np
import pytest

from metastable.explorer.computing import make
from metastable.explorer.live_panels import panels_of
from metastable.explorer.theory_panel import theory_of


def test_a_polytope_is_predicted_drawn_and_approached():
    run = make({"n": 10, "d": 2, "geometry": "rescaled", "beta": 1.0, "t": 6.0, "initial": "cube(side=2)"}).run
    found = theory_of(run)
    assert found.facts["claim"] == "Theorem 3.1"
    assert found.segments.shape[1:] == (2, 2)
    assert len(found.segments) >= 3
    assert found.distances[-1] < 1e-2 * found.distances[0]


def test_causal_tokens_tend_to_the_first():
    run = make({"n": 8, "beta": 1.0, "mask": "causal", "t": 40.0}).run
    found = theory_of(run)
    assert found.facts["limit"] == "the first token"
    angles = np.arccos(np.clip(run.x[-1] @ run.x[0, 0], -1, 1))
    assert abs(found.distances[-1] - angles.max()) < 1e-6


@pytest.mark.parametrize("state", [{"n": 1}, {"n": 5, "d": 2, "geometry": "rescaled", "beta": 1.0, "moved": "0:0:0"}])
def test_a_run_without_cosines_is_shown_without_them(state):
    extra, _ = panels_of(make({"t": 1.0, **state}).run)
    assert "panel_similarity" not in extra
    assert "token" in extra["why"]["similarity"]
    assert len(extra["panel_order"]) == len(extra["panel_t"])


def test_hemispheres_are_found_out():
    inside = theory_of(make({"n": 6, "initial": "cap(angle=1.0)", "t": 5.0}).run).facts["claims"][0]
    outside = theory_of(make({"n": 40, "t": 1.0}).run).facts["claims"][0]
    assert inside["applies"] is True
    assert 0.0 < inside["hypotheses"][1]["margin"] < 1.0
    assert outside["applies"] is False


def test_where_the_theorem_names_no_place_only_the_diameter_is_measured():
    run = make({"n": 6, "initial": "cap(angle=1.0)", "t": 0.5}).run  # far from settled: its mean is no limit
    found = theory_of(run)
    assert found.facts["limit"] == "some common point"
    assert found.segments is None
    angles = np.arccos(np.clip(run.x @ run.x.transpose(0, 2, 1), -1, 1)).max(axis=(1, 2))
    np.testing.assert_allclose(found.distances, angles[np.isin(run.t, found.times)], atol=1e-7)
    assert found.distances[-1] > 0.5


@pytest.mark.parametrize("state", [{"mask": "window(3)"}, {"mask": "causal", "geometry": "rescaled"}])
def test_theorems_of_full_attention_are_not_claimed_of_other_masks(state):
    facts = theory_of(make({"n": 6, "initial": "cap(angle=1.0)" if len(state) < 2 else "usual", "t": 0.5, **state}).run)
    assert facts.facts["claims"] == []
    assert facts.facts["note"].startswith("No theorem applies")
    assert facts.distances is None


def test_a_polytope_times_a_line_is_drawn_where_its_tokens_are():
    run = make({"n": 12, "geometry": "rescaled", "beta": 1.0, "V": "1,1,-0.5", "t": 6.0}).run
    found = theory_of(run)
    assert found.facts["claim"] == "Theorem 5.1"
    ends = found.segments.reshape(-1, 3)
    assert ends[:, 2].min() == pytest.approx(run.x[..., 2].min())
    assert ends[:, 2].max() == pytest.approx(run.x[..., 2].max())
    corners = ends[:, :2]
    apart = np.linalg.norm(run.x[-1][:, None, :2] - corners[None], axis=-1)
    assert apart.min(axis=0).max() < 1e-6  # every corner is a token's place
    assert 3 * len(np.unique(corners.round(6), axis=0)) == len(found.segments)


@pytest.mark.parametrize(
    "state", [{"heads": 2}, {"noise": 0.1}, {"normalise": "hardmax"}, {"score": "distance", "geometry": "euclidean"}]
)
def test_where_no_theorem_applies_it_says_why(state):
    facts = theory_of(make({"n": 5, "t": 0.5, **state}).run).facts
    assert facts["claims"] == []
    assert facts["note"].startswith("No theorem applies")


def test_panels_hold_series_of_the_run():
    run = make({"n": 6, "t": 1.0}).run
    extra, _ = panels_of(run)
    np.testing.assert_allclose(extra["panel_order"], np.linalg.norm(run.x.mean(axis=1), axis=-1), atol=1e-12)
    np.testing.assert_allclose(extra["panel_similarity"].sum(axis=1), 1.0)
