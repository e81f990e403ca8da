"""Several heads on the sphere, with value matrices of their own, and several systems that exchange their tokens.

Heads. x_i' = P_{x_i} sum_h sum_j A^h_ij V_h x_j with random Q_h^T K_h: the flow that the second paper leaves open (sec.
6), on the first paper's sphere.

Systems. The first paper's outlook asks for "multiple interacting particle systems as an analog for multi-head
attention". Here H systems of n tokens, one head each, pull token i of each towards the mean of its H copies:

    x_i^h' = P ( H sum_j A^h_ij V_h x_j^h + kappa (1/H) sum_g x_i^g )

(`coupled_systems`). kappa = 0 are H systems of their own. As kappa grows the copies of a token become one, and what
moves it is the mean of the H pulls, sum_h A^h V_h x: multi-head attention, up to an error of order 1/kappa.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from metastable.backend import jax, jnp
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights, ginibre, goe
from metastable.experiments import claim_instances
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.coupled_systems import alike, coupled_flow, coupled_velocity, steps_for, systems
from metastable.experiments.multi_head_sphere_verdicts import (
    FAMILIES,
    LONGEST,
    SOURCE,
    TITLE,
    TOGETHER,
    WORDS,
    Params,
    judge,
)
from metastable.initial import cap, sphere
from metastable.observables import cluster_count, cluster_labels
from metastable.plots import series
from metastable.plots.style import captioned, panels, paper
from metastable.solve.simulate import simulate
from metastable.theory.intervals import mean_interval


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


def draw(params: Params, data: Data) -> Figures:
    heads = np.array(params.heads, dtype=float)
    lines, bands = {}, {}
    for family in FAMILIES:
        found = [data[f"{family}-{h}/count"] for h in params.heads]
        words = WORDS[family].replace("V_h", "$V_h$")
        lines[words] = np.array([c.mean() for c in found])
        bands[words] = tuple(np.array([mean_interval(c) for c in found]).T)
    counts = series(
        heads, lines, band=bands, xlabel="heads $H$", ylabel="clusters, mean", marks=True, xscale="log", outside=True
    )
    counts.axes[0].set_xticks(heads, [f"{h:g}" for h in heads])
    counts.axes[0].set_xticks([], minor=True)
    weak = [k for k, c in enumerate(params.couplings) if c <= LONGEST]
    kappa = np.array([params.couplings[k] for k in weak])

    def over(key: str) -> tuple[dict[str, np.ndarray], dict[str, tuple[np.ndarray, np.ndarray]]]:
        each = {f"{c} systems": data[f"systems-{c}/{key}"][:, weak] for c in params.systems}
        ends = {name: np.array([mean_interval(v) for v in found.T]).T for name, found in each.items()}
        return {name: found.mean(axis=0) for name, found in each.items()}, {n: (e[0], e[1]) for n, e in ends.items()}

    with paper():
        together, axes = panels(None, 2, 3.2, 0.75)
        for axis, key, label in zip(axes, ("own", "alike"), ("clusters in a system", "adjusted Rand index")):
            lines, bands = over(key)
            series(kappa, lines, band=bands, xlabel=r"coupling $\kappa$", ylabel=label, marks=True, ax=axis)
            axis.set_xscale("symlog", linthresh=1.0)
            axis.set_xticks(kappa, [f"{k:g}" for k in kappa])
    strong = np.array([c for c in params.couplings if c > 0.0])
    where = [k for k, c in enumerate(params.couplings) if c > 0.0]
    off = {f"{c} systems": data[f"systems-{c}/off"][:, where].mean(axis=0) for c in params.systems}
    first = next(iter(off.values()))
    limit = series(
        strong, off, reference={r"$1/\kappa$": (strong, 0.6 * first[-1] * strong[-1] / strong)},
        xlabel=r"coupling $\kappa$", ylabel="distance from multi-head", xscale="log", yscale="log", marks=True,
    )  # fmt: skip
    start = f"n = {params.n} uniform tokens in R^{params.d}, beta = {params.beta:g}, random Q_h'K_h > 0, "
    seeds = f"{params.instances} seeds from {params.seed} on, means with 95% intervals."
    return {
        TITLE: captioned(counts, f"{start}clusters closer than {TOGETHER:g} rad at t = {params.t:g}; {seeds}"),
        "Clusters in each of several systems, and how alike their groups are, against the coupling": captioned(
            together, f"{start}V_h random symmetric, t = {params.t:g}; {seeds}"
        ),
        "Strongly coupled systems are multi-head attention": captioned(
            limit, f"{start}V_h random symmetric: mean distance of a token's mean copy at t = {params.short:g}; {seeds}"
        ),
    }


def finding(params: Params, data: Data) -> Finding:
    first, last = params.heads[0], params.heads[-1]
    count = {h: data[f"symmetric-{h}/count"].mean() for h in (first, last)}
    index = data[f"systems-{params.systems[-1]}/alike"].mean(axis=0)
    return Finding(
        "Both papers leave several heads open and expect interesting clusters.",
        f"On the sphere {count[last]:.1f} clusters form on average with {last} heads and random symmetric V_h, "
        f"{count[first]:.1f} with {first}; {params.systems[-1]} systems that exchange tokens agree on their "
        f"groups with index {index[0]:.2f} without exchange, {index[params.couplings.index(4.0)]:.2f} at kappa = 4 "
        "(1 is the same groups).",
        TITLE,
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
            jax.jit(coupled_velocity)(systems(member), x, 2.0), np.stack(coupled), 1e-10,
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
    draw=draw,
    quick={"instances": 20, "heads": (1, 4, 16), "systems": (4,), "couplings": (0.0, 4.0, 16.0, 64.0), "n": 16},
    full={"instances": 1000},
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="Two and eight heads, two systems, couplings 1 and 256; 16 tokens.",
    text="Every head has its own random Q, K and V. The number of clusters is followed as heads are added. Then heads "
    "become systems of their own, which pull the copies of a token towards their mean: without exchange every system "
    "clusters by itself, with strong exchange the systems are multi-head attention, and in between one can watch the "
    "one become the other.",
)
