"""Pictures and films of `metastable.experiments.repulsion_sphere`."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments.base import Data, Figures, Films
from metastable.experiments.negative_values import READINGS
from metastable.plots import series, snapshots
from metastable.plots.style import captioned
from metastable.theory.intervals import mean_half_width
from metastable.trajectory import Trajectory

TURNING = "How much tokens turn"
TURNS = 0.5  # about one axis in the second half of a run, at least, make a swirl


def draw(params: Any, data: Data) -> Figures:
    shown = [*params.snapshots, params.t]
    figures = {}
    for k, reading in enumerate(READINGS):
        picture = snapshots(data["shown"][0, k], data["t"], times=shown, first="red")
        figures[f"Fig. 6 read as {reading}"] = captioned(picture, f"{_setting(params)} {reading}; seed {params.seed}.")
    return {
        **figures,
        "How close the nearest other token is": _closeness(params, data),
        TURNING: _turning(params, data),
    }


def _setting(params: Any) -> str:
    return (
        f"n = {params.n} tokens on the sphere (d = 3), causal attention, beta = {params.beta:g}, Q = K = I, the first "
        "token red;"
    )


def _closeness(params: Any, data: Data) -> Figure:
    nearest = data["nearest"]  # (b, readings, s)
    half = mean_half_width(nearest)
    mean = dict(zip(READINGS, nearest.mean(axis=0)))
    figure = series(
        data["seen"],
        mean,
        band={name: (line - half[k], line + half[k]) for k, (name, line) in enumerate(mean.items())},
        reference={"uniform tokens": (data["seen"][[0, -1]], [np.sqrt(np.pi / params.n)] * 2)},
        ylabel="nearest-neighbour angle (rad)",
        yscale="log",
        marks=True,
        outside=True,
    )
    return captioned(
        figure,
        f"Angle of a token to its nearest neighbour: mean over tokens and {params.instances} starts (seeds from "
        f"{params.seed} on) with its 95% interval. n = {params.n}, d = 3, causal, beta = {params.beta:g}, Q = K = I, "
        "five V.",
    )


def _turning(params: Any, data: Data) -> Figure:
    ordered = np.sort(data["turns"], axis=0)  # (b, readings)
    share = (np.arange(len(ordered)) + 0.5) / len(ordered)
    figure = series(
        share,
        {name: ordered[:, k] for k, name in enumerate(READINGS)},
        reference={f"a swirl: {TURNS:g} turns": ([0.0, 1.0], [TURNS, TURNS])},
        xlabel="share of starts",
        ylabel=f"turns about one axis, t = {params.t / 2:g} to {params.t:g}",
        outside=True,
    )
    return captioned(
        figure,
        f"The common rotation of all tokens in the second half of each run, {params.instances} starts in order. "
        f"n = {params.n}, d = 3, causal, beta = {params.beta:g}, Q = K = I; seeds from {params.seed} on.",
    )


def films(params: Any, data: Data) -> Films:
    return {
        f"Fig. 6 as a film, {reading}": {
            "tokens": Trajectory(data["t"], data["shown"][0, k], _dynamics(params, V)),
            "first": "red",
            "caption": f"{_setting(params)} {reading}; t = 0 to {params.t:g}, seed {params.seed}.",
        }
        for k, (reading, V) in enumerate(READINGS.items())
    }


def _dynamics(params: Any, V: Callable[[int], np.ndarray]) -> Dynamics:
    return Dynamics(Weights(V=V(params.seed)), beta=params.beta, mask="causal")
