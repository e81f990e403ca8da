"""Which model stands in for which of the papers', and why."""

from typing import Any

from metastable.models import zoo

# the first paper's models and texts, as its scripts and captions name them
_OWN = {"albert": "ALBERT-xlarge-v2", "t5": "T5-large"}
_READ = "1,024 texts of C4 for heads and one of WikiText-103 for similarities"


def substitution(model: dict[str, Any], source: str) -> str:
    """One or two sentences; ``model`` holds the facts of a study, ``source`` names its texts.

    >>> substitution({"name": "albert/albert-xlarge-v2", "family": "albert"}, "english").partition(";")[0]
    "This is one of the papers' own models"
    >>> substitution({"name": "minilm", "family": "bert"}, "english").partition(":")[0]
    'The papers measure ALBERT-xlarge-v2 and T5-large'
    """
    name, family = str(model["name"]), str(model["family"])
    texts = f"The papers read {_READ}; here it reads {source}."
    if name.lower().rsplit("/", 1)[-1] in {own.lower() for own in _OWN.values()}:
        return f"This is one of the papers' own models; they read {_READ}, here it reads {source}."
    if family not in _OWN:
        return f"The papers measure ALBERT-xlarge-v2 and T5-large: this model stands in for neither. {texts}"
    like = (
        "one block shared by all layers" if family == "albert" else "an encoder and a decoder with relative positions"
    )
    why = ", and comes from a package index, where theirs is on a model hub only" if name in zoo.MODELS else ""
    return (
        f"{name} stands in for the papers' {_OWN[family]}: it has the same architecture ({like}), but other sizes, "
        f"weights and training{why}. {texts}"
    )
