"""One file per family of models, and the table that finds it by the model's own type."""

from metastable.models.families import albert, bert, gpt2, llama, t5
from metastable.models.families.shared import BlockWeights, Family, FeedForward, Norm, Positions, Tensors

FAMILIES: dict[str, Family] = {
    "albert": albert.FAMILY,
    "bert": bert.FAMILY,
    "roberta": bert.FAMILY,
    "t5": t5.FAMILY,
    "gpt2": gpt2.FAMILY,
    "llama": llama.FAMILY,
    "mistral": llama.FAMILY,
    "qwen2": llama.FAMILY,
}

__all__ = ["FAMILIES", "BlockWeights", "Family", "FeedForward", "Norm", "Positions", "Tensors"]
