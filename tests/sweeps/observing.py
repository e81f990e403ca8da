"""Observables of one's own, for sweeps in tests: workers import them by name."""

import time

import numpy as np
import xarray


def mean_length(run):
    """The length of the mean token."""
    values = np.linalg.norm(run.x.mean(axis=-2), axis=-1)
    dims = ["time", *(f"run{k}" for k in range(values.ndim - 1))]
    return xarray.DataArray(values, dims=dims, coords={"time": run.t})


def fails_at_three(run):
    """An error where any beta is 3."""
    if np.any(np.asarray(run.dynamics.beta) == 3.0):
        raise ZeroDivisionError("beta is three")
    return mean_length(run)


def hangs_at_three(run):
    """An hour where any beta is 3."""
    if np.any(np.asarray(run.dynamics.beta) == 3.0):
        time.sleep(3600)
    return mean_length(run)


def slow(run):
    """A tenth of a second for every chunk."""
    time.sleep(0.1)
    return mean_length(run)
