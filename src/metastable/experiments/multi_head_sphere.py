"""Several heads on the sphere, with value matrices of their own, and several systems that exchange their tokens.

Heads. x_i' = P_{x_i} sum_h sum_j A^h_ij V_h x_j with random Q_h^T K_h: the flow that the second paper leaves open (sec.
6), on the first paper's sphere.

Systems. The first paper's outlook asks for "multiple interacting particle systems as an analog for multi-head
attention". Here H systems of n tokens, one head each, pull token i of each towards the mean of its H copies:

    x_i^h' = P ( H sum_j A^h_ij V_h x_j^h + kappa (1/H) sum_g x_i^g )

(`coupled_systems`). kappa = 0 are H systems of their own. As kappa grows the copies of a token become one, and what
moves it is the mean of the H pulls, sum_h A^h V_h x: multi-head attention, up to an error of order 1/kappa.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from metastable.backend import jax, jnp
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights, ginibre, goe
from metastable.experiments import claim_instances, multi_head_sphere_page
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Work
from metastable.experiments.coupled_systems import alike, coupled_flow, coupled_velocity, steps_for, systems
from metastable.experiments.multi_head_sphere_page import FAMILIES, LONGEST, TOGETHER, WORDS
from metastable.initial import cap, sphere
from metastable.observables import cluster_count, cluster_labels
from metastable.solve.simulate import simulate
from metastable.theory.verdicts import Verdict, judge_number, judge_share

SOURCE = "second paper, section 6; first paper, section 5"


@dataclass(frozen=True)
class Params:
    """``n`` uniform tokens on the sphere in R^``d``; random Q_h, K_h with Q_h^T K_h > 0; ``couplings`` are kappa."""

    n: int = 32
    d: int = 3
    beta: float = 4.0
    heads: tuple[int, ...] = (1, 2, 4, 8, 16)
    couplings: tuple[float, ...] = (0.0, 1.0, 4.0, 16.0, 64.0, 256.0)
    systems: tuple[int, ...] = (2, 4)
    t: float = 30.0
    dt: float = 0.05
    short: float = 1.0  # the time to which coupled systems are compared with multi-head attention
    instances: int = 100
    seed: int = 0


def values(family: str, heads: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """V_h (h, d, d): sums over the heads have the same size for every number of heads."""
    if family == "identity":
        return np.broadcast_to(np.eye(d) / heads, (heads, d, d))
    if family == "opposed":
        signs = np.where(np.arange(heads) % 2 == 0, 2.0, -1.0)
        return np.asarray((signs / signs.sum())[:, None, None] * np.eye(d))
    make = goe if family == "symmetric" else ginibre
    return np.asarray(np.stack([make(d, int(rng.integers(2**31))) for _ in range(heads)]) / np.sqrt(heads))


def instance(params: Params, family: str, heads: int, seed: int) -> tuple[Dynamics, np.ndarray]:
    """Dynamics with that many heads, and tokens: a start in a hemisphere for the identity, uniform otherwise."""
    rng = np.random.default_rng([seed, heads, FAMILIES.index(family)])
    scores = [claim_instances.random_score(params.d, rng) for _ in range(heads)]
    Q, K = (np.stack([pair[i] for pair in scores]) for i in (0, 1))  # (h, d, d)
    draw = partial(cap, angle=1.5) if family == "identity" else sphere
    return Dynamics(Weights(Q, K, values(family, heads, params.d, rng)), params.beta), draw(
        params.n, params.d, seed=[seed, 1]
    )


def run(params: Params, work: Work) -> Data:
    data: Data = {}
    for family in FAMILIES:
        for heads in params.heads:

            def chunk(first: int, last: int, family: str = family, heads: int = heads) -> Data:
                return _heads(params, family, heads, range(params.seed + first, params.seed + last))

            found = work.parts(f"{family}-{heads}", params.instances, 50, chunk)
            data |= {f"{family}-{heads}/{key}": value for key, value in found.items()}
    for count in params.systems:

        def coupled(first: int, last: int, count: int = count) -> Data:
            return _systems(params, count, range(params.seed + first, params.seed + last))

        found = work.parts(f"systems-{count}", params.instances, 20, coupled)
        data |= {f"systems-{count}/{key}": value for key, value in found.items()}
    return data


def _heads(params: Params, family: str, heads: int, seeds: range) -> Data:
    chosen = [instance(params, family, heads, seed) for seed in seeds]
    save = np.linspace(0.0, params.t, 31)
    runs = simulate([m for m, _ in chosen], np.stack([x for _, x in chosen]), params.t, params.dt, save=save)
    x = np.stack([one.x for one in runs])  # (b, T, n, d)
    least = x[..., 0].min(axis=-1)  # (b, T), along the axis of the caps
    return {
        "count": cluster_count(x[:, -1], TOGETHER),
        "start": cluster_count(x[:, 0], TOGETHER),
        "fall": (least[:, :-1] - least[:, 1:]).max(axis=1),
    }


def _systems(params: Params, count: int, seeds: range) -> Data:
    """For every coupling (b, couplings): clusters in a system, how alike systems group tokens, and the distance of the
    mean copy from multi-head attention at the short time."""
    chosen = [instance(params, "symmetric", count, seed) for seed in seeds]
    members = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[systems(whole) for whole, _ in chosen])
    x0 = np.stack([x for _, x in chosen])  # (b, n, d)
    joint = np.stack([one.x[-1] for one in simulate([m for m, _ in chosen], x0, params.short, 0.01, save=2)])
    start = jnp.asarray(np.repeat(x0[:, None], count, axis=1))  # (b, H, n, d)
    found: dict[str, list[np.ndarray]] = {"own": [], "alike": [], "off": []}
    for coupling in params.couplings:
        steps = steps_for(params.dt, coupling, params.short)
        near = np.asarray(coupled_flow(members, start, coupling, params.short / steps, steps))
        found["off"].append(np.linalg.norm(near.mean(axis=1) - joint, axis=-1).mean(axis=-1))
        if coupling > LONGEST:
            found["own"].append(np.full(len(x0), np.nan))
            found["alike"].append(np.full(len(x0), np.nan))
            continue
        steps = steps_for(params.dt, coupling, params.t)
        end = np.asarray(coupled_flow(members, start, coupling, params.t / steps, steps))
        labels = cluster_labels(end, TOGETHER)  # (b, H, n)
        found["own"].append(cluster_count(end, TOGETHER).mean(axis=1))
        found["alike"].append(np.array([alike(each) for each in labels]))
    return {key: np.stack(values, axis=1) for key, values in found.items()}


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    verdicts = [_consensus(params, data)]
    for family in FAMILIES[1:]:
        verdicts += [_gather(params, data, family), _trend(params, data, family)]
    return [*verdicts, *(_limit(params, data, count) for count in params.systems), _exchange(params, data)]


def _consensus(params: Params, data: Data) -> Verdict:
    """From a cap narrower than a half-sphere tokens meet, for every number of heads, and the cap never widens.

    With V_h = I/H a velocity is the projection of a mean of tokens, so the least coordinate along the cap's axis never
    falls, whatever the scores; 1e-9 is allowed for the step. An instance breaks the claim when it falls, and is seen to
    hold when all tokens are within 0.05 rad at the horizon; clusters that still wait for each other decide nothing.
    """
    outcomes: list[bool | None] = []
    seeds: list[int] = []
    for heads in params.heads:
        count, fall = (data[f"identity-{heads}/{key}"] for key in ("count", "fall"))
        outcomes += [False if f > 1e-9 else (True if c == 1 else None) for c, f in zip(count, fall)]
        seeds += range(params.seed, params.seed + len(count))
    return judge_share(
        "From a cap of the sphere all tokens meet in one point with V_h = I/H, for every number of heads.",
        SOURCE + ", by the argument for one head",
        outcomes,
        decided=0.5,
        seeds=seeds,
        notes=f"H = {', '.join(map(str, params.heads))}; the least coordinate along the cap's axis fell in none"
        if not any(o is False for o in outcomes)
        else "",
    )


def _gather(params: Params, data: Data, family: str) -> Verdict:
    """ "Interesting clustering phenomena also occur" is read as: at most a quarter as many clusters (0.05 rad) as
    tokens at the horizon, in the mean over instances, all numbers of heads pooled. Uniform tokens have nearly n."""
    share = np.concatenate([data[f"{family}-{h}/count"] for h in params.heads]) / params.n
    start = np.concatenate([data[f"{family}-{h}/start"] for h in params.heads]).mean()
    each = ", ".join(f"H = {h}: {data[f'{family}-{h}/count'].mean():.2f}" for h in params.heads)
    return judge_number(
        f"Tokens on the sphere gather with several heads, {WORDS[family]}: at most a quarter as many clusters as "
        "tokens (share of n).",
        SOURCE,
        share,
        (0.0, 0.25),
        kind="observation",
        notes=f"clusters, mean: {each}; at the start {start:.1f} of {params.n}",
    )


def _trend(params: Params, data: Data, family: str) -> Verdict:
    """Clusters against H: the slope of ln(count) against ln(H) is within 0.25 of 0, instance by instance.

    H leaders per token could make as many places as there are combinations of them, and the count grow like a power
    of H; 0.25 is a factor of two from 1 head to 16.
    """
    x = np.log(np.array(params.heads, dtype=float))
    y = np.log(np.stack([data[f"{family}-{h}/count"] for h in params.heads]))  # (H, b)
    x = x - x.mean()
    slope = (x[:, None] * y).sum(axis=0) / max((x**2).sum(), 1e-300)
    return judge_number(
        f"More heads do not make more clusters: no trend with H, {WORDS[family]} (exponent of H).",
        SOURCE + " (own question)",
        slope,
        (-0.25, 0.25),
        kind="observation",
    )


def _limit(params: Params, data: Data, count: int) -> Verdict:
    """The distance of the mean copy from multi-head attention falls like 1/kappa: exponent -1, to 0.15.

    Read over the couplings from 16 on, where the next order, 1/kappa^2, is a few percent.
    """
    strong = [k for k, c in enumerate(params.couplings) if c >= 16.0]
    x = np.log([params.couplings[k] for k in strong])
    y = np.log(data[f"systems-{count}/off"][:, strong])  # (b, c)
    x = x - x.mean()
    return judge_number(
        f"{count} systems that exchange their tokens become multi-head attention: the distance falls like 1/kappa "
        "(exponent).",
        SOURCE + " (own prediction, derived in this experiment's first lines)",
        (y * x).sum(axis=1) / (x**2).sum(),
        (-1.15, -0.85),
        kind="theorem",
        notes=f"at t = {params.short:g}; mean {np.exp(y[:, -1]).mean():.2g} at kappa = {params.couplings[-1]:g}",
    )


def _exchange(params: Params, data: Data) -> Verdict:
    """How alike two systems group the tokens (adjusted Rand index): at kappa = 4 by 0.25 or more above no exchange.

    Groups by chance have 0 and the same groups 1; a quarter of the way is asked for.
    """
    weak, strong = params.couplings.index(0.0), params.couplings.index(4.0)
    count = params.systems[-1]
    found = data[f"systems-{count}/alike"]
    each = "; ".join(f"kappa = {c:g}: {found[:, k].mean():.2f}" for k, c in enumerate(params.couplings) if c <= LONGEST)
    return judge_number(
        f"Exchange makes {count} systems group tokens alike: the index at kappa = 4 exceeds that at 0 by 0.25 or more.",
        SOURCE + " (own question)",
        found[:, strong] - found[:, weak],
        (0.25, np.inf),
        kind="observation",
        notes=f"adjusted Rand index of two systems' groups, mean: {each}",
    )


def check(params: Params) -> dict[str, Check]:
    """Five tokens with three heads to t = 0.2, and the velocity of three coupled systems from unlike places."""
    small = replace(params, n=5)
    member, x0 = instance(small, "ginibre", 3, params.seed)
    Q, K, V = (np.asarray(m) for m in (member.weights.Q, member.weights.K, member.weights.V))

    def pulled(x: np.ndarray, h: int) -> np.ndarray:
        return plain.pull(x, Q[h], K[h], V[h], params.beta)

    def field(t: float, x: np.ndarray) -> np.ndarray:
        return plain.projected(x, sum((pulled(x, h) for h in range(3)), np.zeros_like(x)))

    x = np.stack([sphere(5, params.d, seed=[params.seed, h]) for h in range(3)])  # (H, n, d)
    coupled = [plain.projected(x[h], 3 * pulled(x[h], h) + 2.0 * x.mean(axis=0)) for h in range(3)]
    return {
        "tokens with three heads at t = 0.2": (
            simulate(member, x0, 0.2, 0.01, save=2).x[-1], plain.moved(field, x0, 0.2, 40), 1e-6,
        ),
        "the velocity of three coupled systems": (
            coupled_velocity(systems(member), jnp.asarray(x), jnp.asarray(2.0)), np.stack(coupled), 1e-10,
        ),
    }  # fmt: skip


EXPERIMENT = Experiment(
    name="multi-head-sphere",
    title="Several heads on the sphere, and systems that exchange tokens",
    source=SOURCE,
    figures="none in the papers: an open problem of both",
    params=Params,
    run=run,
    judge=judge,
    draw=multi_head_sphere_page.draw,
    quick={"instances": 20, "heads": (1, 4, 16), "systems": (4,), "couplings": (0.0, 4.0, 16.0, 64.0), "n": 24},
    full={"instances": 1000},
    check=check,
    finding=multi_head_sphere_page.finding,
    topic="beyond",
    leaves_out="Two and eight heads, two systems, couplings 1 and 256, a quarter of the tokens.",
    text="Every head has its own random Q, K and V. The number of clusters is followed as heads are added. Then heads "
    "become systems of their own, which pull the copies of a token towards their mean: without exchange every system "
    "clusters by itself, with strong exchange the systems are multi-head attention, and in between one can watch the "
    "one become the other.",
)
