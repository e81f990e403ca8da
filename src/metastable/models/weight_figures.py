"""Pictures of a study's spectra and of its ladder, each from its datasets alone."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from metastable.models.depth_axis import DASHED, by_layer, heads_from_zero, legend
from metastable.models.study import Study
from metastable.plots import eigenvalues, heatmap
from metastable.plots.style import INK, PALETTE, RED, SOFT, one_axes, paper

if TYPE_CHECKING:
    import xarray


# --- spectra ------------------------------------------------------------------------------------------------------


def spectrum(study: Study, name: str, layer: int) -> Figure:
    """Eigenvalues of every head of one layer: Fig. 10 of the second paper (``name`` is "ov" or "value_block")."""
    values = study.spectra[name].sel(layer=layer).values  # (heads, rank)
    return eigenvalues(values, titles=[f"head {h}" for h in range(len(values))])


@paper()
def qk_spectrum(study: Study) -> Figure:
    """Eigenvalues of the symmetrised score form, one line per head."""
    values = study.spectra["qk"].values
    values = values.reshape(-1, values.shape[-1])  # (layers x heads, form)
    figure, panel = one_axes(None, height=2.75)
    fade = float(np.clip(6 / len(values), 0.12, 0.9))
    for row in values:
        panel.plot(np.arange(1, len(row) + 1), row, color=PALETTE[0], lw=0.8, alpha=fade)
    panel.axhline(0, color=INK, lw=0.5)
    panel.set(xlabel="rank", ylabel=r"eigenvalue of $\frac{1}{2}(Q^TK+K^TQ)$")
    return figure


@paper()
def temperatures(study: Study) -> Figure:
    """Effective inverse temperature of every head."""
    beta = study.spectra["beta_model"].values  # (layers, heads)
    if len(beta) > 1:
        figure = heatmap(beta, xlabel="head", ylabel="layer", low=0.0, bar=r"effective $\beta$")
        return heads_from_zero(figure, beta.shape[1])
    figure, panel = one_axes(None, height=2.75)
    panel.bar(np.arange(beta.shape[1]), beta[0], color=PALETTE[0], width=0.7, label="at the model's token length")
    panel.plot(
        np.arange(beta.shape[1]),
        study.spectra["beta"].values[0],
        "o",
        color=PALETTE[1],
        ms=4,
        label="published definition",
    )
    panel.set(xlabel="head", ylabel=r"effective $\beta$", xticks=np.arange(beta.shape[1]))
    legend(figure)
    return figure


# --- ladder -------------------------------------------------------------------------------------------------------

LADDER_LABELS = {
    "wasserstein": "Wasserstein distance of the similarities",
    "rand_index": "agreement of clusters (ARI)",
    "gram_distance": "distance of the Gram matrices",
}


def _ladder(study: Study) -> "xarray.Dataset":
    assert study.ladder is not None, "this study has no ladder"
    return study.ladder


@paper()
def climb(study: Study, name: str) -> Figure:
    """One distance from the real model by rung and layer."""
    data = _ladder(study)
    figure, panel = one_axes(None, height=2.75)
    for k, (number, part) in enumerate(zip(data.rung.values, data["part"].values)):
        last = number == data.rung.values[-1]
        style: dict[str, Any] = {"color": INK, "lw": 1.0, "ls": DASHED} if last else {"color": PALETTE[k]}
        panel.plot(data.layer, data[name].sel(rung=number).mean("text"), label=f"{number}: {part}", **style)
    top = {"rand_index": (-0.08, 1.08)}.get(name, (0, None))
    panel.set(ylabel=LADDER_LABELS[name], ylim=top)
    by_layer(panel, study)
    legend(figure)
    return figure


@paper()
def mean_cosines(study: Study) -> Figure:
    """Mean cosine of two tokens: every rung, and the model."""
    data = _ladder(study)
    figure, panel = one_axes(None, height=2.75)
    for k, (number, part) in enumerate(zip(data.rung.values[:-1], data["part"].values)):
        line = data["mean_cosine"].sel(rung=number).mean("text")
        panel.plot(data.layer, line, color=PALETTE[k], label=f"{number}: {part}")
    panel.plot(data.layer, data["model_mean_cosine"].mean("text"), color=RED, lw=1.6, label="the model")
    panel.set(ylabel="mean cosine of two tokens")
    by_layer(panel, study)
    legend(figure)
    return figure


@paper()
def errors(study: Study) -> Figure:
    """Relative error of the rungs that live in the model's own space, and the step error of those on the sphere."""
    data = _ladder(study)
    figure, panel = one_axes(None, height=2.75)
    for k, number in enumerate(data.rung.values):
        for name, style, word in (
            ("relative_error", "-", "states against the model"),
            ("step_error", DASHED, "layers against their ODE"),
        ):
            found = data[name].sel(rung=number)
            line = (found.mean("text") if "text" in found.dims else found).values
            if np.isfinite(line).any():
                panel.plot(
                    data.layer, np.maximum(line, 1e-17), color=PALETTE[k], ls=style, label=f"rung {number}: {word}"
                )
    panel.axhline(1e-5, color=SOFT, lw=0.7, ls=":", label="1e-5: required of the top rung")
    panel.set(ylabel="relative error", yscale="log")
    by_layer(panel, study)
    legend(figure)
    return figure
