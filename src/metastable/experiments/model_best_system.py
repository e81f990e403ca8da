"""The best particle system: how much of a real model's token clouds can any sphere flow of this form explain?

The ladder asks how far the model's own weights, put into a particle system, are from the model. Here the weights are
free: Q, K, V of one head or of several, full or causal, are learned by gradient (`fitted_systems`) from the clouds of
some texts, stopped by others, and judged on texts that had no part in either. What is left is what no system of this
form explains; controls without attention say what needs none, and the same fit to the same network with fresh weights
says what needs no training.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.backend import jax, jnp
from metastable.errors import InputError
from metastable.experiments import fitted_systems as systems
from metastable.experiments import model_access
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.best_system_verdicts import CLAIM, SOURCE, TITLE, draw_models, judge_model
from metastable.initial import sphere
from metastable.models.controls import CONTROLS
from metastable.models.ladder import ladder
from metastable.models.model import Model
from metastable.models.token_distances import gram
from metastable.models.tokens import as_ids
from metastable.theory.verdicts import Verdict

RUNGS = (0, 1, 2)
FRESH = ", fresh weights"


@dataclass(frozen=True)
class Params:
    """Texts of ``n`` tokens (``short`` ones for a small corpus): ``train`` to learn from, ``stop`` to end by.

    ``instances`` more are judged. ``width`` and ``heads`` are those of the fitted systems. Those named in ``fresh`` are
    also fitted to the network with fresh weights; by default one head alone, for it stands in most comparisons.
    """

    model: str = model_access.ZOO
    others: tuple[str, ...] = ("minilm",)
    n: int = 24
    short: int = 16
    systems: tuple[str, ...] = tuple(systems.SYSTEMS)
    width: int = 32
    heads: int = 4
    steps: int = 200
    train: int = 48
    stop: int = 12
    fresh: tuple[str, ...] = ("one head",)
    instances: int = 24
    seed: int = 0


Ids = list[list[int]]


def given_texts(params: Params, model: Model) -> tuple[Ids, Ids, Ids]:
    """Token ids of texts to learn from, to stop by and to judge, all of one length.

    A corpus with fewer texts is cut into stretches of ``short`` words, and then no paragraph gives to two of the three.
    """
    wanted = params.train + params.stop + params.instances
    raw = [t for t in model_access.texts_of(model, params.seed, 8 * wanted) if isinstance(t, str)]
    n = params.n if len(raw) >= wanted else params.short
    pieces = [(k, piece) for k, text in enumerate(raw) for piece in ([text] if n == params.n else _stretches(text, n))]
    ids = [(k, as_ids(piece, model.tokenizer)[:n]) for k, piece in pieces]
    return split([(k, one) for k, one in ids if len(one) == n][:wanted], params.train, params.stop, params.instances)


def _stretches(text: str, words: int) -> list[str]:
    each = text.split()
    return [" ".join(each[i : i + words]) for i in range(0, len(each) - words + 1, words)]


def split(texts: list[tuple[int, list[int]]], train: int, stop: int, judged: int) -> tuple[Ids, Ids, Ids]:
    """Three lists that share no source (the first entry of a text); the first two give way where texts are few.

    >>> split([(k // 2, [k]) for k in range(8)], 3, 1, 2)
    ([[0], [1], [2], [3]], [[4], [5]], [[6], [7]])
    """
    room = max(0, len(texts) - judged)
    scale = min(1.0, room / (train + stop))
    goals = (int(np.ceil(train * scale)), int(np.ceil(stop * scale)))
    parts: tuple[Ids, Ids, Ids] = ([], [], [])
    at, last = 0, None
    for source, ids in texts:
        if at < 2 and len(parts[at]) >= goals[at] and source != last:
            at += 1
        parts[at].append(ids)
        last = source
    if not all(parts):
        raise InputError(f"The corpus has {len(texts)} texts of that length, too few to split in three; lower n.")
    return parts[0], parts[1], parts[2][:judged]


def run(params: Params, work: Work) -> Data:
    return model_access.every_model(params, work, lambda model, report: _measured(params, model, work, report))


def _measured(params: Params, model: Model, work: Work, report: model_access.Report) -> Data:
    """Gram distances (texts, layers) on the judged texts of every fitted system, rung and baseline."""
    texts, slug = given_texts(params, model), model_access.slug(model.name)
    data = work.part(f"{slug}-ladder", lambda: _beside(model, texts))
    jobs = [*params.systems, *(name + FRESH for name in params.fresh)]
    for k, name in enumerate(jobs):

        def share(s: float, k: int = k, name: str = name) -> None:
            report((k + s) / len(jobs), name)

        made = work.part(f"{slug}-{model_access.slug(name)}", lambda n=name, r=share: _fit(params, model, texts, n, r))  # type: ignore[misc]
        data |= {f"{name}/{key}": value for key, value in made.items()}
    return data


def _beside(model: Model, texts: tuple[Ids, Ids, Ids]) -> Data:
    """Rungs and baselines of the ladder on the judged texts, (texts, layers) each."""
    climbed = ladder(model, texts[2], rungs=RUNGS, parts=False, longest=len(texts[2][0]))
    found = {f"rung {k}": climbed.data["gram_distance"].sel(rung=k).values[:, 1:] for k in RUNGS}
    for name in ("frozen tokens", "best constant"):
        found[name] = climbed.baselines["gram_distance"].sel(baseline=name).values[:, 1:]
    return found | {"sizes": np.array([len(part) for part in texts])}


def clouds(model: Model, texts: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Directions of the embedded tokens (texts, n, d), and the model's cosines (layers, texts, n, n)."""
    states: list[np.ndarray] = []
    for ids in texts:
        own: list[np.ndarray] = []
        model.watch(ids, model.depth, _keeping(own), lambda _, A: None)
        states.append(np.stack(own))
    real = np.stack(states, axis=1)  # (layers + 1, texts, n, d)
    first = real[0] / np.linalg.norm(real[0], axis=-1, keepdims=True)
    return first.astype(np.float32), gram(real[1:]).astype(np.float32)


def _keeping(states: list[np.ndarray]) -> Callable[[int, np.ndarray], None]:
    return lambda _, x: states.append(np.array(x, float))


def _fit(params: Params, model: Model, texts: tuple[Ids, Ids, Ids], name: str, report: Any) -> Data:
    network, system = model, systems.SYSTEMS[name.removesuffix(FRESH)]
    if name.endswith(FRESH):
        network, _ = CONTROLS["init"](model, texts[0], len(texts[0][0]), params.seed)
    train, stop, judged = (clouds(network, part) for part in texts)
    d, depth = train[0].shape[-1], len(train[1])
    start = systems.first_numbers(system, d, params.width, params.heads, depth, params.seed)
    numbers, found = systems.fitted(system, start, train, stop, judged, params.steps, report)
    still = systems.squared_distances(np.broadcast_to(judged[0], (depth, *judged[0].shape)), judged[1])
    return {**found, "frozen": np.sqrt(np.asarray(still)).T, "numbers": np.array(sum(v.size for v in numbers.values()))}


def check(params: Params) -> dict[str, Check]:
    """Two layers of two heads on random tokens, and the slope of the price along one way against differences."""
    rng = np.random.default_rng(params.seed)
    d, width, system = 5, 3, systems.SYSTEMS["several heads"]
    numbers = {k: v.astype(float) for k, v in systems.first_numbers(system, d, width, 2, 2, params.seed).items()}
    way = {name: rng.normal(size=value.shape) for name, value in numbers.items()}
    x0, seen = sphere(4, d, seed=[params.seed, 1]), [sphere(4, d, seed=[params.seed, k]) for k in (2, 3)]
    cosines = np.stack([[y @ y.T] for y in seen])  # (layers, 1 text, n, n)

    def layers(s: float) -> list[np.ndarray]:
        out, x = [], x0
        Q, K, V, O = (numbers[name] + s * way[name] for name in ("Q", "K", "V", "O"))
        for _ in range(2):
            x = x + sum(plain.pull(x, Q[h], K[h], O[h] @ V[h]) for h in range(2))
            x = x / np.linalg.norm(x, axis=1, keepdims=True)
            out.append(x)
        return out

    def value(s: float) -> float:
        each = [np.square(x @ x.T - H[0]).sum() / np.square(H[0]).sum() for x, H in zip(layers(s), cosines)]
        return float(np.mean(each))

    data = (jnp.asarray(x0)[None], jnp.asarray(cosines))
    slope = jax.jit(jax.grad(lambda own: systems.price(system, own, data)))(numbers)
    along = sum(float((np.asarray(slope[name]) * way[name]).sum()) for name in numbers)
    h = 1e-4
    return {
        "tokens after two layers": (
            systems.layers_of(system, numbers, jnp.asarray(x0), 2),
            np.stack(layers(0.0)),
            1e-9,
        ),
        "slope of the price": (along, (value(h) - value(-h)) / (2 * h), 1e-5 * max(1.0, abs(along))),
    }


def judge(params: Params, data: Data) -> list[Verdict]:
    """See `best_system_verdicts.judge_model`, for every model."""
    if model_access.SKIPPED in data:
        return model_access.skipped(CLAIM, SOURCE, data)
    names = model_access.names_of(params)
    return model_access.judged(names, data, CLAIM, SOURCE, lambda name: judge_model(params, data, name))


def draw(params: Params, data: Data) -> Figures:
    if model_access.SKIPPED in data:
        return {}
    names = model_access.names_of(params)
    return draw_models(params, data, [name for name in names if f"{name}/sizes" in data])


def finding(params: Params, data: Data) -> Finding | None:
    if model_access.SKIPPED in data:
        return None
    name = params.model
    rows = {s: data[f"{name}/{s}/distance"].mean() for s in params.systems}
    best = min(rows, key=lambda s: float(rows[s]))
    frozen, rung = data[f"{name}/frozen tokens"].mean(), min(data[f"{name}/rung {k}"].mean() for k in RUNGS)
    return Finding(
        "Tokens of a transformer are said to move as particles of a flow on the sphere.",
        f"The best fitted system ({best}) is {rows[best]:.2f} from {name}'s clouds on texts it never saw; frozen "
        f"tokens "
        f"are {frozen:.2f} away, the best rung with the model's own weights {rung:.2f}, no attention at all "
        f"{rows.get('no attention', np.nan):.2f}.",
        TITLE,
    )


EXPERIMENT = Experiment(
    name="best-particle-system",
    title="The best that a particle system explains",
    source=SOURCE,
    figures="none in the papers",
    params=Params,
    run=model_access.or_skip(run),
    judge=judge,
    draw=draw,
    quick={
        "others": (),
        "systems": ("one head", "no attention"),
        "n": 12,
        "steps": 40,
        "train": 12,
        "stop": 4,
        "fresh": (),
        "instances": 20,
    },
    full={
        "fresh": ("one head", "several heads", "causal", "causal heads"),
        "steps": 2000,
        "train": 400,
        "stop": 50,
        "instances": 100,
        "n": 48,
    },
    check=check,
    finding=finding,
    topic="model",
    leaves_out="The second model, all systems but one head and no attention, three quarters of the training texts, "
    "texts longer than 12 tokens.",
    text="A sphere flow with free weights is fitted to the token clouds of a pretrained model on some texts and judged "
    "on others, by the distance between matrices of cosines that the ladder uses. Beside it: tokens that do not move, "
    "the model's own weights in a particle system (rungs 0 to 2), and fits without attention.",
)
