"""Cards for notebooks of what was measured on a model: a probe, a study, a ladder."""

from typing import TYPE_CHECKING, Any

from metastable.equation.html_cards import card, curve_picture

if TYPE_CHECKING:
    import xarray


def similarity_card(title: str, model: str, similarity: "xarray.Dataset | None", facts: list[tuple[str, str]]) -> str:
    """A card with the mean cosine of tokens over layers, where it was measured."""
    if similarity is None:
        return card(title, [("model", model), *facts])
    mean = similarity["mean"].sel(kind="raw")
    words = f"{float(mean[0]):.3g} of the embedded tokens, {float(mean[-1]):.3g} after layer {int(mean.layer[-1])}"
    picture = curve_picture(mean.values, "mean cosine of tokens over layers")
    return card(title, [("model", model), ("mean cosine", words), *facts], picture)


def given(found: Any, names: tuple[str, ...]) -> str:
    """Those of the datasets that are there."""
    return ", ".join(name for name in names if getattr(found, name) is not None)


def ladder_card(model: str, data: "xarray.Dataset") -> str:
    """The distance of every rung from the model, as a mean over texts and over layers from 1 on."""
    distance = data["gram_distance"].sel(layer=data.layer[1:]).mean(("text", "layer"))
    rungs = [(f"rung {int(k)}", f"gram distance {float(v):.3g}") for k, v in zip(distance.rung, distance)]
    return card("Ladder", [("model", model), *rungs], curve_picture(distance.values, "gram distance over rungs"))
