"""How several heads on the sphere are judged, and the settings they are judged by."""

from dataclasses import dataclass

import numpy as np

from metastable.experiments.base import Data
from metastable.theory.verdicts import Verdict, judge_number, judge_share

SOURCE = "second paper, section 6; first paper, section 5"
TOGETHER = 0.05  # radians: what counts as one cluster
LONGEST = 16.0  # the strongest coupling that is followed to the horizon
TITLE = "Clusters on the sphere against the number of heads"
FAMILIES = ("identity", "symmetric", "ginibre", "opposed")
WORDS = {
    "identity": "V_h = I/H",
    "symmetric": "V_h random symmetric",
    "ginibre": "V_h with independent normal entries",
    "opposed": "V_h of opposite signs in turn, with sum I",
}


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
    tokens at the horizon, in the mean over instances, and in each over the numbers of heads, which start alike
    (changed after data had been seen: each counted by itself). Uniform tokens have nearly n."""
    share = np.mean([data[f"{family}-{h}/count"] for h in params.heads], axis=0) / params.n
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


# --- pictures -----------------------------------------------------------------------------------------------------
