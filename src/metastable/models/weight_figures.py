"""Pictures of a study's spectra, each from its dataset alone."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from metastable.models.depth_axis import layer_head_map, legend
from metastable.models.study_record import Study
from metastable.plots import eigenvalues
from metastable.plots.style import COLUMN, INK, PALETTE, new_figure, one_axes, paper

if TYPE_CHECKING:
    import xarray


def _spectra(study: Study) -> "xarray.Dataset":
    assert study.spectra is not None, "this study has no spectra"
    return study.spectra


@paper()
def spectrum(study: Study, name: str, layer: int) -> Figure:
    """Eigenvalues of every head of one layer: Fig. 10 of the second paper (``name`` is "ov" or "value_block")."""
    values = _spectra(study)[name].sel(layer=layer).values  # (heads, rank)
    columns = min(len(values), 2 if len(values) <= 8 else 3)
    rows = -(-len(values) // columns)
    figure = new_figure(COLUMN, 0.35 + rows * (COLUMN / columns + 0.1))
    panels = [figure.add_subplot(rows, columns, k + 1) for k in range(len(values))]
    eigenvalues(values, titles=[f"head {h}" for h in range(len(values))], ax=panels)
    for k, panel in enumerate(panels):
        panel.set_ylabel(panel.get_ylabel() if k % columns == 0 else "")
        panel.set_xlabel(panel.get_xlabel() if k + columns >= len(panels) else "")
        panel.tick_params(labelsize=6)
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_locator(MaxNLocator(nbins=3 if columns == 3 else 4, symmetric=True))
    return figure


@paper()
def leading(study: Study) -> Figure:
    """Modulus of the leading eigenvalue of O V of every head; good triples are marked."""
    data = _spectra(study)
    size, good = np.abs(data["ov"].values[..., 0]), data["good"].values == 1  # (layers, heads)
    if len(size) > 1:
        figure = layer_head_map(size, r"modulus of the leading eigenvalue")
        figure.axes[0].plot(*np.argwhere(good).T[::-1], "o", ms=3.5, mfc=PALETTE[1], mec="white", mew=0.6)
        return figure
    figure, panel = one_axes(None, height=2.5)
    heads = np.arange(size.shape[1])
    panel.bar(heads, size[0], color=[PALETTE[1] if g else PALETTE[0] for g in good[0]], width=0.7)
    panel.set(xlabel="head", ylabel="modulus of the leading eigenvalue", xticks=heads[:: -(-len(heads) // 12)])
    return figure


@paper()
def qk_spectrum(study: Study) -> Figure:
    """Eigenvalues of the symmetrised score form, one line per head."""
    values = _spectra(study)["qk"].values
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
    data = _spectra(study)
    beta = data["beta_model"].values  # (layers, heads)
    if len(beta) > 1:
        return layer_head_map(beta, r"effective $\beta$")
    figure, panel = one_axes(None, height=2.75)
    heads = np.arange(beta.shape[1])
    panel.bar(heads, beta[0], color=PALETTE[0], width=0.7, label="at the model's token length")
    panel.plot(heads, data["beta"].values[0], "o", color=PALETTE[1], ms=4, label="published definition")
    panel.set(xlabel="head", ylabel=r"effective $\beta$", xticks=heads[:: -(-len(heads) // 12)])
    legend(figure)
    return figure
