"""Fig. 7 of the first paper: particles moved by the three leading eigenvalues of a model's head."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import expm

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights, from_eigenvalues
from metastable.errors import InputError
from metastable.experiments import model_access
from metastable.experiments.base import Data, Experiment, Figures, Films, Work
from metastable.initial import sphere
from metastable.models.folding import linear
from metastable.models.spectra import ov_eigenvalues, value_block_eigenvalues
from metastable.observables import cluster_count
from metastable.plots import series, snapshots
from metastable.solve.simulate import simulate
from metastable.theory.verdicts import Verdict, judge_share
from metastable.trajectory import Trajectory

SOURCE = "first paper, sec. 4.2.4 and Fig. 7"
CLAIM = "Tokens moved by a head's leading eigenvalues reach a metastable state"
DOT = 0.05  # radians: closer tokens look like one dot
READINGS = ("O V", "the value block")


@dataclass(frozen=True)
class Params:
    """Fig. 7's setting: n = 64, d = 3, beta = 1, causal attention, Q = K = I, the head's three leading eigenvalues."""

    model: str = model_access.ZOO
    layer: int = 0
    head: int = 4
    top: int = 3
    n: int = 64
    beta: float = 1.0
    dt: float = 0.1
    snapshots: tuple[float, ...] = (1.0, 3.0, 6.0, 15.0)
    instances: int = 200
    seed: int = 0


def leading(values: np.ndarray, top: int) -> np.ndarray:
    """The ``top`` leading eigenvalues that make a real matrix: conjugate pairs stay together.

    >>> leading(np.array([-3.0, 1 + 2j, 1 - 2j, 0.5]), 2)
    array([-3. +0.j,  0.5+0.j])
    """
    chosen: list[complex] = []
    for value in values[values.imag >= 0.0]:
        pair = [complex(value)] if value.imag == 0.0 else [complex(value), complex(value.conjugate())]
        if len(chosen) + len(pair) <= top:
            chosen += pair
    if len(chosen) < top:
        raise InputError(f"This head has no {top} leading eigenvalues that make a real matrix; try top={top - 1}.")
    return np.array(chosen)


def run(params: Params, work: Work) -> Data:
    block = model_access.model_of(params.model).block(params.layer)
    if not 0 <= params.head < block.heads:
        raise InputError(f"{params.model!r} has heads 0 to {block.heads - 1}, not {params.head}.")
    found = (ov_eigenvalues(linear(block), params.head)[0], value_block_eigenvalues(block, params.head))
    chosen = np.stack([leading(values, params.top) for values in found])  # (2, top)
    times = np.unique(np.concatenate([np.linspace(0.0, params.snapshots[-1], 61), params.snapshots]))

    def chunk(first: int, last: int) -> Data:
        tokens = np.stack([sphere(params.n, params.top, seed=params.seed + k) for k in range(first, last)])
        data: dict[str, list[np.ndarray]] = {"count": [], "alone": [], "path": [], "shown": []}
        for values in chosen:
            dynamics = [_dynamics(params, values)] * len(tokens)
            runs = simulate(dynamics, tokens, params.snapshots[-1], params.dt, save=times)
            x = np.stack([one.x for one in runs])  # (b, T, n, d)
            data["count"].append(cluster_count(x, DOT))
            data["alone"].append(_nearest_to_first(x[:, -1]))
            data["path"].append(_off_path(x, values, times))
            data["shown"].append(x[:1] if first == 0 else x[:0])
        return {key: np.stack(parts, axis=1) for key, parts in data.items()}  # (b, 2, ...)

    data = work.parts("runs", params.instances, min(50, params.instances), chunk)
    return {**data, "eigenvalues": chosen, "t": times}


def _dynamics(params: Params, values: np.ndarray) -> Dynamics:
    return Dynamics(Weights(V=from_eigenvalues([complex(v) for v in values])), beta=params.beta, mask="causal")


def _nearest_to_first(x: np.ndarray) -> np.ndarray:
    """The angle (b,) from the first token to the nearest other one, x (b, n, d)."""
    gap = np.linalg.norm(x[:, 1:] - x[:, :1], axis=-1)
    return np.asarray(2.0 * np.arcsin(np.minimum(1.0, gap / 2.0)).min(axis=1))


def _off_path(x: np.ndarray, values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Greatest distance (b,) of the first token from e^{tV} x_1(0), made a unit vector: its exact path."""
    V = from_eigenvalues([complex(v) for v in values])
    exact = np.stack([expm(t * V) @ x[:, 0, 0].T for t in times])  # (T, d, b)
    exact = (exact / np.linalg.norm(exact, axis=1, keepdims=True)).transpose(2, 0, 1)
    return np.asarray(np.linalg.norm(x[:, :, 0] - exact, axis=-1).max(axis=1))


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    if model_access.SKIPPED in data:
        return model_access.skipped(CLAIM, SOURCE, data)
    verdicts = [_metastable(params, data, r) for r in (0, 1)]
    verdicts += [_apart(params, data, r) for r in (0, 1)]
    return [*verdicts, _first_path(params, data)]


def _metastable(params: Params, data: Data, reading: int) -> Verdict:
    """By the third snapshot there are clusters, and their number stays to the last one.

    Tokens count as one cluster when a chain of links of at most DOT joins them, as they do to the eye. There are
    clusters when there are at most half as many as tokens. One picture is published and called typical: a share of at
    least 1/2.
    """
    t, counts = data["t"], data["count"][:, reading]  # (b, T)
    early, late = (counts[:, int(np.abs(t - when).argmin())] for when in params.snapshots[-2:])
    clustered = early <= params.n / 2
    return judge_share(
        f"{CLAIM} by t = {params.snapshots[-2]:g} that persists to t = {params.snapshots[-1]:g}: "
        f"eigenvalues {_words(data['eigenvalues'][reading])} of {READINGS[reading]} ({_where(params)}).",
        SOURCE,
        [bool(c and a == b) for c, a, b in zip(clustered, early, late)],
        kind="observation",
        required=0.5,
        seeds=[params.seed + k for k in range(len(counts))],
        notes=f"clusters of {params.n} tokens: mean {early.mean():.1f} at t = {params.snapshots[-2]:g}, "
        f"{late.mean():.1f} at t = {params.snapshots[-1]:g}; {clustered.mean():.0%} of starts are clustered by then",
    )


def _apart(params: Params, data: Data, reading: int) -> Verdict:
    """The first token ends apart from all others: farther than DOT from each, in most starts."""
    alone = data["alone"][:, reading]
    return judge_share(
        f"At t = {params.snapshots[-1]:g} the first token is apart from the others, with eigenvalues of "
        f"{READINGS[reading]} ({params.model}, head {params.head}).",
        SOURCE,
        [bool(a > DOT) for a in alone],
        kind="observation",
        required=0.5,
        seeds=[params.seed + k for k in range(len(alone))],
        notes=f"median angle to the nearest other token {np.median(alone):.2f}; apart means more than {DOT:g} rad",
    )


def _first_path(params: Params, data: Data) -> Verdict:
    """An exact solution: the first token moves as e^{tV} x_1(0), made a unit vector.

    RK4 of step h errs by about h^4/120 times the fifth derivative of the path, of order |V|^5 with |V| the largest
    eigenvalue, over t |V| relaxation times. Allowed: ten times h^4 max(|V|, |V|^5), and never less than rounding.
    """
    size = float(np.abs(data["eigenvalues"]).max())
    allowed = max(10.0 * params.dt**4 * max(size, size**5), 1e-10)
    worst = data["path"].max(axis=1)
    return judge_share(
        "The first token moves as e^{tV} x_1(0), made a unit vector.",
        "first paper, eq. (3): under a causal mask the first token sees itself alone",
        [bool(w <= allowed) for w in worst],
        seeds=[params.seed + k for k in range(len(worst))],
        notes=f"greatest distance {worst.max():.1e}, allowed {allowed:.1e}",
    )


def _where(params: Params) -> str:
    return f"{params.model}, head {params.head}"


def _words(values: np.ndarray) -> str:
    return ", ".join(f"{v.real:.2f}" if v.imag == 0 else f"{v.real:.2f}{v.imag:+.2f}i" for v in values)


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    if model_access.SKIPPED in data:
        return {}

    figures: Figures = {}
    for r, reading in enumerate(READINGS):
        name = (
            f"Fig. 7 on {params.model}, head {params.head}: {_words(data['eigenvalues'][r])}, eigenvalues of {reading}"
        )
        figures[name] = snapshots(data["shown"][0, r], data["t"], times=params.snapshots, first="red")
    counts = data["count"].astype(float)  # (b, 2, T)
    lines = {reading: np.median(counts[:, r], axis=0) for r, reading in enumerate(READINGS)}
    bands = {reading: tuple(np.quantile(counts[:, r], [0.25, 0.75], axis=0)) for r, reading in enumerate(READINGS)}
    figures["Clusters over time: median and quartiles over starts"] = series(
        data["t"], lines, band=bands, ylabel=f"clusters of {params.n} tokens", yscale="log"
    )
    return figures


def films(params: Params, data: Data) -> Films:
    if model_access.SKIPPED in data:
        return {}
    shown = Trajectory(data["t"], data["shown"][0, 0], _dynamics(params, data["eigenvalues"][0]))
    return {"Fig. 7 as a film: eigenvalues of O V": {"tokens": shown, "first": "red"}}


EXPERIMENT = Experiment(
    name="model-eigenvalues",
    title="Particles moved by a real model's leading eigenvalues",
    source=SOURCE,
    figures="Fig. 7",
    params=Params,
    run=model_access.or_skip(run),
    judge=judge,
    draw=draw,
    quick={"instances": 20},
    full={"instances": 2000},
    films=films,
    text="Tokens uniform on the sphere, causal attention with Q = K = I, V diagonal (2 x 2 blocks for complex pairs) "
    "with three leading eigenvalues of one head. The paper does not say which head, nor whether they are those of the "
    "map O V that moves tokens or of the square value block; both are run. The first token is red.",
)
