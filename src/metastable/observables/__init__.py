"""Observables: short functions of arrays, and a table of them for runs.

Tokens are x (..., n, d), attention is P (..., n, n) with heads among the leading axes; leading axes stay.
`OBSERVABLES` names what `Trajectory.observe` can measure.
"""

from metastable.errors import doors
from metastable.observables.attention_rank import boolean_distance, effective_rank, rank
from metastable.observables.clusters import cluster_count, cluster_labels, cluster_sizes, count_of, sizes_of
from metastable.observables.eigenvector_projections import (
    distinct_values,
    hyperplane_counts,
    left_eigenvectors,
    projections,
)
from metastable.observables.energy import (
    dissipation,
    energy_maximum,
    energy_rate,
    interaction_energy,
    log_energy,
)
from metastable.observables.hull import (
    Hull,
    convex_hull,
    hull_count,
    hull_growth,
    hull_vertices,
    hull_volume,
)
from metastable.observables.leaders import (
    followers,
    is_leader,
    received,
    renyi_centers,
    strong_renyi_centers,
)
from metastable.observables.order import order_parameter
from metastable.observables.received_mass import sink_baseline, sink_mass
from metastable.observables.similarities import similarity_histogram, similarity_mean, similarity_share
from metastable.observables.table import OBSERVABLES, Observable, observe
from metastable.observables.tracking import Event, Plateau, Tracks, plateaus, track

__all__ = [
    "OBSERVABLES",
    "Event",
    "Hull",
    "Observable",
    "Plateau",
    "Tracks",
    "boolean_distance",
    "cluster_count",
    "cluster_labels",
    "cluster_sizes",
    "convex_hull",
    "count_of",
    "dissipation",
    "distinct_values",
    "effective_rank",
    "energy_maximum",
    "energy_rate",
    "followers",
    "hull_count",
    "hull_growth",
    "hull_vertices",
    "hull_volume",
    "hyperplane_counts",
    "interaction_energy",
    "is_leader",
    "left_eigenvectors",
    "log_energy",
    "observe",
    "order_parameter",
    "plateaus",
    "projections",
    "rank",
    "received",
    "renyi_centers",
    "similarity_histogram",
    "similarity_mean",
    "similarity_share",
    "sink_baseline",
    "sink_mass",
    "sizes_of",
    "strong_renyi_centers",
    "track",
]

doors(globals())
