"""Frames painted by NumPy look like those that matplotlib draws."""

import numpy as np
import pytest

from metastable.plots.colours import token_colours
from metastable.plots.frames import Scene, Stage, shoot
from metastable.plots.marks import dot_area, dots_apart, draw_dots
from metastable.plots.motion import read_motion
from metastable.plots.paint import NV12, RGB, Canvas
from metastable.plots.spaces import view_of
from metastable.plots.style import paper
from tests.plots.plot_runs import trajectory_like

WHITE, BLACK = np.full(3, 255.0), np.zeros(3)


def blank(count=1, size=(40, 30), pixels=RGB):
    canvas = Canvas(pixels, count, size, reach=6.0)
    canvas.lay(slice(None), pixels.split(np.full((size[1], size[0], 3), 255, np.uint8)))
    return canvas


def test_a_dot_covers_its_area():
    canvas = blank()
    canvas.dots(np.array([[10.3, 18.6]]), np.array([5.2]), BLACK[None], 0.0, WHITE)
    frame = next(canvas.frames(1)).reshape(30, 40, 3)
    assert (255.0 - frame[..., 0]).sum() / 255 == pytest.approx(np.pi * 5.2**2, rel=0.01)
    assert frame[18, 10].tolist() == [0, 0, 0]
    y, x = np.nonzero(frame[..., 0] < 255)
    assert [x.mean() + 0.5, y.mean() + 0.5] == pytest.approx([10.3, 18.6], abs=0.3)


@pytest.mark.parametrize("pixels", [RGB, NV12])
def test_dots_outside_leave_no_trace_on_the_other_side(pixels):
    canvas = blank(4, pixels=pixels)
    before = [frame.copy() for frame in canvas.frames(4)]
    centres = np.array([[-9.0, 5.0], [52.0, 5.0], [1e9, -1e9], [-2.0, 31.0]])
    canvas.dots(
        centres, np.full(4, 5.0), np.tile(pixels.channels([0.0, 0, 0]), (4, 1)), 1.0, pixels.channels([1.0] * 3)
    )
    after = [frame.copy() for frame in canvas.frames(4)]
    assert all((a == b).all() for a, b in zip(before[:3], after[:3]))
    luma = after[3][: 30 * 40 * (3 if pixels is RGB else 1)].reshape(30, 40, -1)
    assert (luma[26:, :3] < 200).any()
    assert (luma[:20] == luma[0, 0]).all()
    assert (luma[:, 10:] == luma[0, 0]).all()


def test_colours_are_those_of_bt709():
    for colour, code in (([1, 1, 1], [235, 128, 128]), ([0, 0, 0], [16, 128, 128]), ([1, 0, 0], [63, 102, 240])):
        assert np.round(NV12.channels(colour)).astype(int).tolist() == code
    light, tint = NV12.split(np.full((4, 6, 3), [255, 0, 0], np.uint8))
    assert light.shape == (4, 6, 1)
    assert tint.shape == (2, 3, 2)
    assert (light == 63).all()
    assert (tint == [102, 240]).all()


@pytest.mark.parametrize("first", [False, True])
def test_a_frame_is_what_matplotlib_draws(sphere, first):
    t, x = sphere
    motion = read_motion(trajectory_like(t, x, "sphere"))
    colours = token_colours(motion, "token", "red" if first else None)
    scene = Scene(motion, view_of(motion), colours, (360, 300), 0.0, first)
    time = motion.t[[3]]
    frame = next(shoot(scene, time, RGB)).reshape(300, 360, 3)
    with paper():
        stage = Stage(scene, "")
        xy, depth = scene.seen.place(time, motion.at(time))
        area = 1.6 * dot_area(dots_apart(stage.panel, xy[0]))
        draw_dots(stage.panel, xy[0], depth[0], colours[3], scene.seen.shading, first, area)
        stage.canvas.figure.text(0.112, 0.94, motion.reading(float(time[0]), 1.0), fontsize=11, va="baseline")
        stage.canvas.draw()
    drawn = np.asarray(stage.canvas.buffer_rgba())[..., :3]
    apart = np.abs(frame.astype(int) - drawn.astype(int))
    assert np.abs(stage.still.astype(int) - drawn.astype(int)).mean() > 1  # there is something to see
    assert apart.mean() < 0.25
    assert (apart.max(axis=-1) > 64).mean() < 2e-3
