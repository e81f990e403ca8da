"""What the panels beside the scene show, computed with the run: series over time, similarities, spectrum, theory."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metastable.errors import InputError
from metastable.explorer.theory_panel import theory_of
from metastable.observables import similarity_histogram
from metastable.observables.tracking import plateaus
from metastable.trajectory import Trajectory

BINS = 48
PAIRS = 2e8  # pairs of tokens that the panels look at
SERIES = {"energy": "log_energy", "order": "order", "clusters_fine": "clusters"}


def panels_of(
    run: Trajectory, of: int = 0, check: Callable[[], None] = lambda: None
) -> tuple[dict[str, Any], NDArray[np.float64] | None]:
    """Arrays and plain values for the panels (see `pack`), and the segments of the predicted limit.

    ``check`` is called between them: it raises where nobody waits any more.
    """
    one = single(run, of)
    extra: dict[str, Any] = {}
    few = _some_states(one)
    extra["panel_t"] = np.asarray(few.t, dtype=float)
    why: dict[str, str] = {}
    for name, observable in SERIES.items():
        check()
        try:
            extra[f"panel_{name}"] = np.asarray(few.observe(observable).values, dtype=float)
        except InputError as error:
            why[name] = str(error)
    check()
    try:
        counts, edges = similarity_histogram(few.x, BINS)
        extra["panel_similarity"] = np.asarray(counts, dtype=float) / max(1.0, float(np.asarray(counts[0]).sum()))
        extra["similarity_range"] = [float(edges[0]), float(edges[-1])]
    except InputError as error:  # one token has no pairs, a token at 0 no direction: the rest is shown
        why["similarity"] = str(error)
    if "panel_clusters_fine" in extra:
        found = plateaus(extra["panel_clusters_fine"].astype(int), few.t)
        longest = sorted(found, key=lambda p: -p.duration)[:4]
        extra["plateaus"] = [[p.count, p.start, p.end] for p in longest if p.duration > 0]
    extra["spectrum"] = _spectrum(one)
    extra["why"] = why
    check()
    theory = theory_of(one)
    check()
    extra["theory"] = theory.facts
    if theory.distances is not None:
        extra["panel_limit"] = theory.distances
        extra["panel_limit_t"] = theory.times
    return extra, theory.segments


def single(run: Trajectory, of: int = 0) -> Trajectory:
    """One run of an ensemble, as a run of its own."""
    if not run.runs:
        return run
    flat = run.x.reshape(run.x.shape[0], -1, *run.x.shape[-2:])
    return Trajectory(run.t, flat[:, of], None if run.chart is not None else run.dynamics, run.status, run.message)


def _some_states(run: Trajectory) -> Trajectory:
    n = run.x.shape[-2]
    most = int(max(2, min(len(run.t), PAIRS // max(1, n * n))))
    finite = np.flatnonzero(np.isfinite(run.x).all(axis=(1, 2)))
    kept = finite[np.unique(np.linspace(0, len(finite) - 1, min(most, len(finite))).round().astype(int))]
    return Trajectory(run.t[kept], run.x[kept], run.dynamics, provenance=run.provenance)


def _spectrum(run: Trajectory) -> list[list[float]]:
    """Eigenvalues of V of every head, as pairs of numbers."""
    if run.dynamics is None:
        return []
    V = np.asarray(run.dynamics.weights.value_map(float(run.t[0]), run.x.shape[-1]))  # (h, d, d)
    values = np.linalg.eigvals(V).ravel()[:512]
    return [[float(v.real), float(v.imag)] for v in values]
