"""The maps of phase-diagram without a limiting curve: causal attention, V = -I, random V; verdicts and pictures.

What is known exactly: token 1 of causal attention goes along e^{tV} x / |e^{tV} x| (softmax), and with V = s I the
angle of token 2 to it, whatever tokens follow, obeys

    softmax:       phi' = -s sin(phi) / (1 + e^{beta (1 - cos phi)})
    unnormalised:  phi' = -(s/2) e^{beta cos phi} sin(phi)          (sums are divided by the tokens that are seen)

Causal tokens with V = I all end at x_1(0); with V = -I no clusters form. For random V under full attention nothing is
known: its maps are drawn and not judged.
"""

from typing import Any

import numpy as np

from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Data, Figures
from metastable.experiments.phase_diagram_runs import ATTENTIONS, LETTERS, MAPS, MASKS, Params, grid, key, weights
from metastable.experiments.second_token import ANGLE_ALLOWED, STEPS
from metastable.initial import sphere
from metastable.plots import phase_diagram
from metastable.plots.phase import shared_bar
from metastable.plots.style import captioned, panels, paper
from metastable.theory.sphere_forms import first_token_path
from metastable.theory.verdicts import Verdict, judge_share

AXES: dict[str, Any] = {"xlabel": r"$\beta$", "ylabel": "time $t$", "bar": None}
TITLES = ("$V = I$", "$V = -I$", "random $V$")
ALONE = {"share": "", "clusters": " (lone tokens count)"}  # said in captions
PATH_ALLOWED = 1e-3  # of token 1, as in spectra: RK4's own error, with |V| below 3


def judge_maps(params: Params, data: Data) -> list[Verdict]:
    found = [_first(params, data), _gathering(params, data)]
    for attention in params.mapped:
        found += [_second(params, data, attention, value) for value in range(2)]
        found += [_repulsion(params, data, attention, mask) for mask in range(2)]
    return found


def _first(params: Params, data: Data) -> Verdict:
    """The first coordinate of token 1 at every beta and time; softmax, since unnormalised it moves e^beta as fast."""
    times, off = grid(params, 0)[1], []
    for d in params.dims:
        for k, path in enumerate(data[f"{key(d, 0, 1, 2)} first"]):  # (betas, times)
            V = np.asarray(weights(2, d, params.seed + k).V).reshape(d, d)
            exact = first_token_path(times, V, sphere(params.n, d, seed=params.seed + k)[0])[:, 0]
            off.append(np.abs(path - exact).max())
    return judge_share(
        "With random V the first causal token is e^{tV} x / |e^{tV} x|.",
        "closed form of the first token",
        [bool(value <= PATH_ALLOWED) for value in off],
        exact=True,
        notes=f"every dimension and start; largest difference {max(off):.1e}, over all times and beta",
    )


def second_angles(start: np.ndarray, betas: np.ndarray, times: np.ndarray, attention: int, sign: float) -> np.ndarray:
    """The exact angles of token 2 at all times, (times, ...), from those at the start, (..., betas)."""

    def rate(_: float, phi: np.ndarray) -> np.ndarray:
        if attention == 0:
            return np.asarray(-sign * np.sin(phi) / (1.0 + np.exp(betas * (1.0 - np.cos(phi)))))
        return np.asarray(-sign * np.exp(betas * np.cos(phi)) * np.sin(phi) / 2.0)

    found = [np.asarray(start, dtype=float)]
    for step in np.diff(times):
        found.append(plain.moved(rate, found[-1], float(step), max(1, round(step * STEPS))))
    return np.stack(found)


def _second(params: Params, data: Data, attention: int, value: int) -> Verdict:
    betas, times, _ = grid(params, attention)
    angles = np.stack([data[f"{key(d, attention, 1, value)} pair"] for d in params.dims])  # (dims, instances, b, T)
    exact = second_angles(angles[..., 0], betas, times, attention, 1.0 - 2.0 * value)
    off = np.abs(angles - np.moveaxis(exact, 0, -1)).max(axis=-1)
    return judge_share(
        f"Token 2 moves at the exact rate under causal {ATTENTIONS[attention]} attention, V = {LETTERS[value]}.",
        "first paper, eq. (3), solved for two tokens",
        [bool(one <= ANGLE_ALLOWED) for one in off.ravel()],
        exact=True,
        notes=f"every dimension, start and beta; largest difference of the angle {off.max():.1e}, over all times",
    )


def _gathering(params: Params, data: Data) -> Verdict:
    """One cluster at the horizon, at every beta for which t >= (1 + e^{2 beta}) ln n.

    A token opposite the others leaves at the rate 1/(1 + e^{2 beta}) of two tokens, and the nearest of n is about 1/n
    from there. At larger beta clusters outlive the horizon.
    """
    eligible = [bool(params.t >= (1.0 + np.exp(2.0 * beta)) * np.log(params.n)) for beta in params.betas]
    outcomes: list[bool | None] = []
    for d in params.dims:
        outcomes += [bool(count == 1) for count in data[f"{key(d, 0, 1, 0)} clusters"][..., -1].ravel()]
    return judge_share(
        "With V = I causal tokens end in one cluster.",
        "causal attention with V = I: every token converges to the first",
        outcomes,
        kind="observation",
        required=0.8,
        eligible=eligible * (len(outcomes) // len(eligible)),
        notes=f"softmax, every dimension and start; beta for which t = {params.t:g} is long enough: "
        + (", ".join(f"{b:g}" for b, long in zip(params.betas, eligible) if long) or "none"),
    )


def _repulsion(params: Params, data: Data, attention: int, mask: int) -> Verdict:
    """No more pairs have met at the end than at the start in 4 of 5 runs: at large beta some are too slow."""
    outcomes = []
    for d in params.dims:
        shares = data[f"{key(d, attention, mask, 1)} share"]  # (instances, betas, times)
        outcomes += [bool(end <= begin) for end, begin in zip(shares[..., -1].ravel(), shares[..., 0].ravel())]
    return judge_share(
        f"With V = -I and {MASKS[mask]} {ATTENTIONS[attention]} attention tokens do not meet.",
        "first paper, sec. 4.2 (repulsion)",
        outcomes,
        kind="observation",
        required=0.8,
        notes="one outcome for each dimension, instance and beta",
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def draw_maps(params: Params, data: Data) -> Figures:
    """Masks down, V across; a figure for each attention, dimension and measure."""
    figures = {}
    for attention in params.mapped:
        betas, times, _ = grid(params, attention)
        for d in params.dims:
            for measure, words in (("share", "share of pairs that have met"), ("clusters", "clusters")):
                low, high = (0.0, 1.0) if measure == "share" else (1.0, float(params.n))
                with paper():
                    figure, axes = panels(None, 6, 2.3, 0.8, 0.25, columns=3)
                    for (mask, value), ax in zip(MAPS, axes):
                        shown = data[f"{key(d, attention, mask, value)} {measure}"].mean(axis=0).T
                        title = f"{MASKS[mask]}, {TITLES[value]}"
                        phase_diagram(betas, times, shown, **AXES, low=low, high=high, title=title, ax=ax)
                    shared_bar(figure, axes, words)
                figures[f"Masks and values, {ATTENTIONS[attention]}, d = {d}: {words}"] = captioned(
                    figure,
                    f"{words.capitalize()}{ALONE[measure]}, n = {params.n}, d = {d}, Q = K = I, "
                    f"{ATTENTIONS[attention]} attention, mean over {params.others} starts ({params.instances} where "
                    f"attention is full and V = I), seeds from {params.seed} on.",
                )
    return figures
