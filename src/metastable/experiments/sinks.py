"""Section 5 of the first paper: does the first token become an attention sink?

Under a causal mask early tokens are seen by more tokens, so they receive more attention even when attention is uniform.
That baseline is position alone; a sink in the usual sense receives more. Both are judged, over beta and V.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from metastable.backend import jax, jnp
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments.base import Data, Experiment, Figures, Work
from metastable.initial import sphere
from metastable.observables import sink_baseline, sink_mass
from metastable.plots import series
from metastable.plots.style import panels, paper
from metastable.solve.simulate import simulate
from metastable.theory.verdicts import Verdict, judge_number, judge_share

VALUES = ("V = I", "V random", "V = -I")
SOURCE = "first paper, sec. 5"


@dataclass(frozen=True)
class Params:
    """The baseline n, d, dt and t of sec. 3.2; verdicts are given at the paper's two values of beta."""

    n: int = 64
    d: int = 3
    betas: tuple[float, ...] = (0.5, 1.0, 3.0, 9.0)
    judged: tuple[float, ...] = (1.0, 9.0)
    dt: float = 0.1
    times: tuple[float, ...] = (0.0, 1.0, 2.0, 4.0, 7.0, 11.0, 15.0)
    instances: int = 200
    seed: int = 0


def instance(params: Params, seed: int, value: str, beta: float) -> tuple[Dynamics, np.ndarray]:
    """Dynamics and tokens of one instance; a random V has standard normal entries."""
    drawn = np.random.default_rng([seed, 1]).standard_normal((params.d, params.d))
    V = {"V = I": np.eye(params.d), "V random": drawn, "V = -I": -np.eye(params.d)}[value]
    return Dynamics(Weights(V=V), beta=beta, mask="causal"), sphere(params.n, params.d, seed=seed)


def run(params: Params, work: Work) -> Data:
    shape = (len(VALUES), len(params.betas))

    def chunk(first: int, last: int) -> Data:
        cases = [(k, v, b) for k in range(first, last) for v in VALUES for b in params.betas]
        chosen = [instance(params, params.seed + k, v, b) for k, v, b in cases]
        x0 = np.stack([x for _, x in chosen])
        runs = simulate([dyn for dyn, _ in chosen], x0, params.times[-1], params.dt, save=params.times)
        P = [np.asarray(_attention(one.x, jnp.asarray(b))) for one, (_, _, b) in zip(runs, cases)]  # (T, n, n) each
        mass = np.stack([sink_mass(one, _visible(params.n), per="token") for one in P])  # (b V betas, T, n)
        shape_all = (last - first, *shape, len(params.times))
        return {
            "mass": mass.reshape(*shape_all, params.n),
            "others": np.stack([_from_others(one) for one in P]).reshape(shape_all),
        }

    data = work.parts("runs", params.instances, min(25, params.instances), chunk)
    return {**data, "baseline": sink_baseline(params.n, _visible(params.n), per="token")}


@jax.jit
def _attention(x: Any, beta: Any) -> Any:
    return Dynamics(beta=beta, mask="causal").attention(0.0, x)[..., 0, :, :]


def _from_others(P: np.ndarray) -> np.ndarray:
    """Token 1's part of what tokens give away (self-attention left out), over the same with uniform attention, (T,)."""
    away = np.tril(P, -1)[:, 1:]  # (T, n - 1, n): viewers 2..n
    part = (away[..., 0] / away.sum(axis=-1)).mean(axis=-1)
    return np.asarray(part / (1.0 / np.arange(1, P.shape[-1])).mean())


def _visible(n: int) -> np.ndarray:
    return np.tri(n, dtype=bool)


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """Three claims for every V and judged beta, at the last time.

    First: token 1 holds the largest share of all attention, in more than half of the starts. Second: its share exceeds
    the causal-position baseline (1/n) sum_i 1/i: the mean ratio exceeds 1. There is no other tolerance. At consensus
    attention is uniform and the ratio is exactly 1, so a run that collapses cannot satisfy the second claim. Third:
    with Q = K = I tokens attend much to themselves, which hides the rest; of what they give to others token 1's part,
    over the same part of uniform attention, exceeds 1. At t = 0 tokens are exchangeable and this ratio is 1 in the
    mean: what it gains is the dynamics' doing.
    """
    seeds = [params.seed + k for k in range(len(data["mass"]))]
    verdicts = []
    for v, value in enumerate(VALUES):
        for beta in params.judged:
            mass = data["mass"][:, v, params.betas.index(beta), -1]  # (b, n)
            where = f"{value}, beta = {beta:g}, t = {params.times[-1]:g}"
            verdicts += [
                judge_share(
                    f"The first token receives more attention than any other token ({where}).",
                    SOURCE,
                    [bool(row[0] > row[1:].max()) for row in mass],
                    kind="observation",
                    required=0.5,
                    seeds=seeds,
                    notes=f"mean share of all attention {mass[:, 0].mean():.4f}; position alone gives "
                    f"{data['baseline'][0]:.4f}, and then too the first token has the most",
                ),
                judge_number(
                    f"It receives more than its position alone would give ({where}).",
                    SOURCE,
                    mass[:, 0] / data["baseline"][0],
                    (1.0, np.inf),
                    kind="observation",
                    notes="attention on token 1 over the causal-position baseline; the paper's other reason, "
                    "alignments learned in training, has no counterpart in these dynamics",
                ),
                judge_number(
                    f"Self-attention left out, it receives more than its position alone would give ({where}).",
                    SOURCE,
                    data["others"][:, v, params.betas.index(beta), -1],
                    (1.0, np.inf),
                    kind="observation",
                    notes=f"at t = 0 the ratio is {data['others'][:, v, params.betas.index(beta), 0].mean():.3f}",
                ),
            ]
    return verdicts


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    ratio = data["mass"][..., 0] / data["baseline"][0]  # (b, V, betas, T)
    return {
        "Attention on token 1 over its position's share, against beta": _over_beta(params, ratio),
        "The same without self-attention": _over_beta(params, data["others"]),
        "Attention on token 1 over its position's share, against time": _over_time(params, ratio),
        "Attention on every token": _over_tokens(params, data),
    }


def _over_beta(params: Params, ratio: np.ndarray) -> Figure:
    last = ratio[..., -1]  # (b, V, betas)
    mean, half = last.mean(axis=0), 1.96 * last.std(axis=0) / np.sqrt(len(last))
    return series(
        params.betas,
        dict(zip(VALUES, mean)),
        band={name: (mean[v] - half[v], mean[v] + half[v]) for v, name in enumerate(VALUES)},
        reference={"position alone": ([params.betas[0], params.betas[-1]], [1.0, 1.0])},
        xlabel="beta",
        ylabel=f"ratio at t = {params.times[-1]:g}",
        xscale="log",
        marks=True,
    )


def _over_time(params: Params, ratio: np.ndarray) -> Figure:
    with paper():
        figure, axes = panels(None, len(VALUES), 2.2, 0.85, 0.2)
        for v, panel in enumerate(axes):
            mean = ratio[:, v].mean(axis=0)  # (betas, T)
            series(
                params.times,
                {f"beta = {b:g}": line for b, line in zip(params.betas, mean)},
                reference={"position alone": ([0.0, params.times[-1]], [1.0, 1.0])},
                ylabel="ratio" if v == 0 else "",
                title=VALUES[v],
                ax=panel,
            )
    return figure


def _over_tokens(params: Params, data: Data) -> Figure:
    b = params.betas.index(params.judged[-1])
    mean = data["mass"][:, :, b, -1].mean(axis=0)  # (V, n)
    place = np.arange(1, params.n + 1)
    return series(
        place,
        dict(zip(VALUES, mean)),
        reference={"position alone": (place, data["baseline"])},
        xlabel="token",
        ylabel=f"share of all attention, beta = {params.judged[-1]:g}",
        yscale="log",
    )


EXPERIMENT = Experiment(
    name="sinks",
    title="Is the first token a sink?",
    source=SOURCE,
    figures="none; plots of section 5's claim",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 24, "n": 24, "betas": (1.0, 9.0)},
    full={"instances": 2000},
    text="The first token is seen by all, so it receives more attention than the others even when attention is "
    "uniform: the dashed line. The paper explains sinks by this position alone; whether the dynamics adds anything "
    "to it is the ratio to that line.",
)
