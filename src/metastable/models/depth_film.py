"""Depth as a film: histograms of cosines over all texts, and one text's tokens in the plane, state by state.

The player shows the same tokens in space, to be turned and stopped by hand.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from metastable.models.study_record import Study
from metastable.plots.encoder import write_film
from metastable.plots.paint import Bytes
from metastable.plots.style import FAINT, PALETTE, RED, SOFT, new_figure, paper
from metastable.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray

SIZE, INCHES, FPS = (720, 760), 4.0, 12
_LEAST = 1e-4  # share of pairs at the lower edge of the histograms
_FRAMES = 200  # of the whole film, about
_STILL, _MOVING = 3, 5  # frames for which a state rests, and in which tokens go on to the next, at most
TITLES = {"raw": "raw", "centred": "beside the mean direction"}


def film(study: Study, path: str | os.PathLike[str]) -> Path:
    """Write the film of a study as .mp4 or .gif.

    Examples
    --------
    >>> from metastable.models.study import read
    >>> film(read("out/minilm"), "depth.mp4")  # doctest: +SKIP
    """
    return write_film(path, _frames(study), SIZE, FPS)


def player(study: Study, path: str | os.PathLike[str]) -> Path:
    """Write the tokens of the first text as a page that plays them through depth, beside their mean direction.

    Tokens are coloured by their position, the first one red. Clusters are not: what is close in three directions of
    many need not be close.

    Examples
    --------
    >>> from metastable.models.study import read
    >>> player(read("out/minilm"), "depth.html")  # doctest: +SKIP
    """
    place = np.nan_to_num(study.cloud["place"].sel(kind="centred").values)  # (state, token, 3)
    made = {"method": "layers", "discrete": True, "dt": 1.0}
    run = Trajectory(study.cloud.layer.values.astype(float), place, None, provenance=made)
    share = float(study.cloud.get("seen_in_space", study.cloud["seen"]).sel(kind="centred").mean())
    seen = f"three principal directions ({share:.0%} of their squares)"
    title = f"{study.settings.model}: tokens beside their mean direction; {seen}"
    names = [str(word) for word in study.cloud.word.values]
    look = {"colour": "position", "first": True}
    return run.export(Path(path), title=title, names=names, play=False, brief=True, extra=look)


def _frames(study: Study) -> Iterator[Bytes]:
    """Every frame as flat bytes."""
    with paper():
        stage = _Stage(study)
        states = study.cloud.layer.values
        slow = max(1, min(_MOVING, _FRAMES // len(states) - 1))
        for k in range(len(states)):
            still = _STILL if slow > 1 else 1
            for _ in range(still * (3 if k in (0, len(states) - 1) else 1)):  # both ends rest longer
                yield stage.frame(k, 0.0)
            for step in range(1, slow) if k + 1 < len(states) else ():
                yield stage.frame(k, step / slow)


class _Stage:
    """The picture with its moving parts: two histograms, two clouds, and the number of the state."""

    def __init__(self, study: Study) -> None:
        self.cloud, self.similarity = study.cloud.isel(axis=slice(2)), study.similarity
        self.depth = study.model["depth"]
        self.figure = figure = new_figure(INCHES, INCHES * SIZE[1] / SIZE[0])
        figure.set_dpi(SIZE[0] / INCHES)
        panels = figure.subplots(2, 2, height_ratios=(1.0, 1.35))
        self.title = figure.suptitle("state 00 of 00", fontsize=11, animated=True)
        kinds = [str(kind) for kind in self.cloud.kind.values]
        self.steps = [_histogram(panel, self.similarity, kind) for panel, kind in zip(panels[0], kinds)]
        self.cloud = self.cloud.isel(token=slice(None, None, -1))  # the first token is drawn last, above the others
        self.dots = [_disc(panel, self.cloud["place"].sel(kind=kind)) for panel, kind in zip(panels[1], kinds)]
        panels[0][0].set_ylabel("share of pairs")
        panels[1][0].set_xlabel("first principal direction")
        panels[1][1].set_xlabel("first principal direction")
        panels[1][0].set_ylabel("second")
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        canvas: Any = figure.canvas  # Agg's, see `new_figure`
        self.canvas = canvas
        self.canvas.draw()
        self.background = self.canvas.copy_from_bbox(figure.bbox)

    def frame(self, k: int, share: float) -> Bytes:
        """State number k of those shown, or some way from it to the next."""
        states = self.cloud.layer.values
        state, after = int(states[k]), min(k + 1, len(states) - 1)
        self.title.set_text(f"state {state}" + (f" (trained: {self.depth})" if states[-1] > self.depth else ""))
        for j, kind in enumerate(self.cloud.kind.values):
            values = self.similarity["histogram"].sel(kind=kind, layer=state).fillna(0.0).values
            self.steps[j].set_data(np.maximum(values, _LEAST))
            place = self.cloud["place"].sel(kind=kind).values
            self.dots[j].set_offsets((1.0 - share) * place[k] + share * place[after])
        self.canvas.restore_region(self.background)
        for artist in (self.title, *self.steps, *self.dots):
            self.figure.draw_artist(artist)
        return np.ascontiguousarray(np.asarray(self.canvas.buffer_rgba())[..., :3]).reshape(-1)


def _histogram(panel: Axes, similarity: "xarray.Dataset", kind: str) -> Any:
    edges = np.asarray(similarity.attrs["edges"])
    panel.set(xlim=(-1, 1), ylim=(_LEAST, 1.0), yscale="log", xlabel="cosine of two tokens", title=TITLES[kind])
    panel.set_xticks([-1.0, 0.0, 1.0])
    flat = np.full(len(edges) - 1, _LEAST)
    return panel.stairs(flat, edges, baseline=_LEAST, fill=True, color=PALETTE[0], alpha=0.75, animated=True)


def _disc(panel: Axes, place: "xarray.DataArray") -> PathCollection:
    """The unit disc, or the part of it where the tokens are: a dot for each, coloured by its position in the text.

    Tokens come from the last to the first, which is red. Only where all are near the middle is the circle left out.
    """
    tokens = place.sizes["token"]
    farthest = float(np.nanmax(np.abs(place.values), initial=0.1))
    reach = 1.1 * farthest if farthest < 0.6 else 1.06
    panel.add_patch(Circle((0, 0), 1.0, fill=False, ec=SOFT, lw=0.7))
    panel.axhline(0, color=FAINT, lw=0.5, zorder=0)
    panel.axvline(0, color=FAINT, lw=0.5, zorder=0)
    panel.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    panel.locator_params(nbins=3)
    tints = matplotlib.colormaps["viridis"](np.linspace(0.92, 0.0, tokens))
    tints[-1] = matplotlib.colors.to_rgba(RED)
    size = float(np.clip(600 / tokens, 8, 26))
    dots = panel.scatter(np.zeros(tokens), np.zeros(tokens), s=size, c=tints, lw=0.3, ec="white", alpha=0.9)
    dots.set_animated(True)
    return dots


def still(study: Study) -> Figure:
    """The last state of the film as a picture, for paper."""
    with paper():
        stage = _Stage(study)
        stage.frame(len(study.cloud.layer) - 1, 0.0)
        for artist in (stage.title, *stage.steps, *stage.dots):
            artist.set_animated(False)
        return stage.figure
