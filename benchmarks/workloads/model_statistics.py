"""All statistics of a pretrained model beside the library's plain forward pass, which only hands out states and maps.

The peer runs the same texts with ``output_hidden_states`` and ``output_attentions`` and does nothing with what it gets;
its process has no metastable in it. Both read the same folder, in which the zoo's model is saved as safetensors.
"""

import json
import tempfile
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import OURS, Absent, Case, Engine, Goal, Run, Table, Workload

PEER, LADDER = "transformers", "ladder"
MANY = "minilm, a hundred paragraphs"
_HOME = Path(tempfile.gettempdir()) / "metastable-benchmark-models"


def cases(quick: bool) -> list[Case]:
    """The 16 paragraphs of English that `metastable model` reads, pages of 512 tokens, and as many paragraphs as the
    command reads at most by default (100: those that ship, again and again; minilm alone, for the time it takes).
    """
    sizes = {"paragraphs": (2, 32), "pages": (1, 64)} if quick else {"paragraphs": (16, 128), "pages": (2, 512)}
    found = [
        Case(f"{model}, {kind}", {"model": model, "texts": texts, "n": n, "pages": kind == "pages"})
        for model in ("minilm", "smollm2")
        for kind, (texts, n) in sizes.items()
    ]
    return [
        *found,
        Case(MANY, {"model": "minilm", "texts": 4 if quick else 100, "n": sizes["paragraphs"][1], "pages": False}),
    ]


def prepare(case: Case) -> None:
    """Save the model, and the texts as token ids, where all engines read them."""
    from metastable.errors import InputError
    from metastable.models import load, texts

    folder = _HOME / case["model"]
    try:
        model: Any = load(case["model"])
    except InputError as error:
        raise Absent(str(error)) from error
    if not (folder / "config.json").exists():
        peers.need("transformers").utils.logging.disable_progress_bar()
        model.whole.save_pretrained(folder)
    read = [model.tokenizer.encode(text) for text in texts("english")]
    n, count = case["n"], case["texts"]
    if case["pages"]:
        words = list(chain.from_iterable(read * (1 + n * count // sum(map(len, read)))))
        read = [words[k * n : (k + 1) * n] for k in range(count)]
    read = list(islice(cycle(read), count))
    (folder / "texts.json").write_text(json.dumps([ids[:n] for ids in read]))


def given(case: Case) -> tuple[Path, list[list[int]]]:
    folder = _HOME / case["model"]
    if not (folder / "texts.json").exists():
        raise Absent(f"{case['model']} is not in reach")
    return folder, json.loads((folder / "texts.json").read_text())


def plain(case: Case) -> tuple[list[list[int]], Any]:
    """The texts, and the function that runs one of them through the library."""
    torch, transformers = peers.need("torch"), peers.need("transformers")
    folder, texts = given(case)
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

    def forward(ids: list[int]) -> Any:
        with torch.inference_mode():
            return model(input_ids=torch.tensor([ids]), output_hidden_states=True, output_attentions=True)

    return texts, forward


def transformers(case: Case) -> Run:
    texts, forward = plain(case)

    def run() -> np.ndarray:
        for ids in texts:
            forward(ids)
        return np.empty(0)

    return run


def metastable(case: Case) -> Run:
    from metastable.models import load, probe

    folder, texts = given(case)
    model = load(folder)

    def run() -> np.ndarray:
        found = probe(model, texts)
        assert found.similarity is not None
        assert found.heads is not None
        assert found.sinks is not None
        parts = [found.similarity["mean"], found.similarity["share_above"].sel(threshold=0.9)]
        parts += [found.heads["correlation"], found.sinks["mass"].sel(kind="first")]
        return np.concatenate([np.ravel(part.values) for part in parts])

    return run


def climbing(case: Case) -> Run:
    """The ladder with its baselines and parts, on some of the texts, as a study climbs it."""
    from metastable.models import ladder, load
    from metastable.models.common_texts import several

    folder, texts = given(case)
    model, few = load(folder), several(texts)

    def run() -> np.ndarray:
        ladder(model, few)
        return np.empty(0)

    return run


def recomputed(case: Case) -> Run:
    """The same numbers in float64 from the plain outputs, as one writes them down; text by text, then averaged."""
    prepare(case)
    texts, forward = plain(case)
    causal = case["model"] == "smollm2"

    def one(ids: list[int]) -> np.ndarray:
        out = forward(ids)
        seen = np.tril(np.ones((len(ids),) * 2, dtype=bool)) if causal else np.ones((len(ids),) * 2, dtype=bool)
        upper = np.triu_indices(len(ids), 1)
        cosines = []
        for x in out.hidden_states:
            u = unit(x[0].double().numpy())
            mean = unit(u.sum(axis=0)[None])[0]
            v = unit(u - (u @ mean)[:, None] * mean)
            cosines += [(u @ u.T)[upper], (v @ v.T)[upper]]
        maps = [A[0].double().numpy() for A in out.attentions]
        means, shares = [c.mean() for c in cosines], [(c > 0.9).mean() for c in cosines]
        heads = [np.corrcoef(A[:, seen]) for A in maps]
        return np.concatenate([means, shares, np.ravel(heads), np.ravel([A[:, :, 0].mean(axis=1) for A in maps])])

    return lambda: np.mean([one(ids) for ids in texts], axis=0)


def unit(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def _cases(table: Table, model: str) -> list[str]:
    found = [key for key in table.rows if key.startswith(model)]
    if not found:
        raise KeyError(model)
    return found


def _time(model: str) -> Goal:
    def slowest(table: Table) -> float:
        return max(table.row(key, OURS).over(table.row(key, PEER)).median for key in _cases(table, model))

    return Goal(f"time of all statistics over the plain pass, {model}", slowest, 2.0, False)


def _climb(model: str) -> Goal:
    def slowest(table: Table) -> float:
        return max(table.row(key, LADDER).over(table.row(key, PEER)).median for key in _cases(table, model))

    return Goal(f"time of the ladder over the plain pass, {model}", slowest, 1.0, False)


def _many(table: Table) -> float:
    return table.row(MANY, LADDER).over(table.row(MANY, PEER)).median


def _memory(model: str) -> Goal:
    def largest(table: Table) -> float:
        return max(table.row(key, OURS).megabytes / table.row(key, PEER).megabytes for key in _cases(table, model))

    return Goal(f"peak memory of all statistics over the plain pass, {model}", largest, 1.5, False)


WORKLOAD = Workload(
    title="all statistics of a pretrained model, beside a plain forward pass",
    cases=cases,
    tolerance=1e-4,
    note="The plain pass keeps the states and maps of one text at a time and computes nothing from them. Statistics "
    "are compared with those that float64 NumPy gives from its outputs; pairs at a threshold may fall on either side.",
    engines={
        "recomputed": Engine(recomputed, "float64 NumPy from the plain outputs", once=True),
        OURS: Engine(metastable, "ms.models.probe"),
        PEER: Engine(transformers, "hidden states and attentions, nothing computed from them"),
        LADDER: Engine(climbing, "ms.models.ladder, several texts, baselines and parts"),
    },
    goals=(
        *(goal(model) for model in ("minilm", "smollm2") for goal in (_time, _climb, _memory)),
        Goal(f"time of the ladder over the plain pass, {MANY}", _many, 1.0, False),
    ),
    has_before=False,
)
