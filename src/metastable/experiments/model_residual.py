"""Rank collapse in a real model: its own layers with their skip connections scaled, with and without the MLP.

The first paper: "When used in isolation, self-attention converges to a rank-1 solution (...), though skip connections
and feedforward networks prevent this collapse". Here x + f(x) becomes s x + f(x) in every sublayer of a pretrained
network, s from 0 to 1, and the MLP is left in or taken out: the network itself is s = 1 with the MLP. The distance
from one point is
|X - 1 m^T| / |X|, its square 1 minus the mean cosine where tokens have one length.
"""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from metastable.backend import jnp
from metastable.errors import InputError
from metastable.experiments import model_access, rank_one
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.models.common_texts import several
from metastable.models.layer_parts import network
from metastable.models.model import Model
from metastable.models.moving_systems import Switches, System, climb
from metastable.models.sphere_rungs import Length
from metastable.plots import series
from metastable.plots.style import captioned, panels, paper
from metastable.theory.intervals import mean_interval
from metastable.theory.verdicts import Verdict, judge_number

SOURCE = "first paper, sec. 2.1, on Dong et al. 2021"
CLAIM = "Skip connections and feedforward networks prevent rank collapse"
KINDS = {"attention": "network without MLP", "whole": "network"}
COLLAPSED = 0.1  # distance from one point at which the mean cosine of all pairs is 0.99
TITLE = "Distance from one point in a real model, layer by layer, as its skip connections are scaled"

TITLE_RANK = "Distance from rank one in a real model, layer by layer, as its skip connections are scaled"


@dataclass(frozen=True)
class Params:
    """``instances`` texts cut to one length of at most ``tokens``; a shared block is applied ``layers`` times."""

    model: str = model_access.ZOO
    strengths: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    layers: int | None = 24
    tokens: int = 48
    instances: int = 40
    seed: int = 0


def read(model: Model, params: Params) -> list[list[int]]:
    """Token ids of texts of one length."""
    readings = (model.read(t, params.tokens) for t in model_access.texts_of(model, params.seed, 2 * params.instances))
    return several([r.given for r in readings if r is not None], params.instances, params.tokens)


def embedded(model: Model, ids: list[list[int]]) -> np.ndarray:
    """Layer 0 of texts, (texts, n, d)."""
    found: list[np.ndarray] = []

    def see(layer: int, x: np.ndarray) -> None:
        if layer == 0:
            found.append(np.array(x))

    for text in ids:
        model.watch(text, 1, see, lambda layer, A: None)
    return np.stack(found)


def run(params: Params, work: Work) -> Data:
    model = model_access.model_of(params.model)
    model.require_parts()
    depth = params.layers or model.depth if model.shared else model.depth

    def make() -> Data:
        ids = read(model, params)
        start, every = embedded(model, ids), np.ones(model.heads)
        systems = {
            f"{kind}-{s:g}": System(KINDS[kind], Switches(every, residual=s), start)
            for kind in KINDS
            for s in params.strengths
        }
        rows: dict[str, list[np.ndarray]] = {name: [] for name in systems}
        for layer, x in enumerate(climb(model, systems, depth, [Length(1.0, 1.0)] * depth)):
            work.progress(layer / depth, f"layer {layer} of {depth}")
            for name, tokens in x.items():
                x64 = np.asarray(tokens, dtype=np.float64)
                rows[name].append(np.stack([rank_one.from_one_point(x64), rank_one.from_rank_one(x64)]))
        made = {name: np.stack(each, axis=-1) for name, each in rows.items()}  # (2, texts, layers + 1)
        return {f"{name}{end}": each[k] for name, each in made.items() for k, end in enumerate(("", "/rank"))}

    return {**work.part("climb", make), "trained": np.array(model.depth)}


def check(params: Params) -> dict[str, Check]:
    """One layer without its MLP and with skip strength 0.5 on one short text, by the plain formulas and the norm's own.

    The model computes in float32: 1e-3 of tokens whose coordinates are of order 1.
    """
    try:
        model = model_access.model_of(params.model)
        model.require_parts()
    except InputError:
        return {}
    block = model.block(0)
    if block.order != "post" or block.attention_norm is None or model.mask(0) != "full":
        return {}
    x0 = np.asarray(embedded(model, [read(model, params)[0][:8]])[0], dtype=np.float64)
    q, k, v = (np.zeros((block.heads, 1)) if b is None else b for b in (block.q_bias, block.k_bias, block.v_bias))
    added = np.zeros_like(x0) if block.o_bias is None else np.broadcast_to(block.o_bias, x0.shape).astype(float)
    for h in range(block.heads):  # a bias is one more coordinate, always 1
        Q, K = (np.column_stack([m[h], np.broadcast_to(b[h], len(m[h]))]) for m, b in ((block.Q, q), (block.K, k)))
        P = plain.attention(np.column_stack([x0, np.ones(len(x0))]), Q, K, block.scale)
        added = added + (P @ (x0 @ block.V[h].T) + v[h]) @ block.O[h].T
    y = 0.5 * x0 + added
    norm = block.attention_norm
    centred = y - y.mean(axis=1, keepdims=True)
    u = norm.gain * centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + norm.eps) + norm.bias
    second = block.mlp_norm
    assert second is not None
    centred = u - u.mean(axis=1, keepdims=True)
    z = second.gain * centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + second.eps) + second.bias
    system = System(KINDS["attention"], Switches(np.ones(model.heads), residual=0.5), x0[None])
    *_, last = climb(model, {"one": system}, 1, [Length(1.0, 1.0)])
    own = np.asarray(last["one"])[0]
    whole = network([block], [model.require_parts().position(0, len(x0))], [model.mask(0)])
    kept = np.asarray(whole.layer(0.0, jnp.asarray(x0), 1.0))
    seen: list[np.ndarray] = []
    model.watch(read(model, params)[0][:8], 1, lambda layer, x: seen.append(np.array(x)), lambda layer, A: None)
    return {
        "a layer without its MLP, half of its skip": (own, z, 1e-3),
        "a whole layer": (kept, seen[1], 1e-3),
    }


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """Collapse: a distance from one point of at most COLLAPSED = 0.1, mean cosine 0.99, at the trained depth.

    It was known beforehand that attention with its skip connections and without the MLP reaches a mean cosine of .995
    in this model; nothing else was. Prevented: the distance stays above that. Means over texts with Student's interval.
    The same of the distance from rank one, the second singular value over the first: "a rank-1 solution" are the
    paper's words, and tokens may lie on one line without being one point. (Added after the distances from one point had
    been seen, with the same number.)
    """
    if model_access.SKIPPED in data:
        return model_access.skipped(CLAIM, SOURCE, data)
    trained = int(data["trained"])

    def asked(kind: str, skip: float, claim: str, collapse: bool, end: str = "") -> Verdict:
        each = data[f"{kind}-{skip:g}{end}"]
        values = each[:, min(trained, each.shape[1] - 1)]
        accepted = (0.0, COLLAPSED) if collapse else (COLLAPSED, 1.0)
        what = "rank one (second singular value over the first)" if end else "one point"
        notes = f"distance from {what} {each[:, 0].mean():.3g} at layer 0, {values.mean():.3g} at layer {trained}"
        return judge_number(f"{claim} ({params.model}).", SOURCE, values, accepted, kind="observation", notes=notes)

    found = [
        asked("attention", 0.0, "Attention alone, without skip connections and MLP, collapses to one point", True),
        asked("attention", 1.0, "Skip connections alone prevent it", False),
        asked("whole", 0.0, "The feedforward network alone prevents it", False),
        asked("whole", 1.0, "Both together, the model as it is, prevent it", False),
        asked("attention", 0.0, "Attention alone collapses to rank one", True, "/rank"),
        asked("attention", 1.0, "Skip connections alone prevent the collapse to rank one", False, "/rank"),
        asked("whole", 0.0, "The feedforward network alone prevents the collapse to rank one", False, "/rank"),
        asked("whole", 1.0, "Both together prevent the collapse to rank one", False, "/rank"),
    ]
    return [*found, _rises(params, data)]


def _rises(params: Params, data: Data) -> Verdict:
    """With the MLP, the distance that is left at the trained depth rises with s: rank correlation 0.8 or more."""
    trained = int(data["trained"])
    rows = np.stack([data[f"whole-{s:g}"] for s in params.strengths])
    rows = rows[:, :, min(trained, rows.shape[2] - 1)]  # (strengths, texts)
    ranks = rows.argsort(axis=0).argsort(axis=0).astype(float)
    places = np.arange(len(params.strengths), dtype=float)
    values = [float(np.corrcoef(column, places)[0, 1]) for column in ranks.T]
    each = "; ".join(f"s = {s:g}: {row.mean():.3g}" for s, row in zip(params.strengths, rows))
    return judge_number(
        f"The more of its skip connections the model keeps, the farther from one point its tokens stay "
        f"({params.model}).",
        SOURCE,
        values,
        (0.8, 1.0),
        kind="observation",
        notes=f"rank correlation text by text; distance at layer {trained}, {each}",
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    if model_access.SKIPPED in data:
        return {}
    count = len(data["whole-1"])
    what = (
        f"Rows of X are the tokens of a text, m is their mean. Model {params.model}, {count} texts cut to one length "
        f"of at most {params.tokens} tokens, from number {params.seed} on; x + f(x) is s x + f(x) in every sublayer; "
        "means over texts with 95% intervals; float32, so 1e-7 is rounding."
    )
    labels = {"": (TITLE, r"$|X - 1m^T| / |X|$"), "/rank": (TITLE_RANK, r"$\sigma_2 / \sigma_1$")}
    return {title: captioned(_by_layer(params, data, end, label), what) for end, (title, label) in labels.items()}


def _by_layer(params: Params, data: Data, end: str, label: str) -> Figure:
    trained = int(data["trained"])
    with paper():
        figure, axes = panels(None, 2, 3.3, 0.75)
        for axis, kind, title in zip(axes, KINDS, ("attention alone, no MLP", "with the MLP")):
            lines = {f"s = {s:g}": data[f"{kind}-{s:g}{end}"] for s in params.strengths}
            layers = np.arange(next(iter(lines.values())).shape[1])
            ends = {name: np.array([mean_interval(v) for v in each.T]).T for name, each in lines.items()}
            series(
                layers,
                {name: each.mean(axis=0) for name, each in lines.items()},
                band={name: (np.maximum(e[0], 1e-8), e[1]) for name, e in ends.items()},
                reference={"trained depth": ([trained, trained], [1e-8, 1.0])} if trained < layers[-1] else {},
                xlabel="layer", ylabel=label, yscale="log", title=title, ax=axis,
            )  # fmt: skip
            axis.set_ylim(1e-8, 1.5)
    return figure


def finding(params: Params, data: Data) -> Finding | None:
    if model_access.SKIPPED in data:
        return None
    trained = int(data["trained"])
    at = min(trained, data["whole-1"].shape[1] - 1)
    names = ("attention-0", "attention-0/rank", "attention-1", "whole-0", "whole-1")
    alone, rank, skips, mlp, both = (data[name][:, at].mean() for name in names)
    return Finding(
        "Skip connections and feedforward networks are said to prevent attention's collapse to rank one.",
        f"In {params.model} attention alone is within {alone:.1g} of one point after {trained} layers ({rank:.1g} of "
        f"rank one), with its skip connections {skips:.2g}, with its MLP {mlp:.2g}, with both {both:.2g}.",
        TITLE,
    )


EXPERIMENT = Experiment(
    name="model-residual",
    title="A real model with its skip connections scaled",
    source=SOURCE,
    figures="none in the papers",
    params=Params,
    run=model_access.or_skip(run),
    judge=judge,
    draw=draw,
    quick={"instances": 20, "layers": 12, "strengths": (0.0, 0.5, 1.0), "tokens": 32},
    full={"instances": 200, "layers": 96},
    check=check,
    finding=finding,
    topic="model",
    leaves_out="Layers beyond the trained depth and skip strengths other than 0, 1/2 and 1.",
    text="The layers of a pretrained network, with less and less of the token itself in every sum x + f(x), and with "
    "or without the MLP. How far tokens are from one point is followed layer by layer; the model as it is is s = 1 "
    "with the MLP.",
)
