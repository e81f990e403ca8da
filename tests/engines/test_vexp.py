"""The vectorised exponential against NumPy's."""

import numpy as np
import pytest

from metastable.engines.simd.exponential import vexp


def ulps(got, x):
    true = np.exp(x.astype(np.longdouble))
    return np.abs(got - true) / np.spacing(true.astype(got.dtype))


@pytest.mark.parametrize(("dtype", "low", "high"), [(np.float64, -708.3, 709.7), (np.float32, -87.3, 88.7)])
def test_vexp_is_within_two_units_in_the_last_place(dtype, low, high):
    x = np.concatenate([np.linspace(low, high, 20_001), np.linspace(-1, 1, 9_999), -np.logspace(-30, 1, 999)])
    x = x.astype(dtype)
    got = vexp(x)
    assert got.dtype == dtype
    assert ulps(got, x).max() < 2


def test_vexp_at_the_ends_of_the_range():
    x = np.array([0.0, -0.0, -np.inf, np.inf, -745.2, -1e300, 709.8, 1e300, 5e-324])
    assert vexp(x).tolist() == [1.0, 1.0, 0.0, np.inf, 0.0, 0.0, np.inf, np.inf, 1.0]
    assert np.isnan(vexp(np.array([np.nan]))).all()
    single = np.array([0.0, -np.inf, np.inf, -104.0, 89.0], np.float32)
    assert vexp(single).tolist() == [1.0, 0.0, np.inf, 0.0, np.inf]


def test_vexp_keeps_shapes():
    assert vexp(np.zeros((3, 5))).shape == (3, 5)
    assert vexp(np.zeros(0)).shape == (0,)
    assert vexp(np.float64(1.0)).shape == ()
