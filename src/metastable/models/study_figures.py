"""Every picture of a study by file name."""

from collections.abc import Callable

from matplotlib.figure import Figure

from metastable.models.depth_axis import some_layers
from metastable.models.study import Study
from metastable.models.token_figures import (
    activations,
    cluster_counts,
    correlations,
    group_strength,
    ridges,
    same_token,
    similarity_shares,
    sink_lines,
    sink_map,
)
from metastable.models.weight_figures import (
    LADDER_LABELS,
    climb,
    errors,
    mean_cosines,
    qk_spectrum,
    spectrum,
    temperatures,
)

Draw = Callable[[], Figure]


def every_picture(study: Study) -> dict[str, Draw]:
    """File names and how each picture of the study is drawn."""
    trained, depth = study.model["depth"], int(study.heads.layer[-1])
    found: dict[str, Draw] = {
        "cosines-raw": lambda: ridges(study, "raw"),
        "cosines-centred": lambda: ridges(study, "centred"),
        "shares": lambda: similarity_shares(study),
        "clusters": lambda: cluster_counts(study),
        "same-token": lambda: same_token(study),
        "groups": lambda: group_strength(study),
        "sink-map": lambda: sink_map(study),
        "qk": lambda: qk_spectrum(study),
        "beta": lambda: temperatures(study),
    }
    for layer in some_layers(1, depth, trained, 3):
        found[f"correlation-{layer}"] = lambda layer=layer: correlations(study, layer)  # type: ignore[misc]
        found[f"activation-{layer}"] = lambda layer=layer: activations(study, layer)  # type: ignore[misc]
    for kind in ("first", "separator", "punctuation"):
        if float(study.sinks["uniform"].sel(kind=kind)) > 0:
            found[f"sink-{kind}"] = lambda kind=kind: sink_lines(study, kind)  # type: ignore[misc]
    layers = study.spectra.layer.values
    for layer in (int(layers[k]) for k in some_layers(0, len(layers) - 1, 0, 3)):
        for name in ("ov", "value_block"):
            found[f"{name}-{layer}"] = lambda n=name, k=layer: spectrum(study, n, k)  # type: ignore[misc]
    if study.ladder is not None:
        for name in LADDER_LABELS:
            found[f"ladder-{name}"] = lambda name=name: climb(study, name)  # type: ignore[misc]
        found["ladder-mean-cosine"] = lambda: mean_cosines(study)
        found["ladder-errors"] = lambda: errors(study)
    return found
