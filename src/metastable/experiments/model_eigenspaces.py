"""Eigenspaces read as tokens: do a head's leading eigenvectors promote coherent sets of tokens?

The first paper leaves "the semantic interpretation of eigenspaces" to future work. An eigenvector of a head's O V, read
through the embedding, promotes some tokens: the TOP that it points to most. Any direction promotes some, and tokens
with alike embeddings come up together whatever the direction is; so the question is whether eigenvectors promote sets
that belong together *more than random directions do*, by a measure that the model has no part in.

Belonging together is measured in the texts: two tokens are alike when they are met in the same company. Companions of a
token are counted within two positions, counts are turned into positive pointwise mutual information, and the coherence
of a set is the mean cosine of these rows over its pairs. Only tokens that were met at least LEAST times are read.

Random directions are drawn in two ways: normal in the model's space (isotropic), and as random mixtures of the
embeddings themselves, which have the embeddings' own covariance and are the harder to beat.
"""

from dataclasses import dataclass

import numpy as np

from metastable.errors import InputError
from metastable.experiments import model_access
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.model_checks import eigenvector_check
from metastable.models.folding import linear
from metastable.models.model import Model
from metastable.models.promotions import readout, upper
from metastable.models.spectra import ov_eigenvalues
from metastable.plots import table
from metastable.plots.style import PALETTE, RED, captioned, one_axes, paper
from metastable.theory.intervals import Interval
from metastable.theory.verdicts import Verdict, judge_number

SOURCE = "first paper, sec. 5: future work on the semantic interpretation of eigenspaces"
CLAIM = "Leading eigenvectors promote coherent sets of tokens"
TOP = 8  # tokens in a promoted set
LEAST = 5  # how often a token must be met to be read
WINDOW = 2
CLEAR = 0.5  # standard deviations of the random directions' coherence: a medium effect by the usual reading
NULLS = ("isotropic", "mixed")
TITLE = "Coherence of the tokens that eigenvectors and random directions promote"


@dataclass(frozen=True)
class Params:
    """``leading`` eigenvectors of every head of every layer; ``draws`` random directions of either kind."""

    model: str = model_access.ZOO
    leading: int = 4
    draws: int = 400
    instances: int = 400  # texts in which companions are counted
    seed: int = 0


def run(params: Params, work: Work) -> Data:
    model = model_access.model_of(params.model)
    model.require_parts()
    return work.part("directions", lambda: _measured(params, model))


def _measured(params: Params, model: Model) -> Data:
    rows, met = companions(model, params)
    cosine = rows @ rows.T  # (tokens, tokens), of the tokens that were met
    rng = np.random.default_rng([params.seed, 14])
    found = {"eigenvectors": eigenvectors(model, params.leading)} | {
        "isotropic": rng.standard_normal((model.dimension, params.draws)),
        "mixed": mixtures(model, met, params.draws, rng),
    }
    data: Data = {}
    for name, directions in found.items():
        chosen = promoted(model, directions, met)  # (m, TOP), places among the met
        data[name] = np.array([coherence(cosine, each) for each in chosen])
        data[f"{name}_sets"] = met[chosen]
    pairs = cosine[np.triu_indices(len(met), 1)]
    every = range(model.vocabulary or 0)
    words = np.array(model.tokenizer.words(list(every)) if model.tokenizer else [str(i) for i in every])
    return {**data, "any": np.array([pairs.mean()]), "met": met, "words": words}


def companions(model: Model, params: Params) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows of positive pointwise mutual information (tokens, vocabulary), and the ids of the tokens met often."""
    size, special = model.vocabulary or 0, model.tokenizer.special if model.tokenizer else frozenset()
    counts = np.zeros((size, size))
    seen = np.zeros(size)
    for text in model_access.texts_of(model, params.seed, params.instances):
        reading = model.read(text, 512)
        ids = np.array([i for i in (reading.given if reading else []) if i not in special], dtype=int)
        np.add.at(seen, ids, 1.0)
        for gap in range(1, WINDOW + 1):
            np.add.at(counts, (ids[:-gap], ids[gap:]), 1.0)
            np.add.at(counts, (ids[gap:], ids[:-gap]), 1.0)
    met = np.flatnonzero((seen >= LEAST) & (counts.sum(axis=1) > 0))
    if len(met) < 4 * TOP:
        raise InputError(f"Only {len(met)} tokens are met {LEAST} times in these texts; take more texts than these.")
    own = counts[met]
    expected = own.sum(axis=1, keepdims=True) * counts.sum(axis=0) / max(counts.sum(), 1.0)
    information = np.log(np.maximum(own, 1e-12) / np.maximum(expected, 1e-12))
    rows = np.where(own > 0, np.maximum(information, 0.0), 0.0)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1.0), met


def eigenvectors(model: Model, leading: int) -> np.ndarray:
    """Real parts of the leading eigenvectors of O V (d, m), one of each conjugate pair, of every head and layer."""
    found = []
    for layer in model.require_parts().distinct:
        block = model.block(layer)
        maps = linear(block)
        for head in range(block.heads):
            values, vectors = ov_eigenvalues(maps, head)
            found += [vectors[:, i].real for i in upper(values)[:leading]]
    return np.stack(found, axis=1)


def mixtures(model: Model, met: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Random mixtures (d, count) of the centred embeddings of the tokens that were met."""
    table = np.asarray(model.require_parts().embedded(), dtype=float)[met]
    table = table - table.mean(axis=0)
    return np.asarray(table.T @ rng.standard_normal((len(met), count)))


def promoted(model: Model, directions: np.ndarray, met: np.ndarray) -> np.ndarray:
    """The TOP tokens (m, TOP), as places in ``met``, that each direction (d, m) points to, on its stronger side."""
    scores = readout(model, directions)[met]  # (tokens, m)
    scores = scores - scores.mean(axis=0)
    side = np.where(scores.max(axis=0) >= -scores.min(axis=0), 1.0, -1.0)
    return np.asarray(np.argsort(-side * scores, axis=0, kind="stable")[:TOP].T)


def coherence(cosine: np.ndarray, chosen: np.ndarray) -> float:
    """The mean cosine over the pairs of a set."""
    inside = cosine[np.ix_(chosen, chosen)]
    return float(inside[np.triu_indices(len(chosen), 1)].mean())


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """Eigenvectors' sets are more coherent than those of random directions by CLEAR = 0.5 of the latter's deviation.

    The effect is (mean of eigenvectors - mean of random directions) / deviation of random directions, with a bootstrap
    over both samples. The sentence holds only against both kinds of random directions: it is two verdicts, one each.
    """
    if model_access.SKIPPED in data:
        return model_access.skipped(CLAIM, SOURCE, data)
    return [_against(params, data, null) for null in NULLS]


def _against(params: Params, data: Data, null: str) -> Verdict:
    own, other = data["eigenvectors"], data[null]
    words = {"isotropic": "random directions", "mixed": "random mixtures of embeddings"}
    return judge_number(
        f"{CLAIM} more than {words[null]} do, by half a deviation or more ({params.model}).",
        SOURCE,
        [effect(own, other)],
        (CLEAR, np.inf),
        kind="observation",
        interval=_ends(own, other),
        deciding=len(own),
        notes=f"mean coherence {own.mean():.3f} of {len(own)} eigenvectors, {other.mean():.3f} of {len(other)} random "
        f"directions, {float(data['any'][0]):.3f} of any two tokens",
    )


def effect(own: np.ndarray, other: np.ndarray) -> float:
    """The difference of the means in deviations of the second sample."""
    return float((own.mean() - other.mean()) / max(float(other.std(ddof=1)), 1e-300))


def _ends(own: np.ndarray, other: np.ndarray, draws: int = 2000) -> Interval:
    rng = np.random.default_rng(0)
    found = [
        effect(own[rng.integers(0, len(own), len(own))], other[rng.integers(0, len(other), len(other))])
        for _ in range(draws)
    ]
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    if model_access.SKIPPED in data:
        return {}
    edges = np.linspace(0.0, max(float(data[n].max()) for n in ("eigenvectors", *NULLS)) * 1.02, 25)
    with paper():
        figure, axis = one_axes(None, 3.6, 2.5)
        for name, colour, label in zip(NULLS, PALETTE, ("random directions", "random mixtures of embeddings")):
            axis.hist(data[name], list(edges), density=True, color=colour, alpha=0.4, label=label)
        for value in data["eigenvectors"]:
            axis.axvline(value, ymax=0.08, color=RED, lw=0.8)
        axis.axvline(data["eigenvectors"].mean(), color=RED, lw=1.2, label="eigenvectors, and their mean")
        axis.set(xlabel="coherence of the promoted tokens", ylabel="density")
        axis.set_ylim(0.0, 1.45 * axis.get_ylim()[1])
        axis.legend(loc="best")
    best = np.argsort(-data["eigenvectors"])[:8]
    words = data["words"]
    cells = [[" ".join(words[i] for i in data["eigenvectors_sets"][k]), f"{data['eigenvectors'][k]:.2f}"] for k in best]
    listed = table(["promoted tokens", "coherence"], [f"direction {k}" for k in best], cells)
    what = (
        f"{params.model}: the {TOP} tokens that each of {len(data['eigenvectors'])} leading eigenvectors of O V "
        f"promotes ({params.leading} of each head), beside {params.draws} random directions of either kind; coherence "
        f"is the mean cosine of the tokens' company within {WINDOW} positions in {params.instances} texts."
    )
    return {
        TITLE: captioned(figure, what),
        "The most coherent sets that eigenvectors promote": captioned(listed, f"{params.model}, by falling coherence."),
    }


def finding(params: Params, data: Data) -> Finding | None:
    if model_access.SKIPPED in data:
        return None
    own = data["eigenvectors"].mean()
    return Finding(
        "The meaning of the eigenspaces that govern tokens was left to future work.",
        f"A head's leading eigenvectors promote tokens of coherence {own:.2f}; random mixtures of embeddings "
        f"{data['mixed'].mean():.2f}, random directions {data['isotropic'].mean():.2f}, any two tokens "
        f"{float(data['any'][0]):.2f}.",
        TITLE,
    )


def check(params: Params) -> dict[str, Check]:
    """O V phi = lambda phi, with O V multiplied out."""
    return eigenvector_check(params.model)


EXPERIMENT = Experiment(
    name="model-eigenspaces",
    title="Eigenspaces of a real model read as tokens",
    source=SOURCE,
    figures="none in the papers",
    params=Params,
    run=model_access.or_skip(run),
    judge=judge,
    draw=draw,
    quick={"instances": 150, "draws": 200},
    full={"instances": 2000, "draws": 4000, "leading": 8},
    check=check,
    finding=finding,
    topic="model",
    leaves_out="Fewer texts and fewer random directions.",
    text="Leading eigenvectors of every head's O V are read through the embedding: the tokens they promote. Whether "
    "such a set belongs together is asked of the texts, by the company its tokens keep, and compared with sets that "
    "random directions promote: any direction promotes tokens with alike embeddings, so only the difference says "
    "something.",
)
