"""What the papers used and what stands in for it here, and how unclear places of their texts are read."""

from collections.abc import Mapping
from typing import Any

from metastable.report.experiment_record import Record
from metastable.report.sections import details, escaped, table

# model -> what it is, for those that `metastable reproduce` takes by itself
_MODELS = {
    "reactions-albert": "reactions-albert: ALBERT with 12 layers of one shared block, 8 heads, width 256, trained on "
    "chemical reactions (3 MB, from a package index)",
    "title-t5": "title-t5: flan-t5-small, 8 layers, 6 heads, width 512, fine-tuned to write titles, stored in 8 bits",
}
_OWN = {"albert-xlarge-v1", "albert-xlarge-v2", "albert-xl"}
_SAME = "nothing is replaced"
_DIRECTION = (
    "the direction of an effect can be compared, its size cannot; heads have other numbers (the paper's heads 3, 5 and "
    "12 are not these)"
)

SLIPS: tuple[tuple[str, str, str], ...] = (
    (
        "first paper, sec. 2.5",
        "\u201cautoregressive language models like ALBERT\u201d",
        "A slip: ALBERT reads in both directions, its attention is not causal. Particles are simulated with the causal "
        "mask that eq. (3) writes down; every model runs with the mask it was trained with.",
    ),
    (
        "first paper, sec. 3.2",
        "\u201cexponential time rescaling\u201d for numerical stability",
        "Read as the second paper's z = e^{-tV} x, its eq. (4), which is used here where tokens move in R^d. On the "
        "sphere norms are fixed and nothing grows, so runs there are in the time t of eq. (3), without any rescaling.",
    ),
    (
        "first paper, sec. 4.2.2",
        "\u201cincrease the temperature\u201d to \u03b2 = 9 \u2265 \u221a64",
        "\u03b2 multiplies the scores: it is an inverse temperature, and 64 is the number of tokens, not d. "
        "Small \u03b2 gives one cluster, large \u03b2 several.",
    ),
    (
        "first paper, sec. 4.2.1 and Fig. 3",
        "Q^T K = I in the text, random Q and K in the caption",
        "Both are run.",
    ),
    (
        "first paper, Fig. 5",
        "\u201cV_{\u03bbmax} = \u22121\u201d",
        "Several matrices can be meant (V = \u2212I, an eigenvalue \u22121 beside a positive one, or all negative with "
        "the largest \u22121); each is a row of one verdict.",
    ),
    (
        "first paper, Fig. 7",
        "ALBERT's top three eigenvalues",
        "Neither head nor matrix is named: the map O V that moves tokens and the square block of V are both run.",
    ),
    (
        "first paper, sec. 1",
        "one cluster \u201cin the limit of infinite training time\u201d",
        "Read as infinite depth: time is the layer, and nothing is trained.",
    ),
    (
        "first paper, sec. 3.2",
        "V = I \u201cleading to convergence to polytope vertices\u201d",
        "That is the second paper's Theorem 3.1, for rescaled tokens in R^d. On the sphere V = I ends in one cluster.",
    ),
)


def substitutions(records: Mapping[str, Record]) -> str:
    """The table of stand-ins and the one of readings, folded under a line that says the essential."""
    body = table(("The papers used", "Here", "What follows"), _rows(records), "What stands in for what")
    body += "<h3>Unclear places in the papers, and how they are read</h3>"
    body += table(("Where", "The text says", "Read here as"), SLIPS, "Readings of unclear places")
    return details(f"{_essence(records)}, and how {len(SLIPS)} unclear sentences are read", body, "substitutions")


def _essence(records: Mapping[str, Record]) -> str:
    """The table of stand-ins in one line."""
    named = _model(records)
    if not named:
        return "What stands in for what"
    if _own(named):
        return "The first paper's own model is measured; what stands in for the rest"
    return f"What stands in for what: <code>{escaped(named)}</code> for the papers' ALBERT-xlarge"


def _model(records: Mapping[str, Record]) -> str:
    return next((str(r.params["model"]) for r in records.values() if "model" in r.params), "")


def _own(model: str) -> bool:
    return model.lower().rsplit("/", 1)[-1] in _OWN


def _rows(records: Mapping[str, Record]) -> list[tuple[str, str, str]]:
    named = _model(records)
    rows = []
    if named:
        rows.append(
            (
                "ALBERT-xlarge from a model hub: 24 layers of one shared block, 16 heads, width 2048, English "
                "(first paper, Figs 1, 2, 7; second paper, Fig. 10)",
                _MODELS.get(named, named),
                _SAME if _own(named) else _DIRECTION,
            )
        )
        rows.append(_t5(records))
        rows.append(
            (
                "Texts of C4 for the heads; no corpus is named for Fig. 1",
                "Reactions for a model of reactions, a few English paragraphs for the others; each experiment says how "
                "many",
                "token statistics differ: one and the same token met twice is counted apart",
            )
        )
    rows.append(
        (
            "One run for each figure of particles, dt = 0.1",
            f"{_count(records)}; the run that is drawn is one of them",
            "a picture is an example, the verdict is about all of them",
        )
    )
    return rows + _high(records)


def _t5(records: Mapping[str, Record]) -> tuple[str, str, str]:
    seen = any("title-t5" in _flat(record.params) for record in records.values())
    here = _MODELS["title-t5"] if seen else "nothing in this page: it is left out with --quick and with --model"
    follows = (
        "other weights for every layer, so it is measured at its trained depth only" if seen else "no verdict on T5"
    )
    return "T5 from a model hub (first paper, sec. 3.1.1; no size is given, no figure shown)", here, follows


def _high(records: Mapping[str, Record]) -> list[tuple[str, str, str]]:
    params = records["codimension"].params if "codimension" in records else {}
    if "high_n" not in params or "high_d" not in params:
        return []
    n, d = params["high_n"], params["high_d"]
    same = (n, d) == (256, 128)
    return [
        (
            "256 tokens in 128 dimensions (second paper, Figs 7b and 15)",
            f"{n} tokens in {d} dimensions",
            _SAME if same else "smaller, so that many instances can be judged",
        )
    ]


def _count(records: Mapping[str, Record]) -> str:
    """How many instances the experiments have."""
    found = sorted(int(r.params["instances"]) for r in records.values() if _whole(r.params.get("instances")))
    if not found:
        return "Many random instances"
    return (
        f"{found[0]:,} to {found[-1]:,} random instances of each" if found[0] < found[-1] else f"{found[0]:,} of each"
    )


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _flat(params: Mapping[str, Any]) -> set[str]:
    return {str(v) for value in params.values() for v in (value if isinstance(value, (list, tuple)) else [value])}
