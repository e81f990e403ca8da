"""What the controls of a study say, in sentences made from its numbers."""

from metastable.models.controls import ABOUT
from metastable.models.curves import SHORT
from metastable.models.phrases import after, percent, span, two
from metastable.models.study_numbers import LINKED, at_states, of_controls
from metastable.models.study_record import Study


def names(study: Study) -> list[str]:
    """The controls that were measured."""
    if study.controls is None or study.controls.similarity is None:
        return []
    return [str(name) for name in study.controls.similarity.control.values]


def what_they_are(study: Study) -> list[str]:
    """A sentence on each control, and on the seeds."""
    found = names(study)
    if not found:
        return []
    assert study.controls is not None
    assert study.controls.similarity is not None
    seeds = study.controls.similarity.sizes["seed"]
    each = [f"{SHORT[name].capitalize()}: {ABOUT[name][0].lower()}{ABOUT[name][1:]}" for name in found]
    return [f"Controls, {seeds} seed{'s' if seeds != 1 else ''} each, on the same texts, layers and options.", *each]


def on_tokens(study: Study) -> list[str]:
    """Mean cosines and clusters of each control beside the model's, at the trained depth and at the last state."""
    return [_one(study, name, state) for name in names(study) for state in sorted({study.trained, study.last})]


def _one(study: Study, name: str, state: int) -> str:
    mean = at_states(study, "mean_cosine", "raw")[str(state)]
    mixed = at_states(study, "mixed_share", "centred")[str(state)]
    cosines = of_controls(study, "mean_cosine", "raw", name, state)
    shares = of_controls(study, "mixed_share", "centred", name, state)
    return (
        f"With {SHORT[name]}, {after(state)}, the mean cosine is {span(*cosines)} (trained: {two(mean)}, "
        f"{_against(mean, cosines)}), and {span(*shares, 'percent')} of a text's tokens are in clusters of different "
        f"tokens beside the mean direction (trained: {percent(mixed)}, {_against(mixed, shares)}; linked above "
        f"{LINKED:g})."
    )


def _against(value: float | None, ends: tuple[float, float]) -> str:
    if value is None or ends[0] != ends[0]:
        return "not comparable"
    if value > ends[1]:
        return "more than every seed"
    return "less than every seed" if value < ends[0] else "within the seeds' range"


def on_heads(study: Study) -> list[str]:
    """In how many layers the heads of each control form groups."""
    if not names(study) or study.controls is None or study.controls.heads is None:
        return []
    said = []
    for name in names(study):
        has = study.controls.heads["has_groups"].sel(control=name).isel(layer=slice(0, study.trained))
        counts = has.sum("layer").values
        said.append(f"{_count(int(counts.min()), int(counts.max()))} with {SHORT[name]}")
    return [f"By the same rule heads form groups in {', '.join(said)}, of {study.trained} layers."]


def _count(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def on_sinks(study: Study) -> list[str]:
    """How much attention the strongest head of each control pays to the first token."""
    if not names(study) or study.controls is None or study.controls.sinks is None:
        return []
    said = []
    for name in names(study):
        mass = study.controls.sinks["mass"].sel(control=name, kind="first").isel(layer=slice(0, study.trained))
        most = mass.max(("layer", "head")).values
        said.append(f"{span(float(most.min()), float(most.max()), 'percent')} with {SHORT[name]}")
    return [f"The strongest head pays the first token {', '.join(said)}."]
