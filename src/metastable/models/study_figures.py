"""Every picture of a study by name: how it is drawn, and what it shows."""

from collections.abc import Callable
from typing import NamedTuple

from matplotlib.figure import Figure

from metastable.errors import unknown
from metastable.models import head_figures, ladder_figures, similarity_figures, weight_figures
from metastable.models.curves import (
    LEAST,
    at_thresholds,
    group_curves,
    rank_curves,
    similarity_curves,
    sink_curves,
    sources,
)
from metastable.models.depth_axis import some_layers
from metastable.models.depth_film import still
from metastable.models.study_numbers import grouped_layer
from metastable.models.study_record import Study


class Picture(NamedTuple):
    """How a picture is drawn, and a caption that says what is drawn and claims nothing."""

    draw: Callable[[], Figure]
    caption: str


def every_picture(study: Study) -> dict[str, Picture]:
    """The pictures of a study by file name.

    Examples
    --------
    >>> from metastable.models.study import read
    >>> every_picture(read("out/minilm"))["cosines-raw"].draw()  # doctest: +SKIP
    """
    found = _similarity(study)
    if study.heads is not None and study.sinks is not None:
        found |= _heads(study) | _sinks(study)
    if study.spectra is not None:
        found |= _spectra(study)
    if study.ladder is not None:
        found |= _ladder(study)
    return found


def picture(study: Study, name: str) -> Figure:
    """One picture by its name."""
    return named(every_picture(study), name).draw()


def named(pictures: dict[str, Picture], name: str) -> Picture:
    """One of the pictures of a study, or of a comparison."""
    if name not in pictures:
        raise unknown("picture of this record", name, list(pictures))
    return pictures[name]


def _bands(study: Study) -> str:
    return " Bands: the least and the largest of the seeds." if len(sources(study)) > 1 else ""


def _similarity(study: Study) -> dict[str, Picture]:
    shown, bands = sources(study), _bands(study)
    empty = " A row is empty where tokens have met and nothing is left beside their mean." if bands else ""
    same = (*at_thresholds("of pairs\nabove", "same_token_share"), ("of all pairs", "same_token_base", {}))
    return {
        "cosines-raw": Picture(
            lambda: similarity_figures.ridges(study, "raw"),
            "Cosines of all pairs of tokens at different positions, by state; each row is scaled by its own peak."
            + bands,
        ),
        "cosines-centred": Picture(
            lambda: similarity_figures.ridges(study, "centred"),
            f"The same beside the mean direction of each text.{empty}",
        ),
        "similarity": Picture(
            lambda: similarity_curves(shown),
            f"Cosines and clusters (tokens linked above 0.9) over depth, raw and centred.{bands}",
        ),
        "shares": Picture(
            lambda: similarity_curves(shown, at_thresholds("pairs above", "share_above"), log=True),
            f"Share of pairs above 0.9 and above 0.99; less than {LEAST:g} is not drawn.{bands}",
        ),
        "clusters": Picture(
            lambda: similarity_curves(shown, at_thresholds("clusters per token,\nlinked above", "cluster_share")),
            f"Clusters per token: 1 where no two tokens are linked, 1/n where all are one.{bands}",
        ),
        "mixed-clusters": Picture(
            lambda: similarity_curves(shown, at_thresholds("mixed clusters,\nlinked above", "mixed_clusters")),
            f"Clusters that hold two different tokens, mean number in a text.{bands}",
        ),
        "same-token": Picture(
            lambda: similarity_curves(shown, same),
            f"Share of the pairs that are one and the same token met twice.{bands}",
        ),
        "cloud": Picture(lambda: still(study), "The last state of the film."),
    }


def _heads(study: Study) -> dict[str, Picture]:
    assert study.heads is not None
    found = {
        "groups": Picture(
            lambda: group_curves(sources(study)),
            "How clear the groups of heads are, and how far other texts show the same ones; dots: layers with groups."
            + _bands(study),
        )
    }
    layers = set(some_layers(0, len(study.heads.layer) - 1, study.model["depth"] - 1, 3))
    layers.add(grouped_layer(study))
    for layer in sorted(layers):
        found[f"correlation-{layer}"] = Picture(
            lambda k=layer: head_figures.correlations(study, k),  # type: ignore[misc]
            f"Correlation of the heads' attention maps in layer {layer}; lines part groups, where there are any.",
        )
    if study.ranks is not None:
        few = f"mean over {study.ranks.sizes['text']} inputs of {round(float(study.ranks['tokens'].mean()))} tokens"
        found["ranks"] = Picture(
            lambda: rank_curves(sources(study)),
            f"Effective rank of the attention maps, {few}; dotted: spread evenly over the tokens that the mask leaves "
            f"visible.{_bands(study)}",
        )
        found["rank-map"] = Picture(
            lambda: head_figures.rank_map(study), f"Effective rank of the attention maps, {few}."
        )
    for layer in sorted(layers):
        found[f"activation-{layer}"] = Picture(
            lambda k=layer: head_figures.activations(study, k),  # type: ignore[misc]
            f"Attention that each token of the first text receives from the tokens that see it, layer {layer}.",
        )
    return found


def _sinks(study: Study) -> dict[str, Picture]:
    assert study.sinks is not None
    found = {
        "sinks": Picture(
            lambda: sink_curves(sources(study)),
            "Attention on the first token; dotted: spread evenly over the tokens that the mask leaves visible."
            + _bands(study),
        ),
        "sink-map": Picture(
            lambda: head_figures.sink_map(study), "Attention on the first token, mean over tokens and texts."
        ),
    }
    for kind, words in head_figures.SINKS.items():
        if float(study.sinks["uniform"].sel(kind=kind)) > 0:
            found[f"sink-{kind}"] = Picture(
                lambda k=kind: sink_curves(sources(study), k),  # type: ignore[misc]
                f"Attention on {words}; dotted: spread evenly over what is read.{_bands(study)}",
            )
    return found


def _spectra(study: Study) -> dict[str, Picture]:
    assert study.spectra is not None
    figures = weight_figures
    dots = " Dots: the published definition, for tokens of independent standard coordinates."
    found = {
        "leading": Picture(
            lambda: figures.leading(study),
            "Modulus of the leading eigenvalue of O V of every head; orange: good triples.",
        ),
        "beta": Picture(
            lambda: figures.temperatures(study),
            "Effective inverse temperature: the beta at which Q^T K = I would give scores as large, for tokens as "
            f"long as those that attention reads.{dots if study.spectra.sizes['layer'] == 1 else ''}",
        ),
        "qk": Picture(lambda: figures.qk_spectrum(study), "Eigenvalues of the score form, one line per head."),
    }
    layers = [int(k) for k in study.spectra.layer.values]
    for layer in (layers[k] for k in some_layers(0, len(layers) - 1, 0, 3)):
        where = "" if study.model["shared"] else f" of layer {layer}"
        found[f"ov-{layer}"] = Picture(
            lambda k=layer: figures.spectrum(study, "ov", k),  # type: ignore[misc]
            f"Eigenvalues of the map O V of each head{where}; the leading one is ringed, and filled where it is real, "
            "positive and simple.",
        )
        found[f"value_block-{layer}"] = Picture(
            lambda k=layer: figures.spectrum(study, "value_block", k),  # type: ignore[misc]
            f"Eigenvalues of the square value block of each head{where}, as published.",
        )
    return found


def _ladder(study: Study) -> dict[str, Picture]:
    figures = ladder_figures
    found = {
        "ladder-bars": Picture(
            lambda: figures.rung_bars(study),
            "Distance from the model of every rung below the exact network, and of three baselines (grey): averaged "
            "over states and texts; whiskers: standard deviation over texts.",
        )
    }
    for name, words in figures.LABELS.items():
        found[f"ladder-{name}"] = Picture(
            lambda n=name: figures.distances(study, n),  # type: ignore[misc]
            f"{words[0].upper()}{words[1:]}: rungs, and baselines in grey; mean over texts, with their spread.",
        )
    steps = " Dashed: a rung's layers against its own ODE." if study.model["shared"] else ""
    found["ladder-errors"] = Picture(
        lambda: figures.errors(study), f"Tokens of the rungs with the model's norms against the real ones.{steps}"
    )
    if study.parts is not None:
        found["parts"] = Picture(
            lambda: figures.part_bars(study),
            "What each part does alone: how far the network is from the model without it, and how much nearer the bare "
            "system (rung 0) comes with it, less than nothing where it leads away (the MLP beside "
            "attention: both read the same particle and are added); whiskers: spread over texts.",
        )
    return found
