"""The runs of the experiment phase-diagram: maps over (beta, t) by mask, normalisation and V; self-check."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Work
from metastable.experiments.second_token import angle_to_first
from metastable.initial import sphere
from metastable.solve.observe import observe_many
from metastable.solve.simulate import simulate

MET = 0.999  # cosine from which on a pair counts as clustered
ATTENTIONS = ("softmax", "unnormalised")
MASKS, VALUES = ("full", "causal"), ("identity", "minus identity", "random")
LETTERS = ("I", "-I", "random")
MAPS = [(mask, value) for mask in range(2) for value in range(3)]


@dataclass(frozen=True)
class Params:
    """The published setting in small; ``usa_`` is for unnormalised attention, whose rates grow like e^beta."""

    n: int = 32
    dims: tuple[int, ...] = (2, 8, 32, 128)
    betas: tuple[float, ...] = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
    t: float = 30.0
    dt: float = 0.1
    usa_betas: tuple[float, ...] = (0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
    usa_t: float = 6.0
    usa_dt: float = 0.02
    times: int = 31
    instances: int = 24
    others: int = 4  # instances of the maps without a law
    usa_others: int = 1  # 0: those of unnormalised attention are left out
    seed: int = 0

    @property
    def mapped(self) -> range:
        """The attentions of which there are all maps."""
        return range(2 if self.usa_others else 1)


def grid(params: Params, attention: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Betas, times and step of one attention."""
    if attention == 0:
        return np.array(params.betas), np.linspace(0.0, params.t, params.times), params.dt
    return np.array(params.usa_betas), np.linspace(0.0, params.usa_t, params.times), params.usa_dt


def weights(value: int, d: int, seed: int) -> Weights:
    """V = I, -I, or a random matrix of unit spectral radius as d grows."""
    if value == 0:
        return Weights()
    return Weights(
        V=-np.eye(d) if value == 1 else np.random.default_rng([seed, 7]).standard_normal((d, d)) / np.sqrt(d)
    )


def mean_cosine(run: Any) -> xarray.DataArray:
    """Mean cosine of pairs i < j: (|sum x|^2 - n)/(n (n-1))."""
    n = run.x.shape[-2]
    return _labelled(run, (np.square(run.x.sum(axis=-2)).sum(axis=-1) - n) / (n * (n - 1)))


def _labelled(run: Any, values: np.ndarray) -> xarray.DataArray:
    return xarray.DataArray(values, dims=["time", *(f"run{k}" for k in range(values.ndim - 1))], coords={"time": run.t})


MEASURES = {
    "share": lambda run: run.observe("similarity_share", above=MET),
    "clusters": lambda run: run.observe("clusters", tolerance=0.05),
    "cosine": mean_cosine,
    "first": lambda run: _labelled(run, run.x[..., 0, 0]),  # first coordinate of token 1
    "pair": lambda run: _labelled(run, angle_to_first(run.x)),  # angle between tokens 1 and 2
}


def diagram(params: Params, d: int, attention: int, mask: int, value: int, first: int, last: int) -> Data:
    """Measures of some instances at every beta and time, (instances, betas, times) each."""
    betas, times, dt = grid(params, attention)
    seeds = [params.seed + k for k in range(first, last)]
    x0 = np.repeat(np.stack([sphere(params.n, d, seed=s) for s in seeds]), len(betas), axis=0)
    kind: dict[str, Any] = {"normalise": ATTENTIONS[attention], "mask": MASKS[mask]}
    if value < 2:
        dynamics: Any = Dynamics(weights(value, d, 0), beta=np.tile(betas, len(seeds)), **kind)
    else:
        dynamics = [Dynamics(weights(value, d, s), beta=float(b), **kind) for s in seeds for b in betas]
    data = observe_many(dynamics, x0, MEASURES, t=float(times[-1]), dt=dt, save=times)
    shape = (len(times), len(seeds), len(betas))
    return {name: np.moveaxis(np.asarray(data[name].values, dtype=float).reshape(shape), 0, 2) for name in MEASURES}


def key(d: int, attention: int, mask: int, value: int) -> str:
    return f"d{d}-{ATTENTIONS[attention]}-{MASKS[mask]}-{VALUES[value].replace(' ', '-')}"


def run(params: Params, work: Work) -> Data:
    found: Data = {}
    for d in params.dims:
        for attention in range(2):
            for mask, value in MAPS if attention in params.mapped else [(0, 0)]:
                name, law = key(d, attention, mask, value), mask == value == 0
                count = params.instances if law else min(params.others, params.instances)
                part = work.parts(name, count, 24, partial(diagram, params, d, attention, mask, value))
                found |= {f"{name} {measure}": values for measure, values in part.items()}
    return found


def check(params: Params) -> dict[str, Check]:
    """Both attentions, both masks and a random V on one small start."""
    x, eye = sphere(5, 3, seed=1), np.eye(3)
    found: dict[str, Check] = {}
    for attention, mask, value in ((0, 0, 0), (0, 1, 2), (1, 0, 0), (1, 1, 1)):
        W = weights(value, 3, 1)
        V = eye if W.V is None else np.asarray(W.V).reshape(3, 3)
        dyn = Dynamics(W, beta=2.0, normalise=ATTENTIONS[attention], mask=MASKS[mask])
        own = simulate(dyn, x, 0.5, 0.005, save=[0.5]).x[-1]

        def field(t: float, y: np.ndarray, a: int = attention, m: int = mask, V: np.ndarray = V) -> np.ndarray:
            if a == 0:
                return plain.projected(y, plain.pull(y, eye, eye, V, 2.0, bool(m)))
            seen = np.tri(len(y)) if m else np.ones((len(y), len(y)))
            weight = np.exp(2.0 * y @ y.T) * seen / seen.sum(axis=1, keepdims=True)
            return plain.projected(y, weight @ (y @ V.T))

        found[f"tokens, {ATTENTIONS[attention]}, {MASKS[mask]}"] = (own, plain.moved(field, x, 0.5, 400), 1e-7)
    return found
