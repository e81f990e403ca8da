"""The table of observables by name. Add one: a function of a run in `from_trajectory.py` and a line here."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metastable.errors import InputError, unknown
from metastable.observables import from_trajectory
from metastable.observables.arrays import Run

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Observable:
    """Something to measure on a run: ``function(run, **named options)`` gives an xarray.DataArray.

    ``dims`` are its own axes, which follow "time" and the run's ensemble axes.
    """

    name: str
    measures: str
    dims: tuple[str, ...]
    function: Callable[..., "xarray.DataArray"]

    @property
    def options(self) -> tuple[str, ...]:
        """The names of its options."""
        return tuple(inspect.signature(self.function).parameters)[1:]


_ALL = (
    Observable("clusters", "number of clusters by single linkage", (), from_trajectory.cluster_count),
    Observable("cluster_labels", "cluster of every token", ("token",), from_trajectory.cluster_labels),
    Observable("cluster_sizes", "sizes of the clusters, then zeros", ("cluster",), from_trajectory.cluster_sizes),
    Observable(
        "cluster_identities",
        "cluster names that persist through merges",
        ("token",),
        from_trajectory.cluster_identities,
    ),
    Observable("energy", "interaction energy", (), from_trajectory.interaction_energy),
    Observable("log_energy", "logarithm of |energy|, finite at any beta", (), from_trajectory.log_energy),
    Observable("energy_rate", "exact rate of change of the energy", (), from_trajectory.energy_rate),
    Observable("rank", "rank of the attention at a tolerance", ("head",), from_trajectory.rank),
    Observable(
        "effective_rank", "exp entropy of the attention's singular values", ("head",), from_trajectory.effective_rank
    ),
    Observable(
        "boolean_distance",
        "distance of the attention to one token per row",
        ("head",),
        from_trajectory.boolean_distance,
    ),
    Observable("leaders", "tokens that hold another's attention", ("head", "token"), from_trajectory.leader_tokens),
    Observable("sinks", "mean attention received, with its baseline", ("head", "token"), from_trajectory.mean_received),
    Observable(
        "sinks_baseline", "attention received under uniform attention", ("token",), from_trajectory.sink_baseline
    ),
    Observable(
        "similarity", "histogram of pairwise similarities, i < j", ("bin",), from_trajectory.similarity_histogram
    ),
    Observable("similarity_share", "share of pairs with a cosine above a limit", (), from_trajectory.similarity_share),
    Observable("order", "length of the mean token", (), from_trajectory.order_parameter),
    Observable("hull", "number of vertices of the convex hull", (), from_trajectory.hull_count),
    Observable("hull_growth", "how far later tokens leave the hull", (), from_trajectory.hull_growth),
    Observable(
        "hyperplanes",
        "projections on the left eigenvectors of V",
        ("token", "direction"),
        from_trajectory.hyperplane_coordinates,
    ),
    Observable(
        "hyperplane_counts", "distinct values of each projection", ("direction",), from_trajectory.hyperplane_counts
    ),
)

OBSERVABLES: dict[str, Observable] = {entry.name: entry for entry in _ALL}


def observe(run: Run, name: "str | Observable | Callable[..., xarray.DataArray]", **options: Any) -> "xarray.DataArray":
    """Measure ``name`` on a run; what `Trajectory.observe` calls.

    Examples
    --------
    >>> OBSERVABLES["rank"].options
    ('tolerance',)
    """
    if isinstance(name, Observable):
        return name.function(run, **options)
    if callable(name):
        return name(run, **options)
    if name not in OBSERVABLES:
        raise unknown("observable", name, OBSERVABLES)
    entry = OBSERVABLES[name]
    for option in options:
        if option not in entry.options:
            if not entry.options:
                raise InputError(f"The observable {name!r} takes no options, but {option!r} was given.")
            raise unknown(f"option of {name!r}", option, entry.options)
    return entry.function(run, **options)
