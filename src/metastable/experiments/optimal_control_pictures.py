"""Pictures of `optimal-control`."""

from typing import Any

import numpy as np

from metastable.experiments.base import Data, Figures
from metastable.experiments.optimal_control_verdicts import PRICE, WORDS, angles, least_errors
from metastable.plots.style import INK, PALETTE, SOFT, captioned, panels, paper
from metastable.theory.control_forms import best_compromise, least_effort

TITLE = "One token: effort against error, and what constancy costs"
REACH = "Targets out of reach, and constant against time-dependent weights"
CLOUDS = "Clouds: where they start, where they should be, where they end"
_DASHES = (0, (4, 2))


def draw(params: Any, data: Data) -> Figures:
    with paper():
        return {TITLE: _one_token(params, data), REACH: _reach(params, data), CLOUDS: _clouds(params, data)}


def _name(pieces: int) -> str:
    return "constant $V$" if pieces == 1 else f"{pieces} stretches"


def _one_token(params: Any, data: Data) -> Any:
    figure, (left, right) = panels(None, 2, 3.2, 0.85)
    theta = angles(data, params.pieces[0])
    shown = int(np.abs(theta - 2.0).argmin())
    grid = np.geomspace(min(params.weights) / 3, max(params.weights) * 3, 40)
    wide = np.linspace(0.05, np.pi - 1e-3, 80)
    for pieces, colour in zip((params.pieces[0], params.pieces[-1]), PALETTE):
        curve = np.array([best_compromise(float(theta[shown]), float(w), pieces) for w in grid])
        left.plot(curve[:, 1], curve[:, 0], color=colour, lw=1.2)
        effort, error = data[f"one-{pieces}/effort"], data[f"one-{pieces}/error"]
        unrest = data[f"one-{pieces}/unrest"]
        _dots(left, effort[shown], error[shown], unrest[shown], colour, _name(pieces))
        right.plot(wide, [least_effort(float(a), pieces) / a**2 for a in wide], color=colour, lw=1.2)
        gone = _went(data, pieces)
        _dots(right, gone, effort[:, 0] / gone**2, unrest[:, 0], colour, _name(pieces))
    left.set(xlabel="effort", ylabel="error $|x(1) - y|^2$", yscale="log", title=f"target {theta[shown]:.2f} rad away")
    right.set(
        xlabel="angle that the token went (rad)", ylabel="effort / angle$^2$", ylim=(0.9, None), title="all targets"
    )
    right.axhline(1.0, color=SOFT, lw=0.8, ls=_DASHES)
    left.legend(loc="upper right")
    return captioned(
        figure,
        f"Dots: weights found by descent, {params.instances} targets on the sphere in R^{params.d} from seed "
        f"{params.seed} on, n = 1, V free, weights of the effort {', '.join(f'{w:g}' for w in params.weights)} (right: "
        "the smallest); open ones had not come to rest. Lines: closed forms. Dashed: V free to change at every moment.",
    )


def _dots(axes: Any, x: np.ndarray, y: np.ndarray, unrest: np.ndarray, colour: str, name: str) -> None:
    """Descents: filled where they came to rest, open where more steps would change them."""
    filled = [colour if one <= PRICE else "none" for one in unrest]
    axes.scatter(x, y, s=14, facecolors=filled, edgecolors=colour, linewidths=1.0, zorder=3)
    axes.scatter([], [], s=14, color=colour, label=name)


def _went(data: Data, pieces: int) -> np.ndarray:
    """The angle between a token's start and its end, for the smallest weight, (seeds,)."""
    x, end = data[f"one-{pieces}/x0"][:, 0], data[f"one-{pieces}/end"][:, 0, 0]
    return np.asarray(2.0 * np.arcsin(np.minimum(1.0, np.linalg.norm(x - end, axis=-1) / 2.0)))


def _reach(params: Any, data: Data) -> Any:
    figure, (left, right) = panels(None, 2, 3.2, 0.85)
    first, last = params.pieces[0], params.pieces[-1]
    for family, colour in (("together", PALETTE[0]), ("opposite", PALETTE[1])):
        least = least_errors(data, family, last)
        name = "two in one place" if family == "together" else "two opposite ones"
        _dots(left, least, data[f"{family}-{last}/error"][:, 0], data[f"{family}-{last}/unrest"][:, 0], colour, name)
    top = left.get_xlim()[1]
    left.plot([0.0, top], [0.0, top], color=SOFT, lw=0.8, ls=_DASHES)
    left.set(xlabel="least error that is possible", ylabel="error that was found", title="out of reach")
    left.legend(loc="lower right")
    for family, colour in zip(WORDS, PALETTE):
        x, y = (np.maximum(data[f"{family}-{p}/error"][:, 0], 1e-8) for p in (first, last))
        unrest = np.maximum(*(data[f"{family}-{p}/unrest"][:, 0] for p in (first, last)))
        _dots(right, x, y, unrest, colour, WORDS[family])
    ends = (min(right.get_xlim()[0], 1e-4), right.get_xlim()[1])
    right.set(xscale="log", yscale="log", xlabel="error, constant weights", ylabel=f"error, {last} stretches of time")
    right.plot(ends, ends, color=SOFT, lw=0.8, ls=_DASHES)
    right.set_title("constant against time-dependent")
    right.legend(loc="upper left", fontsize="small")
    return captioned(
        figure,
        f"Left: error of weights on {last} stretches against the least possible, tokens that cannot part. Right: each "
        f"dot is a target, Q, K, V free, beta = {params.beta:g}; {params.n} tokens, clouds of {params.cloud}, "
        f"d = {params.d}, "
        f"{params.instances} seeds from {params.seed} on, weight of the effort {params.small:g}; below the dashed line "
        "weights over time err less. Open dots: a descent had not come to rest.",
    )


def _clouds(params: Any, data: Data) -> Any:
    figure, axes = panels(None, 4, 1.9, 1.0, columns=4)
    first, last = params.pieces[0], params.pieces[-1]
    kinds = [("gather", first), ("gather", last), ("spread", first), ("spread", last)]
    for axis, (family, pieces) in zip(axes, kinds):
        start, aim, end = (data[f"{family}-{pieces}/{key}"][0] for key in ("x0", "targets", "end"))
        axis.add_patch(_circle())
        axis.scatter(start[:, 0], start[:, 1], s=8, facecolors="none", edgecolors=SOFT, linewidths=0.7, label="start")
        axis.scatter(aim[:, 0], aim[:, 1], s=26, marker="+", color=INK, linewidths=0.9, label="target")
        axis.scatter(end[0][:, 0], end[0][:, 1], s=10, color=PALETTE[0], alpha=0.8, linewidths=0, label="end")
        axis.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), aspect="equal")
        axis.set_axis_off()
        axis.set_title(f"{family}, {'constant' if pieces == 1 else _name(pieces)}", fontsize="small")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
    return captioned(
        figure,
        f"Clouds of {params.cloud} tokens of the first seed ({params.seed}), first two of {params.d} coordinates; Q, "
        "K, V learned, constant or over time, to make the energy distance to the targets small.",
    )


def _circle() -> Any:
    from matplotlib.patches import Circle

    return Circle((0.0, 0.0), 1.0, fill=False, edgecolor=SOFT, lw=0.6)
