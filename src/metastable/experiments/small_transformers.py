"""Small causal transformers that read letters, trained together: one Dynamics each, and what attention does in them.

A model is the equation with a block: L layers, h heads, order "pre", RMSNorm without gains, an MLP of width 4 d,

    u = x + sum_h O_h A^h V_h N(x),    x <- u + W_out silu(W_in N(u)),    A = causal softmax(<Q N(x), K N(x)> / sqrt(k))

from embedded letters (plus a learned table of positions, or one of zeros) to logits N(x) E^T of the next letter.
Windows of the text begin anywhere, with no special first token. Models of one size are trained as one objective, the
sum of theirs: Adam treats every entry by itself.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from metastable.backend import Array, Tokens, jax, jnp
from metastable.equation.blocks import MLP, Block, RMSNorm
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Stack, Weights
from metastable.experiments.base import Data
from metastable.models.texts import texts
from metastable.observables import cluster_labels
from metastable.solve.flow import flow

Numbers = Mapping[str, Any]
EPS = 1e-6
EARLY = 8  # positions that every later query sees: the first token is compared with the seven after it
BINS = np.linspace(-1.0, 1.0, 41)
LINK = float(np.arccos(0.9))  # tokens linked by cosines above 0.9 are one cluster
MEASURES = ("mass", "early", "aligned", "others", "value", "clusters")


def letters() -> tuple[np.ndarray, str]:
    """The shipped English text as numbers of its alphabet, and the alphabet."""
    text = " ".join(texts("english")).lower()
    alphabet = "".join(sorted(set(text)))
    return np.array([alphabet.index(c) for c in text]), alphabet


def bigram_entropy(text: np.ndarray) -> float:
    """The entropy (nats) of a letter given the one before it: the least loss of a model that sees no further.

    >>> bigram_entropy(np.array([0, 1, 0, 1, 0, 1]))
    0.0
    """
    size = int(text.max()) + 1
    counts = np.zeros((size, size))
    np.add.at(counts, (text[:-1], text[1:]), 1.0)
    rows = counts.sum(axis=1, keepdims=True)
    share = counts / np.maximum(rows, 1.0)
    logs = np.log(np.where(share > 0, share, 1.0))
    return float(abs((rows / counts.sum() * share * logs).sum()))


def first_numbers(size: tuple[int, int, int], vocabulary: int, window: int, seed: int) -> Numbers:
    """One model's numbers before training, by the usual rule: variance 1/(number of inputs), outputs over sqrt(2 L)."""
    d, layers, heads = size
    k = d // heads
    rng = np.random.default_rng([seed, d, layers])

    def normal(scale: float, *shape: int) -> np.ndarray:
        return (scale * rng.normal(size=shape)).astype(np.float32)

    out = 1.0 / np.sqrt(2.0 * layers)
    return {
        "E": normal(1.0 / np.sqrt(d), vocabulary, d),
        **{name: normal(1.0 / np.sqrt(d), layers, heads, k, d) for name in ("Q", "K", "V")},
        "O": normal(out / np.sqrt(d), layers, heads, d, k),
        "W_in": normal(1.0 / np.sqrt(d), layers, 4 * d, d),
        "W_out": normal(out / np.sqrt(4 * d), layers, d, 4 * d),
        "P": normal(1.0 / np.sqrt(d), window, d),
    }


def dynamics_of(numbers: Numbers) -> Dynamics:
    """The layers of a model; one unit of time is a layer."""
    stack = {name: Stack(numbers[name]) for name in ("Q", "K", "V", "O", "W_in", "W_out")}
    mlp = MLP(stack.pop("W_in"), stack.pop("W_out"), activation="silu")
    norm = RMSNorm(eps=EPS)
    block = Block(mlp=mlp, attention_norm=norm, mlp_norm=norm, order="pre")
    beta = 1.0 / np.sqrt(np.shape(numbers["Q"])[-2])
    return Dynamics(Weights(**stack), float(beta), mask="causal", geometry="euclidean", block=block)


def embedded(numbers: Numbers, ids: Array) -> Tokens:
    """Letters (..., T) as tokens (..., T, d)."""
    return jnp.asarray(numbers["E"])[ids] + jnp.asarray(numbers["P"])[: ids.shape[-1]]


def states(numbers: Numbers, ids: Array) -> Tokens:
    """Tokens (L, ..., T, d) after each layer."""
    layers = np.shape(numbers["Q"])[0]
    return flow(dynamics_of(numbers), embedded(numbers, ids), np.arange(1.0, layers + 1.0), "layers", 1.0)


def loss(numbers: Numbers, ids: Array) -> Array:
    """The mean cross entropy (nats) of the next letter in windows ids (b, T + 1)."""
    x = states(numbers, ids[:, :-1])[-1]
    logits = RMSNorm(eps=EPS)(x) @ jnp.asarray(numbers["E"]).T  # (b, T, vocabulary)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), ids[:, 1:, None], axis=-1)
    return -chosen.mean()


# --- what is measured ---------------------------------------------------------------------------------------------


def measured(numbers: Numbers, ids: Array) -> dict[str, Array]:
    """What attention does in one model, over windows ids (b, T), by layer and head (L, h) where it makes sense.

    Queries are tokens EARLY + 1 and later, which see the same first EARLY tokens: with even attention over what it
    sees, query i would give each of these 1/i. ``mass``: the attention on the first token over that, in the mean over
    queries; ``early``: the same of tokens 2 to EARLY; ``aligned`` and ``others``: the cosine of queries with the first
    key, and with those of tokens 2 to EARLY; ``value``: the length of O V N(x) of the first token over theirs;
    ``histogram``: cosines of pairs after the last layer, (bins,); ``tokens``: the last states.
    """
    dynamics, x0 = dynamics_of(numbers), embedded(numbers, ids)
    x = states(numbers, ids)
    entering = jnp.concatenate([x0[None], x[:-1]])  # (L, b, T, d)
    rows: dict[str, list[Array]] = {key: [] for key in MEASURES[:-1]}
    even = 1.0 / jnp.arange(EARLY + 1.0, ids.shape[-1] + 1.0)  # of queries EARLY + 1, ...
    for layer in range(entering.shape[0]):
        y = RMSNorm(eps=EPS)(entering[layer])
        A = dynamics.attention(float(layer), entering[layer])  # (b, h, T, T)
        received = (A[..., EARLY:, :EARLY] / even[:, None]).mean(axis=(0, 2))  # (h, EARLY)
        q, k = (jnp.einsum("hkd,btd->bhtk", numbers[name][layer], y) for name in ("Q", "K"))
        cosines = jnp.einsum("bhik,bhjk->bhij", _unit(q[:, :, EARLY:]), _unit(k[:, :, :EARLY])).mean(axis=(0, 2))
        v = jnp.einsum("hdk,hke,bte->bhtd", numbers["O"][layer], numbers["V"][layer], y[:, :EARLY])
        length = jnp.sqrt(jnp.square(v).sum(axis=-1)).mean(axis=0)  # (h, EARLY)
        rows["mass"].append(received[:, 0])
        rows["early"].append(received[:, 1:].mean(axis=-1))
        rows["aligned"].append(cosines[:, 0])
        rows["others"].append(cosines[:, 1:].mean(axis=-1))
        rows["value"].append(length[:, 0] / length[:, 1:].mean(axis=-1))
    return {**{key: jnp.stack(values) for key, values in rows.items()}, "tokens": x[-1]}


def _unit(x: Array) -> Array:
    return x / jnp.sqrt(jnp.square(x).sum(axis=-1, keepdims=True) + 1e-12)


def summarised(found: Mapping[str, Any]) -> Data:
    """Measures of models (S, L, h), the histogram of cosines (S, bins) and clusters in a window (S,)."""
    tokens = np.asarray(found["tokens"], float)  # (S, b, T, d)
    unit = tokens / np.linalg.norm(tokens, axis=-1, keepdims=True)
    upper = np.triu_indices(tokens.shape[-2], 1)
    cosines = (unit @ np.swapaxes(unit, -1, -2))[..., upper[0], upper[1]]  # (S, b, pairs)
    counts = np.array([np.histogram(one, BINS)[0] / one.size for one in cosines])
    clusters = cluster_labels(unit, LINK).max(axis=-1).mean(axis=-1) + 1.0
    own = {key: np.asarray(found[key]) for key in MEASURES[:-1]}
    return {**own, "histogram": counts, "clusters": clusters}
