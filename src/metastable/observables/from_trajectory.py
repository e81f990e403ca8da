"""Observables of a run: each takes a Trajectory and named options, and gives a labelled xarray.DataArray.

Axes: "time", then the run's ensemble axes "run0", "run1", ..., then the observable's own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metastable.backend import jnp
from metastable.errors import InputError
from metastable.observables import (
    attention_rank,
    clusters,
    eigenvector_projections,
    energy,
    hull,
    leaders,
    order,
    received_mass,
    similarities,
    tracking,
)
from metastable.observables.arrays import MEASURES, Bools, Floats, Run, tokens

if TYPE_CHECKING:
    import xarray

    from metastable.equation.dynamics import Dynamics


def labelled(
    run: Run, values: ArrayLike, name: str, own: Sequence[str] = (), coords: Mapping[str, Any] | None = None
) -> "xarray.DataArray":
    """``values`` (T, ..., own axes) with the run's axes named."""
    import xarray

    ensemble = [f"run{k}" for k in range(np.ndim(run.x) - 3)]
    given = {"time": np.asarray(run.t), **(coords or {})}
    return xarray.DataArray(np.asarray(values), dims=["time", *ensemble, *own], coords=given, name=name)


def _dynamics(run: Run, what: str) -> "Dynamics":
    return run.moved_by(what)


# --- clusters -----------------------------------------------------------------------------------------------


def geometry_of(run: Run) -> str:
    """By what tokens are compared: "sphere" for angles, "euclidean" for distances.

    Tokens measured in a model come without dynamics: they are compared by direction.
    """
    return "sphere" if run.dynamics is None or run.dynamics.geometry.angular else "euclidean"


def default_tolerance(run: Run, geometry: str) -> float:
    """0.01 rad on the sphere; in R^d 0.01 of the first tokens' root mean square distance from their mean."""
    if MEASURES[geometry] == "angle":
        return clusters.TOLERANCE
    x = np.asarray(run.x[0], dtype=np.float64)
    gap = x - x.mean(axis=-2, keepdims=True)
    scale = float(np.abs(gap).max(initial=0.0))
    if scale == 0.0 or not np.isfinite(scale):
        return clusters.TOLERANCE
    return clusters.TOLERANCE * scale * float(np.sqrt(((gap / scale) ** 2).sum(axis=-1).mean()))


def _measured(run: Run, tolerance: float | None, geometry: str | None) -> tuple[np.ndarray, float, str]:
    """Tokens, tolerance and geometry by which clusters of a run are found."""
    # tokens measured in a model come without dynamics: they are compared by direction
    name = geometry or geometry_of(run)
    if name not in MEASURES:
        raise InputError(f"Clusters need geometry='sphere' (angles) or 'euclidean' (distances), not {name!r}.")
    return tokens(run.x), default_tolerance(run, name) if tolerance is None else tolerance, name


def _labels(run: Run, tolerance: float | None, geometry: str | None) -> np.ndarray:
    return clusters.cluster_labels(*_measured(run, tolerance, geometry))


def _clustered(
    run: Run, values: ArrayLike, name: str, own: Sequence[str], tolerance: float | None, geometry: str | None
) -> "xarray.DataArray":
    """Labelled values that say by which tolerance clusters were found."""
    _, used, measure = _measured(run, tolerance, geometry)
    words = {"tolerance": used, "tolerance_units": "rad" if MEASURES[measure] == "angle" else "1"}
    return labelled(run, values, name, own).assign_attrs(words)


def cluster_count(run: Run, tolerance: float | None = None, geometry: str | None = None) -> "xarray.DataArray":
    """Number of clusters by single linkage."""
    values = clusters.cluster_count(*_measured(run, tolerance, geometry))
    return _clustered(run, values, "clusters", [], tolerance, geometry)


def cluster_labels(run: Run, tolerance: float | None = None, geometry: str | None = None) -> "xarray.DataArray":
    """Cluster of every token, numbered by first token at each time."""
    values = _labels(run, tolerance, geometry)
    return _clustered(run, values, "cluster_labels", ["token"], tolerance, geometry)


def cluster_sizes(run: Run, tolerance: float | None = None, geometry: str | None = None) -> "xarray.DataArray":
    """Sizes of cluster 0, 1, ..., then zeros."""
    values = clusters.sizes_of(_labels(run, tolerance, geometry))
    return _clustered(run, values, "cluster_sizes", ["cluster"], tolerance, geometry)


def cluster_identities(run: Run, tolerance: float | None = None, geometry: str | None = None) -> "xarray.DataArray":
    """Cluster of every token under names that persist through merges."""
    labels = _labels(run, tolerance, geometry)
    names = np.empty_like(labels)
    for index in np.ndindex(labels.shape[1:-1]):
        one = (slice(None), *index)
        names[one] = tracking.track(labels[one], run.t).identities
    return _clustered(run, names, "cluster_identities", ["token"], tolerance, geometry)


# --- energy -------------------------------------------------------------------------------------------------


def _over_time(run: Run, function: Callable[[float, np.ndarray, np.ndarray], Floats]) -> np.ndarray:
    """``function(t, x, form)`` at every saved time, stacked; form is Q^T K of every head at t."""
    dyn = _dynamics(run, "energy")
    w = dyn.weights
    if dyn.geometry.rescales:
        raise InputError(
            "The energy is one of the tokens x, and this run holds z = e^{-tV} x; use geometry='euclidean'."
        )
    if not dyn.score.is_dot or dyn.position is not None or not w.bilinear:
        raise InputError(
            "The energy needs the score <Q x_i, K x_j>, without positions, biases, norms of queries and keys or "
            "another score."
        )
    d = np.shape(run.x)[-1]
    return np.stack([function(float(t), x, w.score_map(float(t), d)) for t, x in zip(run.t, run.x)])


def interaction_energy(run: Run) -> "xarray.DataArray":
    """Interaction energy."""
    beta = np.asarray(_dynamics(run, "energy").beta)
    return labelled(run, _over_time(run, lambda t, x, form: energy.interaction_energy(x, beta, form)), "energy")


def log_energy(run: Run) -> "xarray.DataArray":
    """log |E|, finite at any beta."""
    beta = np.asarray(_dynamics(run, "energy").beta)
    return labelled(run, _over_time(run, lambda t, x, form: energy.log_energy(x, beta, form)), "log_energy")


def energy_rate(run: Run) -> "xarray.DataArray":
    """dE/dt along the run's own velocities, by the chain rule: right for every mask and V."""
    dyn = _dynamics(run, "energy")
    beta = np.asarray(dyn.beta)

    def rate(t: float, x: np.ndarray, form: np.ndarray) -> Floats:
        return energy.energy_rate(x, np.asarray(dyn.velocity(t, jnp.asarray(x))), beta, form)

    return labelled(run, _over_time(run, rate), "energy_rate")


# --- attention ----------------------------------------------------------------------------------------------


def _attention(run: Run, function: Callable[[Floats], np.ndarray]) -> np.ndarray:
    """``function`` of the attention (..., h, n, n) at every saved time, stacked; one in memory at once."""
    return np.stack([function(np.asarray(run.attention(k))) for k in range(len(run.t))])


def rank(run: Run, tolerance: float = 1e-3) -> "xarray.DataArray":
    """Rank of the attention at a tolerance."""
    return labelled(run, _attention(run, lambda P: attention_rank.rank(P, tolerance)), "rank", ["head"])


def effective_rank(run: Run) -> "xarray.DataArray":
    """Effective rank of the attention_rank."""
    return labelled(run, _attention(run, attention_rank.effective_rank), "effective_rank", ["head"])


def boolean_distance(run: Run) -> "xarray.DataArray":
    """Distance of the attention to one token per row."""
    return labelled(run, _attention(run, attention_rank.boolean_distance), "boolean_distance", ["head"])


def leader_tokens(run: Run, threshold: float = 0.5) -> "xarray.DataArray":
    """Which tokens hold more than a threshold of some other token's attention_rank."""
    return labelled(run, _attention(run, lambda P: leaders.is_leader(P, threshold)), "leaders", ["head", "token"])


def _visible(run: Run) -> Bools | None:
    """Which token sees which, (n, n), or None for everything: the run's mask, or what a model's attention shows."""
    n = np.shape(run.x)[-2]
    index = np.arange(n)
    if run.dynamics is None:
        ahead = np.asarray(run.attention(0))[..., ~np.tri(n, dtype=np.bool_)]
        return np.tri(n, dtype=np.bool_) if n > 1 and not ahead.any() else None
    if run.dynamics.mask.by_time is not None:
        raise InputError("Sinks are counted among the tokens that one mask shows; this run's changes with the layer.")
    seen = run.dynamics.mask.rows(index, n)
    return None if seen is None else np.asarray(seen, dtype=np.bool_)


def mean_received(run: Run, per: str = "viewer") -> "xarray.DataArray":
    """Mean attention every token receives, with the position baseline as the coordinate "baseline"."""
    seen = _visible(run)
    baseline = received_mass.sink_baseline(np.shape(run.x)[-2], seen, per)
    values = _attention(run, lambda P: received_mass.sink_mass(P, seen, per))
    return labelled(run, values, "sinks", ["head", "token"], {"baseline": ("token", baseline)})


def sink_baseline(run: Run, per: str = "viewer") -> "xarray.DataArray":
    """What uniform attention over the visible tokens would give every token."""
    one = received_mass.sink_baseline(np.shape(run.x)[-2], _visible(run), per)
    return labelled(run, np.broadcast_to(one, np.shape(run.x)[:-1]), "sinks_baseline", ["token"])


# --- positions ----------------------------------------------------------------------------------------------


def similarity_histogram(run: Run, bins: int = 100, kind: str = "cosine") -> "xarray.DataArray":
    """Histogram of pairwise similarities, i < j."""
    counts, edges = similarities.similarity_histogram(run.x, bins, kind)
    return labelled(run, counts, "similarity", ["bin"], {"bin": (edges[:-1] + edges[1:]) / 2.0})


def similarity_share(run: Run, above: float = 0.999) -> "xarray.DataArray":
    """Share of pairs whose cosine exceeds ``above``: the published phase diagram's measure."""
    return labelled(run, similarities.similarity_share(tokens(run.x), above), "similarity_share")


def order_parameter(run: Run) -> "xarray.DataArray":
    """Length of the mean token."""
    return labelled(run, order.order_parameter(run.x), "order")


def hull_count(run: Run, tolerance: float = 0.0) -> "xarray.DataArray":
    """Number of vertices of the convex hull; vertices within ``tolerance`` of each other count as one."""
    return labelled(run, hull.hull_count(run.x, tolerance), "hull")


def hull_growth(run: Run) -> "xarray.DataArray":
    """How far any later token gets outside the hull of each time."""
    return labelled(run, hull.hull_growth(run.x), "hull_growth")


def _value(run: Run, head: int) -> np.ndarray:
    """V of one head, which must not change with time: its eigenvectors are the axes of the answer."""
    d, w = np.shape(run.x)[-1], _dynamics(run, "value matrix V").weights
    V = np.asarray(w.value_map(float(run.t[0]), d))  # (h, d, d)
    if not -len(V) <= head < len(V):
        raise InputError(f"There is no head {head}: the run has {len(V)}, counted from 0.")
    if any(not np.array_equal(V, w.value_map(float(t), d)) for t in run.t[1:]):
        raise InputError("V changes with time, so it has no fixed eigenvectors; use `projections` per layer.")
    return np.asarray(V[head])


def _coordinates(run: Run, V: np.ndarray) -> Floats:
    """Projections (T, ..., n, d): from the run's own chart where it has one, for z has lost small coordinates."""
    values, directions = eigenvector_projections.left_eigenvectors(V)
    if getattr(run, "chart", None) is not None:
        zeta, own, left = run.coordinates()
        turn = np.linalg.solve(left.T, directions.T).T  # directions = turn @ left
        same = np.abs(values[:, None] - own) < 1e-6 * np.abs(values).max()
        pair = np.abs(values[:, None] - np.conj(own)) < 1e-6 * np.abs(values).max()
        turn = np.where(same | pair, turn, 0.0)  # rounding must not let a growing coordinate into another
        if np.abs(turn @ left - directions).max() < 1e-9:
            return np.asarray(zeta @ turn.T)
    return eigenvector_projections.projections(run.x, V)


def _directions(V: np.ndarray) -> dict[str, Any]:
    return {"eigenvalue": ("direction", eigenvector_projections.left_eigenvectors(V)[0])}


def hyperplane_coordinates(run: Run, head: int = 0) -> "xarray.DataArray":
    """Tokens projected on the left eigenvectors of V, leading first."""
    V = _value(run, head)
    return labelled(run, _coordinates(run, V), "hyperplanes", ["token", "direction"], _directions(V))


def hyperplane_counts(run: Run, tolerance: float | None = None, head: int = 0) -> "xarray.DataArray":
    """Number of distinct values of each hyperplane coordinate."""
    V = _value(run, head)
    gap = default_tolerance(run, "euclidean") if tolerance is None else tolerance
    values = np.swapaxes(_coordinates(run, V), -1, -2)  # (T, ..., d, n)
    return labelled(
        run, eigenvector_projections.distinct_values(values, gap), "hyperplane_counts", ["direction"], _directions(V)
    )
