"""Histograms of a study's cosines, from its datasets alone: the model's, and those of each control beside it."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from metastable.models.curves import Source, band, sources
from metastable.models.depth_axis import CAUTION, some_layers
from metastable.models.study_record import Study
from metastable.plots import histograms
from metastable.plots.style import COLUMN, footnote, new_figure, paper

TITLES = {"raw": "raw cosines", "centred": "cosines beside the mean direction"}
_ROWS, _FEWER = 8, 6  # states shown of a model alone, and beside its controls


@paper()
def ridges(study: Study, kind: str) -> Figure:
    """Histograms of cosines over states, texts weigh the same: Fig. 1 of the first paper, a panel for each source."""
    shown, depth, last = sources(study), study.model["depth"], study.last
    states = some_layers(0, last, depth, _ROWS if len(shown) == 1 else _FEWER)
    labels = [f"{state}\ntrained" if state == depth < last else str(state) for state in states]
    columns = min(len(shown), 2)
    rows = -(-len(shown) // columns)
    figure = new_figure(COLUMN, 0.2 + rows * (0.7 + 0.3 * len(states)))
    for k, source in enumerate(shown):
        panel = figure.add_subplot(rows, columns, k + 1)
        _ridge(panel, study, source, kind, states, labels)
        panel.set_title(source.label if len(shown) > 1 else "")
        panel.set_xticks([-1.0, 0.0, 1.0] if columns > 1 else [-1.0, -0.5, 0.0, 0.5, 1.0])
        panel.set_ylabel("state (layers passed)" if k % columns == 0 else "")
        panel.set_xlabel("cosine of two tokens" if k + columns >= len(shown) else "")
    figure.suptitle(TITLES[kind], fontsize=8.5)
    footnote(figure, CAUTION if kind == "raw" else "The mean direction of each text's tokens is projected out.\n ")
    return figure


def _ridge(panel: Axes, study: Study, source: Source, kind: str, states: Sequence[int], labels: Sequence[str]) -> None:
    values = source.similarity["histogram"].sel(kind=kind, layer=list(states))
    middle, low, high = band(values)
    ends = (low, high) if "seed" in values.dims else None
    histograms(np.nan_to_num(middle), np.asarray(study.similarity.attrs["edges"]), band=ends, labels=labels, ax=panel)
