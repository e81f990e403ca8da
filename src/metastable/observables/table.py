"""The table of observables by name. Add one: a function of a run in `from_trajectory.py` and a line here."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.errors import InputError, door, unknown
from metastable.observables import from_trajectory
from metastable.observables.arrays import Run

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Observable:
    """Something to measure on a run: ``function(run, **named options)`` gives an xarray.DataArray.

    ``dims`` are its own axes, which follow "time" and the run's ensemble axes; ``units`` is "1" for plain numbers.
    """

    name: str
    measures: str
    dims: tuple[str, ...]
    function: Callable[..., "xarray.DataArray"] = field(repr=False)
    units: str = "1"

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


def observe(run: Run, name: Any, **options: Any) -> Any:
    """Measure ``name`` on a run; what `Trajectory.observe` calls.

    Parameters
    ----------
    run : Trajectory
    name : str, Observable or function of the run
        For an ``xarray.DataArray``; a list of names, or a dict from names of one's own to any of these, for an
        ``xarray.Dataset``.
    **options
        Those of the observable's function.

    Examples
    --------
    >>> OBSERVABLES["rank"].options
    ('tolerance',)
    """
    import xarray

    if isinstance(name, (list, tuple)):
        name = {_name_of(entry): entry for entry in name}
    if not isinstance(name, Mapping):
        return _described(run, name, _measured(run, name, options), options)
    if options:
        raise InputError(
            f"Options belong to one observable, but several were asked for; leave out {', '.join(options)}."
        )
    found = {str(key): observe(run, entry) for key, entry in name.items()}
    return xarray.Dataset(found)


def find(name: str) -> Observable:
    """The observable of this name, or the sentence that there is none."""
    if not isinstance(name, str):
        raise InputError(f"An observable is a name or a function of the run, not {type(name).__name__}.")
    if name not in OBSERVABLES:
        raise unknown("observable", name, OBSERVABLES)
    return OBSERVABLES[name]


def _measured(run: Run, name: Any, options: dict[str, Any]) -> "xarray.DataArray":
    entry = name if isinstance(name, Observable) else None if callable(name) else find(name)
    if entry is None:
        return own_array(run, name, options)
    for option in options:
        if option not in entry.options:
            if not entry.options:
                raise InputError(f"The observable {entry.name!r} takes no options, but {option!r} was given.")
            raise unknown(f"option of {entry.name}", option, entry.options)
    return door(entry.function)(run, **options)


def own_array(
    run: Run, function: Callable[..., Any], options: Mapping[str, Any] = MappingProxyType({})
) -> "xarray.DataArray":
    """What a function of one's own says of a run, with the run's axes named."""
    import xarray

    name = _name_of(function)
    try:
        values = function(run, **options)
    except InputError:
        raise
    except Exception as error:  # whatever a function of the user's own may raise
        raise InputError(f"The observable {name!r} could not be computed: {type(error).__name__}: {error}.") from error
    if isinstance(values, xarray.DataArray):
        return values
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"The observable {name!r} must return an array, not {type(values).__name__}.") from error
    lead = np.shape(run.x)[:-2]  # times, ensemble
    if array.dtype.kind not in "biufc" or array.shape[: len(lead)] != lead:
        raise InputError(
            f"The observable {name!r} must return one value, or one array, for every saved time and run: an array that "
            f"begins with the axes {lead}; what it returned has shape {array.shape}."
        )
    n, rest = np.shape(run.x)[-2], array.shape[len(lead) :]
    own = ["token" if size == n and k == 0 else f"{name}_axis{k}" for k, size in enumerate(rest)]
    return from_trajectory.labelled(run, array, name, own)


def _name_of(entry: Any) -> str:
    if isinstance(entry, str):
        return entry
    name = str(getattr(entry, "name", None) or getattr(entry, "__name__", "observable"))
    return name if name.isidentifier() else "observable"


def _described(run: Run, name: Any, data: "xarray.DataArray", options: dict[str, Any]) -> "xarray.DataArray":
    """Units, words for axes, and the parameters of the run as coordinates: what a figure or a table needs to say."""
    entry = name if isinstance(name, Observable) else OBSERVABLES.get(name) if isinstance(name, str) else None
    words = {} if entry is None else {"long_name": entry.measures, "units": entry.units}
    words.setdefault("long_name", str(data.name or "observable").replace("_", " "))
    plain = {key: value for key, value in options.items() if isinstance(value, (str, int, float))}
    data = data.assign_attrs({**words, **plain, **data.attrs})
    if "time" in data.coords:
        clock = "layer" if getattr(run, "provenance", {}).get("discrete") else "time"
        data["time"].attrs.update(long_name=clock, units="1")
    axes = [f"run{k}" for k in range(np.ndim(run.x) - 3)]
    known: dict[str, Any] = getattr(run, "parameters", dict)()
    for key, value in known.items():
        if key in data.coords or key in data.dims or key == data.name:
            continue
        if np.ndim(value) == 0:
            data = data.assign_coords({key: value})
        elif set(axes) <= set(data.dims):
            data = data.assign_coords({key: (axes, np.broadcast_to(np.asarray(value), np.shape(run.x)[1:-2]))})
    return data
