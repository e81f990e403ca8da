"""Pictures of `metastable.experiments.model_dynamics`: Figs 7 and 8 of one head, and clusters over time of all."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights, from_eigenvalues
from metastable.experiments import model_access
from metastable.experiments.base import Data, Figures, Films
from metastable.plots import series, snapshots
from metastable.plots.style import captioned, panels, paper
from metastable.trajectory import Trajectory

CLUSTERS = "Clusters over time: median over starts, a line per head"


def draw(params: Any, data: Data, readings: Sequence[str]) -> Figures:
    if model_access.SKIPPED in data:
        return {}
    figures: Figures = {}
    drawn = np.flatnonzero(data["cases"][:, 0] == params.head)
    for number, times in (("7", params.snapshots), ("8", params.paired)):
        for place, c in enumerate(drawn):
            name = (
                f"Fig. {number} on {params.model}, head {params.head}: eigenvalues of {readings[data['cases'][c, 1]]}"
            )
            x = data["shown"][0, place]  # (T, n, d)
            axis = _axis(data["eigenvalues"][c])
            marks = np.broadcast_to(axis, (len(x), *axis.shape)) if number == "8" else x[:, :0]
            picture = snapshots(
                np.concatenate([x, marks], axis=1),
                data["t"],
                times=times,
                first="red",
                color=[0] * params.n + [1] * marks.shape[1],
            )
            ends = "; orange: both ends of V's leading eigenvector" if marks.shape[1] else ""
            figures[name] = captioned(picture, _setting(params, data, int(c)) + ends + ".")
    return {**figures, CLUSTERS: _clusters(params, data, readings)}


def _axis(values: np.ndarray) -> np.ndarray:
    """Both ends (2, d) of the leading eigenvector of V, where its eigenvalue is real; else nothing (0, d)."""
    top = int(values.real.argmax())
    if values[top].imag != 0.0:
        return np.zeros((0, len(values)))
    found, vectors = np.linalg.eig(from_eigenvalues([complex(v) for v in values]))
    vector = vectors[:, int(np.abs(found - values[top]).argmin())].real
    return np.asarray(np.stack([vector, -vector]) / np.linalg.norm(vector))


def _setting(params: Any, data: Data, c: int) -> str:
    values = ", ".join(
        f"{v.real:.2f}" if v.imag == 0 else f"{v.real:.2f}{v.imag:+.2f}i" for v in data["eigenvalues"][c]
    )
    return (
        f"n = {params.n} tokens on the sphere (d = {params.top}), causal attention, beta = {params.beta:g}, Q = K = I, "
        f"V with eigenvalues {values}; seed {params.seed}; the first token is red"
    )


def _clusters(params: Any, data: Data, readings: Sequence[str]) -> Any:
    with paper():
        figure, axes = panels(None, len(readings), 3.4, 0.72)
        for r, panel in enumerate(axes):
            chosen = np.flatnonzero(data["cases"][:, 1] == r)
            lines = {
                f"head {data['cases'][c, 0]}": np.median(data["count"][:, c], axis=0).astype(float) for c in chosen
            }
            series(
                data["t"],
                lines,
                ylabel=f"clusters of {params.n} tokens" if r == 0 else "",
                yscale="log",
                title=f"eigenvalues of {readings[r]}",
                ax=panel,
            )
            legend = panel.get_legend()
            if r and legend is not None:
                legend.remove()
    return captioned(
        figure,
        f"Median number of clusters (links up to 0.05 rad) over {params.instances} starts, every head of "
        f"{params.model}. n = {params.n}, d = {params.top}, causal, beta = {params.beta:g}, Q = K = I.",
    )


def films(params: Any, data: Data) -> Films:
    if model_access.SKIPPED in data:
        return {}
    c = int(np.flatnonzero(data["cases"][:, 0] == params.head)[0])
    V = from_eigenvalues([complex(v) for v in data["eigenvalues"][c]])
    shown = Trajectory(data["t"], data["shown"][0, 0], Dynamics(Weights(V=V), beta=params.beta, mask="causal"))
    caption = f"{_setting(params, data, c)}; t = 0 to {params.snapshots[-1]:g}."
    return {"Fig. 7 as a film: eigenvalues of O V": {"tokens": shown, "first": "red", "caption": caption}}
