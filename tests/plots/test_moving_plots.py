"""Snapshots, trajectories and polytopes: panels, labels, colours, and every degenerate run."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from metastable.errors import InputError
from metastable.plots import hull_edges, identity_colours, polytope, save_figure, snapshots, trajectories
from metastable.plots.colours import labels_of, token_colours
from metastable.plots.motion import read_motion, short
from metastable.plots.projection import Camera, principal
from metastable.plots.shown_times import clock_times, pick
from metastable.plots.style import RED, SOFT
from tests.plots.plot_runs import trajectory_like, walk

RNG = np.random.default_rng(0)


def titles(figure):
    return [ax.get_title() for ax in figure.axes]


def dots(ax):
    """The token scatter: the collection with the most offsets."""
    return max(ax.collections, key=lambda c: len(c.get_offsets()) * (c.get_zorder() == 4))


# --- panels and labels --------------------------------------------------------------------------------------------


def test_sphere_panels_at_chosen_times(sphere):
    t, x = sphere
    figure = snapshots(x, t, times=[3.0, 6.0, 12.0])
    assert titles(figure) == ["t = 3.0", "t = 6.0", "t = 12.0"]
    assert all(len(dots(ax).get_offsets()) == 64 for ax in figure.axes)


def test_times_are_met(short_run):
    t, x = short_run
    assert titles(snapshots(x, t, times=[0.33, 1.98])) == ["t = 0.33", "t = 1.98"]


def test_axes_labels_of_each_space():
    plane = snapshots(RNG.normal(size=(2, 9, 2)), times=1, geometry="rescaled").axes[0]
    assert (plane.get_xlabel(), plane.get_ylabel()) == ("$z_1$", "$z_2$")
    line = snapshots(RNG.normal(size=(4, 9, 1))).axes
    assert len(line) == 1
    assert line[0].get_xlabel() == "time $t$"
    box = snapshots(RNG.normal(size=(2, 9, 3)), times=1).axes[0]
    assert {"$x_1$", "$x_2$", "$x_3$"} <= {text.get_text() for text in box.texts}
    cloud = snapshots(RNG.normal(size=(2, 9, 7)), times=1).axes[0]
    assert cloud.get_xlabel().startswith("principal axis 1 (")
    assert not snapshots(walk(n=5, d=2, t=0.2)[1], times=1).axes[0].axison


def test_layers_are_called_layers():
    x = RNG.normal(size=(13, 5, 6))
    run = trajectory_like(np.arange(13.0), x, None, provenance={"discrete": True, "dt": 1.0})
    assert titles(snapshots(run, times=[0, 12])) == ["layer 0", "layer 12"]


def test_run_of_an_ensemble_is_named():
    x = RNG.normal(size=(3, 4, 5, 6, 2))
    figure = snapshots(x, times=1, run=7)
    assert figure.get_supxlabel() == "run 7 of an ensemble of 20"
    shown = dots(figure.axes[0]).get_offsets()
    np.testing.assert_allclose(np.sort(shown[:, 0]), np.sort(x[-1, 1, 2, :, 0]))
    with pytest.raises(InputError, match="runs 0 to 19"):
        snapshots(x, run=20)
    with pytest.raises(InputError, match="single run"):
        snapshots(x[:, 0, 0], run=1)


def test_existing_axes_are_used():
    figure = Figure()
    axes = figure.subplots(1, 2)
    assert snapshots(RNG.normal(size=(5, 4, 2)), times=2, ax=axes) is figure
    assert len(figure.axes) == 2
    with pytest.raises(InputError, match="3 panels but 2 axes"):
        snapshots(RNG.normal(size=(5, 4, 2)), times=3, ax=axes)


def test_scales():
    x = RNG.normal(size=(9, 2)) * np.array([1.0, 30.0])[:, None, None]
    same, own = (snapshots(x, times=2, scale=scale) for scale in ("same", "auto"))
    assert same.axes[0].get_xlim() == same.axes[1].get_xlim()
    assert own.axes[1].get_xlim()[1] > 20 * own.axes[0].get_xlim()[1]


def test_times_outside_the_run_are_refused(short_run):
    t, x = short_run
    for times in ([2.5], [-1.0], []):
        with pytest.raises(InputError, match="between 0 and 2"):
            snapshots(x, t, times=times)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"spacing": "log"}, "spacing"),
        ({"scale": "big"}, "scale"),
        ({"color": "clustre"}, "did you mean 'cluster'"),
        ({"first": "redd"}, "not a colour"),
        ({"geometry": "globe"}, "geometry"),
        ({"color": np.zeros((3, 3), dtype=int)}, "shape"),
        ({"color": np.array(["a"])}, "whole-number labels"),
        ({"direction": [1.0, 0.0]}, "Hyperplanes"),
    ],
)
def test_bad_options_get_a_sentence(short_run, options, word):
    with pytest.raises(InputError, match=word):
        snapshots(short_run[1], short_run[0], **options)


def test_bad_arrays_get_a_sentence():
    with pytest.raises(InputError, match="shape"):
        snapshots(np.zeros(3))
    with pytest.raises(InputError, match="one time per state"):
        snapshots(np.zeros((3, 4, 2)), t=[0.0, 1.0])
    with pytest.raises(InputError, match="increase"):
        snapshots(np.zeros((3, 4, 2)), t=[0.0, 2.0, 1.0])
    with pytest.raises(InputError, match="nothing to draw"):
        snapshots(np.full((3, 4, 2), np.nan))


# --- degenerate runs ----------------------------------------------------------------------------------------------


CASES = ("one token", "one time", "two times", "collapsed", "unfinished", "huge")
SPACES = ("line", "plane", "circle", "box", "sphere", "cloud")


@pytest.mark.slow
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("case", CASES)
def test_degenerate_runs_draw(space, case):
    d = {"line": 1, "plane": 2, "circle": 2, "cloud": 5}.get(space, 3)
    unit = space in ("circle", "sphere")
    x = RNG.normal(size=({"one time": 1, "two times": 2}.get(case, 6), 1 if case == "one token" else 8, d))
    if case == "collapsed":
        x = np.broadcast_to(x[:1, :1], x.shape)
    if unit:
        x = x / np.linalg.norm(x, axis=-1, keepdims=True)
    elif case == "huge":
        x = x * 1e200
    if case == "unfinished":
        x = np.where(np.arange(6)[:, None, None] < 3, x, np.nan)
    run = trajectory_like(np.arange(len(x), dtype=float), x, "sphere" if unit else "euclidean")
    for draw in (lambda *a, **k: snapshots(*a, times=1, **k), trajectories):
        figure = draw(run, first="red", color="cluster")
        figure.draw_without_rendering()
        assert not figure.get_supxlabel() or "stops at t = 2.0" in figure.get_supxlabel()
        assert bool(figure.get_supxlabel()) == (case == "unfinished")


def test_unfinished_run_shows_the_last_state_it_has():
    x = np.where(np.arange(6)[:, None, None] < 3, RNG.normal(size=(6, 4, 2)), np.nan)
    assert titles(snapshots(x, times=[0, 5])) == ["t = 0.0", "t = 2.0"]


def test_beyond_precision_is_said(short_run):
    t, x = short_run
    assert titles(snapshots(trajectory_like(t, x, valid_until=1.0), times=[1.0, 2.0])) == [
        "t = 1.0",
        "t = 2.0 (beyond precision)",
    ]


def test_thousands_of_tokens_are_an_image_in_vector_files(tmp_path):
    x = RNG.normal(size=(1, 5000, 3))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    path = save_figure(snapshots(x, times=1), tmp_path / "many.svg", dpi=100)
    assert path.stat().st_size < 400_000
    assert "<image" in path.read_text()


# --- colours ------------------------------------------------------------------------------------------------------


def test_first_token_is_red_and_drawn_last(short_run):
    t, x = short_run
    scatter = dots(snapshots(x, t, times=[2.0], first="red", view=(0.0, 0.0)).axes[0])
    where = scatter.get_offsets()[-1]
    np.testing.assert_allclose(where, x[-1, 0, 1:], atol=1e-12)
    faces = scatter.get_facecolors()
    red = np.array(to_rgb(RED))
    assert np.argmin(np.abs(faces[:, :3] - red).sum(axis=1)) == len(faces) - 1
    assert scatter.get_sizes()[-1] == scatter.get_sizes().max()


def test_identity_keeps_its_colour_through_a_merge():
    ids = np.array([[0, 0, 0, 1, 1, 2], [0, 0, 0, 1, 1, 2], [0, 0, 0, 0, 0, 2], [0] * 6])
    colours = identity_colours(ids)
    blue, orange = colours[0, 0], colours[0, 3]
    assert (colours[ids == 0] == blue).all()
    assert (colours[:2, 3:5] == orange).all()
    assert not (blue == orange).all()
    assert tuple(colours[0, 5, :3]) == to_rgb(SOFT)  # alone until it joins


def test_identities_refer_to_all_saved_times_of_an_unfinished_run():
    x = np.where(np.arange(4)[:, None, None] < 2, RNG.normal(size=(4, 3, 2)), np.nan)
    ids = np.array([[0, 0, 1], [1, 1, 0], [0, 0, 0], [0, 0, 0]])
    colours = token_colours(read_motion(x), ids)
    assert colours.shape == (2, 3, 4)
    assert (colours == identity_colours(ids)[:2]).all()


def test_tracked_clusters_of_a_run(sphere):
    t, x = sphere
    motion = read_motion(x, t)
    colours = token_colours(motion, "cluster")
    assert len(np.unique(colours[0].round(6), axis=0)) < 12  # nearly all alone, grey, at the start
    final = token_colours(motion, "final")
    assert (final[0] == final[-1]).all()
    labels = labels_of(motion, x[-1:])[0]
    for label in np.flatnonzero(np.bincount(labels) > 1):
        for tints in (final[-1], colours[-1]):
            assert len(np.unique(tints[labels == label], axis=0)) == 1
    near = np.arccos(np.clip(x[-1] @ x[-1].T, -1, 1)) < 1e-3
    i, j = np.nonzero(near)
    assert (final[-1][i] == final[-1][j]).all()


def test_labels_values_and_many_clusters():
    motion = read_motion(RNG.normal(size=(2, 30, 2)))
    labels = token_colours(motion, np.arange(30))
    assert len(np.unique(labels[0].round(6), axis=0)) == 30
    assert token_colours(motion, np.linspace(0, 1, 30)).shape == (2, 30, 4)
    assert tuple(token_colours(motion, np.full(30, -1))[0, 0, :3]) == to_rgb(SOFT)


def test_far_side_is_paler_and_smaller():
    x = np.array([[[1.0, 0, 0], [-1.0, 0.1, 0]]])
    scatter = dots(snapshots(x / np.linalg.norm(x, axis=-1, keepdims=True), times=1, view=(0.0, 0.0)).axes[0])
    far, near = scatter.get_facecolors()[:, :3].sum(axis=1)  # drawn far to near
    assert far > near
    assert scatter.get_sizes()[0] < 0.6 * scatter.get_sizes()[1]


# --- between saved times ------------------------------------------------------------------------------------------


def test_interpolation_is_smooth_and_stays_on_the_sphere(sphere):
    t, x = sphere
    coarse = read_motion(x[::5], t[::5])
    between = coarse.at(t)
    np.testing.assert_allclose(np.linalg.norm(between, axis=-1), 1.0, atol=1e-12)
    np.testing.assert_allclose(between[::5], x[::5], atol=1e-12)
    assert np.abs(between - x).max() < 0.02


def test_interpolation_is_cubic():
    t = np.linspace(0, 1, 21)
    exact = lambda s: np.stack([np.sin(s), s**2], axis=-1)[:, None]  # noqa: E731
    fine = np.linspace(0, 1, 500)
    errors = []
    for step in (2, 1):
        errors.append(np.abs(read_motion(exact(t[::step]), t[::step]).at(fine) - exact(fine)).max())
    assert errors[0] / errors[1] > 5  # slopes of second order: third order in all


def test_clocks():
    motion = read_motion(np.zeros((151, 2, 2)), np.linspace(0, 15, 151))
    linear, exponential = (clock_times(motion, 4, spacing) for spacing in ("linear", "exponential"))
    np.testing.assert_allclose(linear, [0, 5, 10, 15])
    assert (np.diff(exponential, 2) > 0).all()
    assert exponential[[0, -1]].tolist() == [0.0, 15.0]
    assert pick(motion, 1)[1].tolist() == [150]
    met, chosen = pick(motion, [0.0, 0.01, 15.0])
    assert met.t[chosen].tolist() == [0.0, 0.01, 15.0]


def test_short_times():
    assert [short(v) for v in (0.0, 0.1, 0.25, 12345.0, 0.0004)] == ["0.0", "0.1", "0.25", "12,345", "0.0004"]


# --- projections --------------------------------------------------------------------------------------------------


def test_camera_is_orthographic():
    camera = Camera.at(33.0, 21.0)
    frame = np.stack([camera.right, camera.up, camera.toward])
    np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(frame) == pytest.approx(1.0)


def test_principal_directions_find_the_spread():
    points = RNG.normal(size=(500, 6)) * np.array([0.1, 5.0, 0.1, 2.0, 0.1, 0.1])
    seen = principal(points)
    assert np.abs(seen.axes).argmax(axis=1).tolist() == [1, 3]
    assert seen.shares.sum() > 0.95
    assert seen.shares[0] == pytest.approx(25 / 29, abs=0.05)


# --- trajectories and polytopes -----------------------------------------------------------------------------------


def test_paths_are_drawn_until_a_time(sphere):
    t, x = sphere
    assert titles(trajectories(x, t, until=3.0, first="red")) == ["t = 0.0 to 3.0"]
    with pytest.raises(InputError, match="later"):
        trajectories(x, t, until=-1.0)


def test_circle_paths_run_outwards(circle):
    t, x = circle
    figure = trajectories(x, t)
    assert "outwards" in figure.axes[0].get_title()
    ends = dots(figure.axes[0]).get_offsets()
    np.testing.assert_allclose(np.linalg.norm(ends, axis=1), 1.0)


def test_edges_of_known_polytopes():
    cube = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)], dtype=float)
    assert len(hull_edges(np.vstack([cube, cube.mean(axis=0)]))) == 12
    assert len(hull_edges(np.vstack([np.eye(3), -np.eye(3)]))) == 12  # octahedron
    assert len(hull_edges([[0.0, 0], [1, 0], [0, 1], [0.2, 0.2]])) == 3
    assert len(hull_edges(cube[:4] * [0, 1, 1])) == 4  # a square in space
    assert len(hull_edges([[0.0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5]])) == 1
    assert len(hull_edges(np.zeros((5, 3)))) == 0


@pytest.mark.parametrize("d", [2, 3])
def test_polytope_panels(d):
    start = RNG.normal(size=(20, d))
    figure = polytope(np.stack([start, np.sign(start)]), [0.0, 5.0], times=2)
    assert titles(figure) == ["t = 0.0", "t = 5.0"]
    with pytest.raises(InputError, match="dimension"):
        polytope(np.stack([start, start]), vertices=np.zeros((3, d + 1)))


def test_polytope_of_collapsed_tokens_and_of_high_dimension():
    assert len(polytope(np.zeros((2, 5, 3)), times=1).axes) == 1
    with pytest.raises(InputError, match="d = 5"):
        polytope(np.zeros((2, 5, 5)))


@pytest.mark.parametrize("d", [2, 3])
def test_hyperplanes_are_drawn(d):
    x = RNG.normal(size=(2, 9, d))
    plain = snapshots(x, times=1)
    crossed = snapshots(x, times=1, direction=np.ones(d), levels=[0.0, 0.5, 1e9])
    assert len(crossed.axes[0].collections) == len(plain.axes[0].collections) + 2  # the last one misses the picture
