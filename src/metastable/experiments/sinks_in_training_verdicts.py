"""Verdicts and pictures of `sinks-in-training`, with criteria fixed before any model was trained.

Onsets, the steps from which on a criterion is met, were added later; they are measured with the same criteria, and no
verdict rests on them.
"""

from typing import Any

import matplotlib
import numpy as np

from metastable.experiments.base import Data, Figures
from metastable.plots.style import PALETTE, SOFT, captioned, panels, paper
from metastable.theory.verdicts import Verdict, from_readings, judge_number, judge_share

SOURCE = "first paper, sec. 5"
TITLE = "Attention on the first token over training"
INSIDE = "Alignment, values and clusters over training"
HISTOGRAM = "Cosines of tokens after the last layer, at checkpoints"
SINK, MORE, GROWN, SHORT, HEAD = 1.5, 1.1, 0.05, 0.9, 3.0
KINDS = ("with positions", "without positions")
# what makes a sink: key, the least value, as in the readings of `judge`
READINGS = (("ratio", float(np.log(SINK))), ("mass", float(np.log(SINK))), ("strongest", HEAD))
_DASHES = (0, (4, 2))


def judge(params: Any, data: Data) -> list[Verdict]:
    """Every trained model is an instance, one number each: means over its layers and heads, of all sizes together.

    Sink: the attention on the first token is at least SINK = 1.5 times that of the seven tokens after it (reading 1) or
    than even attention (reading 2), in the mean over models, in logarithms; or (reading 3) nine in ten models have a
    head in which it is HEAD = 3 times even attention. Position alone: before the first step the first reading's
    number is already MORE = 1.1. Training: the number grows. Alignment: the cosine of queries with the first key, over
    that with the seven others, grows by GROWN = 0.05. Value: the first token's value is shorter than theirs, by 10% or
    more (SHORT = 0.9), as sinks of large models have it. All for models with positions and without.

    A model counts as trained when its loss, over the last tenth of the steps, is below what the letter before alone can
    give, the text's entropy of a letter given the one before: no attention is needed for more than that. What is said
    of training is judged on trained models only. (That rule was added after a first quick look, whose 60 steps trained
    nothing: every claim about training failed or was undecided.)
    """
    verdicts = []
    for kind in KINDS:
        trained = learned(params, data, kind)
        first = pooled(params, data, kind, "ratio")[0]
        ratio, mass, strongest, aligned, value = (
            pooled(params, data, kind, key)[:, trained] for key in ("ratio", "mass", "strongest", "aligned", "value")
        )
        count = len(first)
        when = [said_of(onsets(params, data, kind, *reading)[trained]) for reading in READINGS]
        readings = [
            _number("More attention than the seven tokens after it.", ratio[-1], READINGS[0][1], count, when[0]),
            _number("More attention than even attention gives.", mass[-1], READINGS[1][1], count, when[1]),
            judge_share(
                "A head in which it is three times even.", SOURCE, [bool(v >= HEAD) for v in strongest[-1]],
                required=0.9, notes=when[2],
            ),
        ]  # fmt: skip
        claim = f"Training makes the first token a sink, {kind}."
        verdicts.append(from_readings(claim, SOURCE, readings, notes=_about_sinks(params, data, kind)))
        claim = f"The causal structure alone, before training, makes the first token a sink, {kind} (log ratio)."
        verdicts.append(_number(claim, first, np.log(MORE), count))
        claim = f"The first token's share grows in training, {kind} (log ratio, end minus start)."
        verdicts.append(_number(claim, ratio[-1] - ratio[0], 0.0, count))
        claim = f"Queries align with the first token's key more than with others in training, {kind} (cosine)."
        verdicts.append(_number(claim, aligned[-1] - aligned[0], GROWN, count))
        claim = f"The first token's value is short, {kind} (length over that of the seven after it)."
        verdicts.append(judge_number(claim, SOURCE, value[-1], (0.0, SHORT), kind="reading", instances=count))
    return verdicts


def _number(claim: str, values: np.ndarray, least: float, count: int, notes: str = "") -> Verdict:
    return judge_number(claim, SOURCE, values, (least, np.inf), kind="reading", instances=count, notes=notes)


def onsets(params: Any, data: Data, kind: str, key: str, least: float) -> np.ndarray:
    """The first checkpoint from which on a model meets a criterion at every one, (models,); inf where there is none."""
    met = pooled(params, data, kind, key) >= least  # (C, models)
    lasting = np.logical_and.accumulate(met[::-1])[::-1]
    steps = np.append(np.array(params.checkpoints, float), np.inf)
    return np.asarray(steps[np.where(lasting[-1], lasting.argmax(axis=0), -1)])


def said_of(steps: np.ndarray) -> str:
    """Onsets in words.

    >>> said_of(np.array([30.0, 10.0, np.inf, 100.0]))
    'lasting in 3 of 4 trained models, from step 30 on (median; the earliest 10, the latest 100)'
    >>> said_of(np.array([np.inf, np.inf]))
    'lasting in 0 of 2 trained models'
    >>> said_of(np.array([]))
    'not measured, as no model was trained'
    """
    if not len(steps):
        return "not measured, as no model was trained"
    found = steps[np.isfinite(steps)]
    often = f"lasting in {len(found)} of {len(steps)} trained models"
    if not len(found):
        return often
    ends = f"the earliest {found.min():g}, the latest {found.max():g}"
    return f"{often}, from step {np.median(found):g} on (median; {ends})"


def learned(params: Any, data: Data, kind: str) -> np.ndarray:
    """Which models of a kind were trained: see `judge`."""
    found = []
    for name in names(params, kind):
        losses = data[f"{name}/loss"]  # (steps, S)
        found.append(losses[-max(1, len(losses) // 10) :].mean(axis=0) < float(data[f"{name}/bigram"]))
    return np.concatenate(found)


def _about_sinks(params: Any, data: Data, kind: str) -> str:
    ratio, mass = (np.exp(pooled(params, data, kind, key).mean(axis=1)) for key in ("ratio", "mass"))
    trained, name = learned(params, data, kind), names(params, kind)[-1]
    loss = data[f"{name}/loss"][-max(1, len(data[f"{name}/loss"]) // 10) :].mean()
    return (
        f"{trained.sum()} of {len(trained)} models trained (loss of the largest size {loss:.2f}, bigram entropy "
        f"{float(data[f'{name}/bigram']):.2f}); ratio {ratio[0]:.2f} before, {ratio[-1]:.2f} after training; over even "
        f"attention {mass[0]:.2f} and {mass[-1]:.2f}; by size: {_by_size(params, data, kind)}; a sink over the next "
        f"seven {said_of(onsets(params, data, kind, *READINGS[0])[trained])}"
    )


def names(params: Any, kind: str) -> list[str]:
    """Names of the groups of one kind, one per size."""
    return [f"{d}x{layers}x{heads} {kind}" for d, layers, heads in params.sizes]


def of_group(data: Data, name: str, key: str) -> np.ndarray:
    """One number for every checkpoint and model, (C, S)."""
    if key == "ratio":
        return np.asarray(np.log(of_group(data, name, "mean") / data[f"{name}/early"].mean(axis=(2, 3))))
    if key == "mass":
        return np.asarray(np.log(of_group(data, name, "mean")))
    if key == "strongest":
        return np.asarray(data[f"{name}/mass"].max(axis=(2, 3)))
    if key == "aligned":
        return np.asarray((data[f"{name}/aligned"] - data[f"{name}/others"]).mean(axis=(2, 3)))
    if key == "clusters":
        return np.asarray(data[f"{name}/clusters"])
    return np.asarray(data[f"{name}/{'mass' if key == 'mean' else key}"].mean(axis=(2, 3)))


def pooled(params: Any, data: Data, kind: str, key: str) -> np.ndarray:
    """The same of all sizes, (C, models)."""
    return np.concatenate([of_group(data, name, key) for name in names(params, kind)], axis=1)


def _by_size(params: Any, data: Data, kind: str) -> str:
    each = [(name.split(" ")[0], np.exp(of_group(data, name, "ratio")[-1].mean())) for name in names(params, kind)]
    return ", ".join(f"{name} {value:.2f}" for name, value in each)


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Any, data: Data) -> Figures:
    with paper():
        return {TITLE: _sinks(params, data), INSIDE: _inside(params, data), HISTOGRAM: _histograms(params, data)}


def _band(axis: Any, steps: np.ndarray, values: np.ndarray, colour: str, label: str, style: str = "-") -> None:
    """Mean over seeds of values (C, S), and a band from the lowest to the highest."""
    axis.plot(steps, values.mean(axis=1), color=colour, ls=style, label=label, marker="o", ms=2.5)
    axis.fill_between(steps, values.min(axis=1), values.max(axis=1), color=colour, alpha=0.12, lw=0)


def _grid(params: Any, count: int) -> tuple[Any, Any, np.ndarray]:
    figure, axes = panels(None, count, 2.4 if count > 2 else 3.2, 0.95)
    for axis in axes:
        axis.set_xscale("symlog", linthresh=10.0)
        shown = [step for step in (0, 10, 30, 100, 300, 1000, 3000) if step <= params.steps]
        shown += [params.steps] if params.steps >= 2 * shown[-1] else []
        axis.set_xticks(shown, [f"{step:,}" for step in shown])
        axis.set_xticks([], minor=True)
        axis.set_xlabel("step")
    return figure, axes, np.array(params.checkpoints)


def _legend_below(figure: Any, axis: Any) -> None:
    """Bands fill the panels: the legend stands under them."""
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="x-small")


def _label(name: str) -> str:
    return f"d = {name.split('x')[0]}, {name.split(' ')[1]} positions"


def _each(params: Any, data: Data, axis: Any, steps: np.ndarray, key: str, exponent: bool = False) -> None:
    for kind, style in zip(KINDS, ("-", "--")):
        for name, colour in zip(names(params, kind), PALETTE):
            values = of_group(data, name, key)
            _band(axis, steps, np.exp(values) if exponent else values, colour, _label(name), style)


def _sinks(params: Any, data: Data) -> Any:
    figure, axes, steps = _grid(params, 2)
    _each(params, data, axes[0], steps, "ratio", exponent=True)
    _each(params, data, axes[1], steps, "mass", exponent=True)
    axes[0].set_ylabel("first token over the next seven")
    axes[1].set_ylabel("first token over even attention")
    for axis, reading in zip(axes, READINGS):
        axis.axhline(1.0, color=SOFT, lw=0.8, ls=_DASHES)
        axis.axhline(SINK, color=SOFT, lw=0.8)
        for kind, mark in zip(KINDS, ("v", "^")):
            when = onsets(params, data, kind, *reading)
            met = when[np.isfinite(when) & learned(params, data, kind)]
            axis.plot(met, np.full(len(met), SINK), ls="", marker=mark, ms=4, color="#222222", alpha=0.4)
    _legend_below(figure, axes[0])
    what = (
        f"Mean over layers, heads and queries; 1 (dashed) is no sink, {SINK:g} (line) the criterion. Triangles on it: "
        "from where on a trained model meets it, downward with positions, upward without."
    )
    return captioned(figure, _about(params, what))


def _inside(params: Any, data: Data) -> Any:
    figure, axes, steps = _grid(params, 3)
    labels = {
        "aligned": "cosine, first key - others",
        "value": "value length, first / others",
        "clusters": "clusters in a window",
    }
    for axis, (key, label) in zip(axes, labels.items()):
        _each(params, data, axis, steps, key)
        axis.set_ylabel(label)
    _legend_below(figure, axes[0])
    what = (
        "Left and middle: means over layers and heads; right: tokens linked by cosines above 0.9 after the last layer."
    )
    return captioned(figure, _about(params, what))


def _histograms(params: Any, data: Data) -> Any:
    name = names(params, KINDS[0])[-1]
    figure, axes = panels(None, 2, 3.2, 0.7)
    bins = np.linspace(-1.0, 1.0, data[f"{name}/histogram"].shape[-1] + 1)
    middle = (bins[1:] + bins[:-1]) / 2
    for axis, kind in zip(axes, KINDS):
        counts = data[f"{names(params, kind)[-1]}/histogram"]  # (C, S, bins)
        for k, colour in enumerate(matplotlib.colormaps["viridis"](np.linspace(0.0, 0.85, len(counts)))):
            axis.plot(middle, counts[k].mean(axis=0), color=colour, label=f"step {params.checkpoints[k]:,}")
            if k in (0, len(counts) - 1):
                axis.fill_between(middle, counts[k].min(axis=0), counts[k].max(axis=0), color=colour, alpha=0.15, lw=0)
        axis.set(xlabel="cosine of two tokens", title=kind, ylim=(0.0, None), xticks=np.linspace(-1.0, 1.0, 5))
    axes[0].set_ylabel("share of pairs")
    axes[0].legend(loc="best", fontsize="x-small")
    return captioned(figure, _about(params, "The largest size; bands of the first and the last step alone."))


def _about(params: Any, what: str) -> str:
    sizes = ", ".join(f"d = {d} with {layers} layers and {heads} heads" for d, layers, heads in params.sizes)
    return (
        f"{what} Bands from the lowest to the highest of {params.instances} seeds from {params.seed} on; {sizes}; "
        f"windows of "
        f"{params.window} letters, batches of {params.batch}, Adam at rate {params.rate:g} falling to zero."
    )
