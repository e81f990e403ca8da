"""Neighbours of attention that average opinions: Hegselmann-Krause, Krause's flow, mean-shift and the Sinkformer.

Hegselmann-Krause: score "bounded", discrete layers: x_i becomes the mean of the opinions within 1.
Krause: x_i' = sum_j a_ij (x_j - x_i), a_ij = phi(|x_i - x_j|^2) / sum_k phi(|x_i - x_k|^2) with phi(r) = max(1 - r, 0),
of compact support: one score of distances, softmax of its logarithm.
Mean-shift: score "distance"; data tokens see only themselves and stay, probes see only the data and climb its density.
Sinkformer: attention made doubly stochastic. With Q = K = V = I its tokens follow the gradient of

    F(X) = min over doubly stochastic P of -(1/n) sum_ij P_ij <x_i, x_j> + (1/n) sum_ij P_ij ln P_ij,

so dF/dt = -(2/n) sum_i |x_i'|^2 (P is symmetric, and the minimum does not feel the change of P), and because columns
sum to 1 the mean token grows exactly like e^t. Softmax attention does neither.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.backend import jax, jnp
from metastable.equation.dynamics import Dynamics
from metastable.equation.scores import distance
from metastable.experiments.base import Data
from metastable.initial import gaussian
from metastable.observables import cluster_count
from metastable.solve.methods import RK4
from metastable.solve.simulate import simulate
from metastable.solve.stepping import explicit_step
from metastable.theory.verdicts import Verdict, judge_number, judge_share

SOURCE = "second paper, related work"
_EPS = float(np.finfo(np.float64).eps)


def compact(r: Any) -> Any:
    """phi(r) = max(1 - r, 0)."""
    return jnp.maximum(1.0 - r, 0.0)


KRAUSE = distance(compact)
SINK_DT, SINK_STEPS = 0.05, 10  # of a Sinkformer's run


@dataclass(frozen=True)
class Probes:
    """The mask of mean-shift: the first ``data`` tokens see themselves, the others see the data."""

    data: int

    def __call__(self, i: Any, j: Any) -> Any:
        return ((i < self.data) & (i == j)) | ((i >= self.data) & (j < self.data))


def opinions(params: Any, seed: int, score: Any = "bounded") -> tuple[Dynamics, np.ndarray]:
    """Opinions uniform on an interval; one layer with dt = 1 replaces each by its neighbours' mean."""
    x = np.random.default_rng([seed, 1]).uniform(0.0, params.opinions, (params.n, 1))
    return Dynamics(beta=1.0, score=score, geometry="euclidean"), x


def probes(params: Any, seed: int) -> tuple[Dynamics, np.ndarray]:
    """``n`` data around centres on a circle of radius 2 (spread 0.5), and as many probes starting on them."""
    rng = np.random.default_rng([seed, 2])
    turn = 2.0 * np.pi * (np.arange(params.n) % params.blobs) / params.blobs
    data = 2.0 * np.stack([np.cos(turn), np.sin(turn)], axis=-1) + 0.5 * rng.standard_normal((params.n, 2))
    beta = 1.0 / (2.0 * params.bandwidth**2)
    dynamics = Dynamics(beta=beta, score="distance", geometry="euclidean", mask=Probes(params.n))
    return dynamics, np.concatenate([data, data])


def run_opinions(params: Any, first: int, last: int) -> Data:
    chosen = [opinions(params, s) for s in range(params.seed + first, params.seed + last)]
    layers = params.opinion_layers
    x = simulate(chosen[0][0], np.stack([x for _, x in chosen]), layers, method="layers", save=layers + 1).x
    return _settled("opinions", x, first == 0)


def run_krause(params: Any, first: int, last: int) -> Data:
    chosen = [opinions(params, s, KRAUSE) for s in range(params.seed + first, params.seed + last)]
    x = simulate(chosen[0][0], np.stack([x for _, x in chosen]), params.krause_t, params.dt, save=61).x
    return _settled("krause", x, first == 0)


def _settled(name: str, x: np.ndarray, show: bool) -> Data:
    """How far the last saved step moved tokens (T, b, n, 1), clusters, and the smallest gap between them."""
    end = np.sort(x[-1, :, :, 0], axis=-1)  # (b, n)
    steps = np.diff(end, axis=-1)
    return {
        f"{name}_moved": np.abs(x[-1] - x[-2]).max(axis=(-1, -2)),
        f"{name}_count": cluster_count(x[-1], 1e-3, "euclidean"),
        f"{name}_gap": np.where(steps > 1e-3, steps, np.inf).min(axis=-1),
        f"{name}_shown": np.moveaxis(x, 1, 0)[: int(show), ..., 0],
    }


def run_shift(params: Any, first: int, last: int) -> Data:
    chosen = [probes(params, s) for s in range(params.seed + first, params.seed + last)]
    x0 = np.stack([x for _, x in chosen])
    x = simulate(chosen[0][0], x0, params.shift_layers, method="layers", save=41).x[:, :, params.n :]  # (T, b, n, 2)
    data = x0[:, : params.n]
    density, gradient, top = _landscape(x, data, params.bandwidth)
    return {
        "shift_falls": (density[:-1] - density[1:]).max(axis=(0, 2)) / density.max(axis=(0, 2)),
        "shift_gradient": gradient[-1].max(axis=-1),
        "shift_top": top[-1].max(axis=-1),
        "shift_modes": cluster_count(x[-1], 1e-3, "euclidean"),
        "shift_shown": np.moveaxis(x, 1, 0)[: int(first == 0)],
        "shift_data": data[: int(first == 0)],
    }


def _landscape(x: np.ndarray, data: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kernel density at x (T, b, n, 2), the length of the mean-shift step, and its Hessian's larger eigenvalue."""
    gap = (data[None, :, None] - x[..., None, :]) / width  # (T, b, n, m, 2)
    kernel = np.exp(-0.5 * (gap**2).sum(axis=-1))  # (T, b, n, m)
    density = kernel.mean(axis=-1)
    step = np.einsum("...m,...md->...d", kernel, gap) / kernel.sum(axis=-1)[..., None] * width
    hessian = np.einsum("...m,...md,...me->...de", kernel, gap, gap) / kernel.sum(axis=-1)[..., None, None] - np.eye(2)
    return density, np.linalg.norm(step, axis=-1), np.linalg.eigvalsh(hessian)[..., -1]


def run_sinkformer(params: Any, first: int, last: int) -> Data:
    """Growth of the mean token, and the energy F with its loss, for doubly stochastic and for softmax attention."""
    x0 = np.stack([gaussian(params.sinkhorn_n, 2, 0.7, seed=[params.seed + k, 4]) for k in range(first, last)])
    found: Data = {}
    for name in ("sinkhorn", "softmax"):
        member = Dynamics(beta=1.0, normalise=name, geometry="euclidean")
        t, (x, P) = SINK_DT * np.arange(SINK_STEPS + 1), sink_path(member, x0)  # (T, b, n, 2), (T, b, n, n)
        mean = x.mean(axis=2)  # (T, b, 2)
        grown = np.exp(t)[:, None, None] * mean[0]
        found[f"{name}_mean"] = np.linalg.norm(mean - grown, axis=-1).max(axis=0) / np.linalg.norm(mean[-1], axis=-1)
        F, loss = _energy(x, P)
        change = np.diff(F, axis=0) / SINK_DT  # (T - 1, b)
        found[f"{name}_energy"] = np.abs(change / -((loss[:-1] + loss[1:]) / 2.0) - 1.0).max(axis=0)
    return found


@jax.jit
def _attention(member: Dynamics, x: Any) -> Any:
    return member.attention(0.0, x)[..., 0, :, :]  # one compiled program for all that is needed: scaling takes long


def doubly_stochastic(x: np.ndarray) -> np.ndarray:
    """The attention (b, n, n) of a Sinkformer on tokens (b, n, d) with Q = K = I, beta = 1."""
    return np.asarray(_attention(Dynamics(beta=1.0, normalise="sinkhorn", geometry="euclidean"), x))


def sink_path(member: Dynamics, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (T, b, n, d) of x' = P x by RK4, and the attention (T, b, n, n) on the way."""
    tokens, maps, h = [], [], SINK_DT
    for k in range(SINK_STEPS + 1):
        P = np.asarray(_attention(member, x))
        tokens.append(x)
        maps.append(P)
        if k < SINK_STEPS:
            x = explicit_step(RK4.tableau, lambda _, y: np.asarray(_attention(member, y)) @ y, 0.0, x, h)
    return np.stack(tokens), np.stack(maps)


def _energy(x: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F at tokens (..., n, d) with attention P, and its predicted loss (2/n) sum_i |x_i'|^2."""
    n = x.shape[-2]
    entropy = (P * np.log(np.maximum(P, 1e-300))).sum(axis=(-1, -2))
    F = (entropy - (P * (x @ np.swapaxes(x, -1, -2))).sum(axis=(-1, -2))) / n
    return F, 2.0 / n * ((P @ x) ** 2).sum(axis=(-1, -2))


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge_opinions(data: Data, seeds: list[int]) -> list[Verdict]:
    """At rest: the last layer moved no token by more than 1e-12 (rounding of a mean). Opinions of one cluster are then
    equal to rounding, so 1e-3 separates clusters, and clusters at most 1 apart would still see each other and move."""
    rest = data["opinions_moved"] <= 1e-12
    return [
        _apart("Hegselmann-Krause opinions", data, "opinions", rest, seeds),
        _several("Hegselmann-Krause opinions", data, "opinions", rest, seeds),
    ]


def judge_krause(data: Data, seeds: list[int]) -> list[Verdict]:
    """Krause's flow with compact phi ends in several clusters (Jabin and Motsch 2014).

    At rest: no token moved by more than 1e-6 over the last saved interval of 1 (t from T - 1 to T). The gap of two
    clusters is then at least 1, the reach of phi; 1e-3 is allowed for clusters that are still closing up, and two
    clusters closer than that would draw each other with at least phi = 0.002, and move by more than 1e-6.
    """
    rest = data["krause_moved"] <= 1e-6
    return [
        _apart("Opinions in Krause's flow with compact phi", data, "krause", rest, seeds, room=1e-3),
        _several("Opinions in Krause's flow with compact phi", data, "krause", rest, seeds),
    ]


def _apart(who: str, data: Data, name: str, rest: np.ndarray, seeds: list[int], room: float = 0.0) -> Verdict:
    gap = data[f"{name}_gap"]
    return judge_share(
        f"{who} come to rest in clusters that no longer see each other, one reach or more apart.",
        SOURCE,
        [bool(g > 1.0 - room) if r else None for r, g in zip(rest, gap)],
        decided=0.8,
        seeds=seeds,
        notes=f"smallest gap between clusters at rest {gap[rest].min() if rest.any() else np.nan:.3f}",
    )


def _several(who: str, data: Data, name: str, rest: np.ndarray, seeds: list[int]) -> Verdict:
    count = data[f"{name}_count"]
    return judge_share(
        f"{who} form several clusters.",
        SOURCE,
        [bool(c >= 2) if r else None for r, c in zip(rest, count)],
        kind="observation",
        required=0.5,
        seeds=seeds,
        notes=f"mean number of clusters {count.mean():.2f}, from {count.min()} to {count.max()}",
    )


def judge_shift(params: Any, data: Data, seeds: list[int]) -> list[Verdict]:
    """Density along a mean-shift path never falls, beyond n eps for its own sum. A probe has arrived when its next
    step is below 1e-6; it is on a mode when the Hessian of the log density there has no eigenvalue above the 1e-6 that
    such a step leaves uncertain."""
    arrived = data["shift_gradient"] <= 1e-6
    modes = data["shift_modes"]
    return [
        judge_share(
            "Mean-shift never descends: the kernel density grows along every path.",
            SOURCE,
            [bool(f <= params.n * _EPS) for f in data["shift_falls"]],
            seeds=seeds,
        ),
        judge_share(
            "Mean-shift finds modes: every probe ends on a maximum of the kernel density.",
            SOURCE,
            [bool(h <= 1e-6) if a else None for a, h in zip(arrived, data["shift_top"])],
            seeds=seeds,
            notes=f"mean number of modes {modes.mean():.2f}",
        ),
        judge_share(
            f"It finds the {params.blobs} blobs the data were drawn from.",
            SOURCE,
            [bool(m == params.blobs) if a else None for a, m in zip(arrived, modes)],
            kind="observation",
            required=0.5,
            seeds=seeds,
        ),
    ]


def judge_sinkformer(data: Data, seeds: list[int]) -> list[Verdict]:
    """The mean grows like e^t to 1e-6 (ten steps of RK4 err by 10 dt^5/120 = 3e-8), and F is lost at the predicted
    rate to 1% (a trapezium over 0.05 errs by dt^2/12 = 2e-4 times the second derivative on the flow's time scale)."""
    beside = data["softmax_mean"]
    mean = judge_share(
        "In a Sinkformer the mean token grows exactly like e^t, since columns of attention sum to 1.",
        SOURCE + ", on Sander et al. 2022",
        [bool(v <= 1e-6) for v in data["sinkhorn_mean"]],
        seeds=seeds,
        notes=f"largest relative distance {data['sinkhorn_mean'].max():.1e}; with softmax its median is "
        f"{np.median(beside):.2g}",
    )
    energy = judge_share(
        "A Sinkformer is a gradient flow: its energy falls by exactly 2/n sum |x_i'|^2 per unit of time.",
        SOURCE + ", on Sander et al. 2022",
        [bool(v <= 0.01) for v in data["sinkhorn_energy"]],
        seeds=seeds,
        notes=f"largest relative difference {data['sinkhorn_energy'].max():.1e}",
    )
    other = judge_number(
        "Softmax attention is not: the same balance is off by at least 5%.",
        SOURCE + ", on Sander et al. 2022",
        data["softmax_energy"],
        (0.05, np.inf),
        kind="observation",
        notes=f"median difference {np.median(data['softmax_energy']):.2g}",
    )
    return [mean, energy, other]
