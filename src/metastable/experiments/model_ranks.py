"""How low the rank of attention is in a real model, layer by layer, beside the flow's.

The second paper starts from the observation that "the self-attention matrix P is close to a low rank matrix" and
shows that in its flow P(t) becomes one. Here the effective rank of every map of a pretrained model (exp of the
entropy of the singular values, from 1 to n) is followed through the layers, beside three others on as many tokens:
the same network untrained, the same with shuffled weights, and the second paper's flow x <- x + P x in R^3, one step
a layer. Attention spread evenly has effective rank 1 without a mask, so low rank alone is no achievement.
"""

from dataclasses import dataclass

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import model_access
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.initial import gaussian
from metastable.models.attention_ranks import attention_ranks
from metastable.models.common_texts import several
from metastable.models.controls import CONTROLS
from metastable.models.model import Model
from metastable.observables import effective_rank
from metastable.plots import series
from metastable.plots.style import captioned
from metastable.solve.simulate import simulate
from metastable.theory.intervals import mean_interval
from metastable.theory.verdicts import Verdict, judge_number

SOURCE = "second paper, related work and sec. 2"
CLAIM = "Attention in a real model is of low rank"
HALF = 0.5
UNTRAINED = {"init": "untrained", "shuffle": "shuffled weights"}
TITLE = "Effective rank of attention over the number of tokens, layer by layer"


@dataclass(frozen=True)
class Params:
    """``instances`` texts cut to one length of at most ``tokens``, at the trained depth."""

    model: str = model_access.ZOO
    tokens: int = 40
    instances: int = 40
    seed: int = 0


def run(params: Params, work: Work) -> Data:
    model = model_access.model_of(params.model)
    readings = (model.read(t, params.tokens) for t in model_access.texts_of(model, params.seed, 2 * params.instances))
    ids = several([r.given for r in readings if r is not None], params.instances, params.tokens)
    n, depth = len(ids[0]), model.depth
    data: Data = {"n": np.array(n)}
    work.progress(0.1, "the model's maps")
    data |= work.part("trained", lambda: {"trained": _ranks(model, ids), "even": _even(model, ids)})
    for k, name in enumerate(UNTRAINED):
        work.progress(0.3 + 0.2 * k, UNTRAINED[name])
        data |= work.part(name, lambda name=name: {name: _ranks(CONTROLS[name](model, ids, n, params.seed)[0], ids)})  # type: ignore[misc]
    work.progress(0.8, "the flow")
    return data | work.part("flow", lambda: {"flow": flow_ranks(n, depth, params.seed, len(ids))})


def _ranks(model: Model, ids: list[list[int]]) -> np.ndarray:
    """Effective ranks (text, layer), the mean over heads."""
    found = attention_ranks(model, ids, model.depth)
    assert found is not None
    return np.asarray(found["effective_rank"].values.mean(axis=1).T)


def _even(model: Model, ids: list[list[int]]) -> np.ndarray:
    found = attention_ranks(model, ids[:1], model.depth)
    assert found is not None
    return np.asarray(found["even"].values[:, 0])


def flow_ranks(n: int, depth: int, seed: int, count: int) -> np.ndarray:
    """Effective ranks (run, layer) of the attention that makes layer 1 to ``depth`` of x <- x + P x in R^3."""
    x0 = np.stack([gaussian(n, 3, seed=[seed + k, 12]) for k in range(count)])
    run = simulate(Dynamics(Weights(V=np.eye(3)), geometry="euclidean"), x0, depth, method="layers", save=depth + 1)
    return np.stack([effective_rank(np.asarray(run.attention(k))[:, 0]) for k in range(depth)], axis=1)


def check(params: Params) -> dict[str, Check]:
    """The flow's ranks on five tokens over two layers, by the plain formulas."""
    x, one = gaussian(5, 3, seed=[params.seed, 12]), np.eye(3)
    found = []
    for _ in range(2):
        s = np.linalg.svd(plain.attention(x, one, one), compute_uv=False)
        p = s / s.sum()
        found.append(np.exp(-(p * np.log(p)).sum()))
        x = plain.layer(x, one, one, one)
    return {"effective ranks of the flow": (flow_ranks(5, 2, params.seed, 1)[0], np.array(found), 1e-9)}


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """Low: the effective rank is at most half the number of tokens, in the mean over layers and heads, text by text.

    Falling: from the first layer to the last it falls by 5% of n or more, as the flow's does. Learned: at the last
    layer training has lowered it below the untrained network's; an untrained network that spreads attention evenly has
    rank 1, so that this is expected to fail, and says that low rank as such comes from even attention.
    """
    if model_access.SKIPPED in data:
        return model_access.skipped(CLAIM, SOURCE, data)
    n, rows = float(data["n"]), {name: data[name] / float(data["n"]) for name in ("trained", *UNTRAINED, "flow")}
    at = ", ".join(
        f"layer {k + 1}: {v:.2f}" for k, v in enumerate(rows["trained"].mean(axis=0)) if k % 3 == 0 or k == 11
    )
    own = judge_number(
        f"{CLAIM}: the effective rank is at most half the number of tokens ({params.model}).",
        SOURCE, rows["trained"].mean(axis=1), (0.0, HALF), kind="observation",
        notes=f"share of n = {n:g}: {at}; even attention {data['even'].mean() / n:.2f}",
    )  # fmt: skip
    falls = [
        judge_number(
            f"The rank of attention falls with depth, {who}, by 5% of n or more.",
            SOURCE, values[:, 0] - values[:, -1], (0.05, 1.0), kind="observation",
            notes=f"share of n {values[:, 0].mean():.2f} at layer 1, {values[:, -1].mean():.2f} at the last",
        )
        for who, values in ((f"in {params.model}", rows["trained"]), ("in the flow of eq. (1)", rows["flow"]))
    ]  # fmt: skip
    learned = [
        judge_number(
            f"Training lowers the rank of attention: below that of the network {words} at the last layer "
            f"({params.model}).",
            SOURCE, rows[name][:, -1] - rows["trained"][:, -1], (0.0, 1.0), kind="observation",
            notes=f"share of n {rows['trained'][:, -1].mean():.2f} trained, {rows[name][:, -1].mean():.2f} {words}",
        )
        for name, words in (("init", "untrained"), ("shuffle", "with shuffled weights"))
    ]  # fmt: skip
    return [own, *falls, *learned]


def draw(params: Params, data: Data) -> Figures:
    if model_access.SKIPPED in data:
        return {}
    n = float(data["n"])
    each = {params.model: data["trained"] / n} | {words: data[name] / n for name, words in UNTRAINED.items()}
    each["flow of eq. (1), d = 3"] = data["flow"] / n
    layers = np.arange(1, data["trained"].shape[1] + 1)
    ends = {name: np.array([mean_interval(v) for v in values.T]).T for name, values in each.items()}
    figure = series(
        layers,
        {name: values.mean(axis=0) for name, values in each.items()},
        band={name: (e[0], e[1]) for name, e in ends.items()},
        reference={"even attention": (layers, data["even"] / n)},
        xlabel="layer", ylabel="effective rank / n", marks=True,
    )  # fmt: skip
    figure.axes[0].set_ylim(0.0, None)
    what = (
        f"Mean over heads of {params.model}, {len(data['trained'])} texts of n = {n:g} tokens from number "
        f"{params.seed} on, with 95% intervals over texts; the flow has Q = K = V = I, normal tokens in R^3, one step "
        "of 1 a layer."
    )
    return {TITLE: captioned(figure, what)}


def finding(params: Params, data: Data) -> Finding | None:
    if model_access.SKIPPED in data:
        return None
    n, last = float(data["n"]), {name: data[name][:, -1].mean() for name in ("trained", "init", "flow")}
    return Finding(
        "The attention matrix is said to be close to one of low rank, and becomes one in the flow.",
        f"On {n:g} tokens the effective rank is {last['trained']:.1f} at a real model's last layer and "
        f"{last['flow']:.1f} in the flow after as many layers; the same network untrained has {last['init']:.1f}.",
        TITLE,
    )


EXPERIMENT = Experiment(
    name="model-ranks",
    title="The rank of attention in a real model, beside the flow's",
    source=SOURCE,
    figures="beside Fig. 3 of the second paper",
    params=Params,
    run=model_access.or_skip(run),
    judge=judge,
    draw=draw,
    quick={"instances": 20, "tokens": 32},
    full={"instances": 300},
    check=check,
    finding=finding,
    topic="model",
    leaves_out="Texts of more than 32 tokens, and half of the texts.",
    text="The effective rank of every attention map, from 1 to the number of tokens, layer by layer, in a pretrained "
    "model, in the same network untrained and with shuffled weights, and in the second paper's flow on as many tokens.",
)
