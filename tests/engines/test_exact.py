"""Exact sums against the whole matrix in extended precision."""

import itertools

import numpy as np
import pytest

from metastable.engines import calibrate
from metastable.engines.exact import passes
from metastable.engines.exact.sums import exact as summed
from metastable.engines.exact.task import Task
from metastable.errors import InputError
from tests.engines.conftest import cloud, dense
from tests.engines.named_masks import exact, reach

MASKS = ["full", "causal", "window(3)", "window(20, causal)"]


SHAPES = [(1, 3, 3), (2, 2, 2), (7, 3, 2), (200, 3, 3), (65, 1, 1), (130, 5, 7), (70, 64, 64), (140, 17, 1)]


@pytest.mark.parametrize(
    "normalise", ["softmax", *(pytest.param(n, marks=pytest.mark.slow) for n in ("unnormalised", "hardmax"))]
)
@pytest.mark.parametrize(("n", "d", "v"), SHAPES)
def test_any_shape_mask_and_weights_in_float64(n, d, v, normalise, rng):
    k, values = rng.normal(size=(n, d)), rng.normal(size=(n, v))
    for mask, beta, weighted in itertools.product(MASKS, (0.1, -4.0, 30.0), (False, True)):
        q = k if mask == "full" else rng.normal(size=(n, d))
        q = q / np.sqrt(d)
        w = rng.uniform(0.1, 3, n) if weighted else None
        got = exact(q, k, values, beta, normalise=normalise, mask=mask, weights=w)
        value, log_z = dense(q, k, values, beta, normalise, mask, w)
        assert np.abs(got.value - value).max() <= 2e-13 * np.abs(value).max()
        assert np.abs(got.log_z - log_z).max() <= 1e-13 * (1 + np.abs(log_z).max())


@pytest.mark.parametrize(("d", "tolerance"), [(3, 1e-5), (17, 1e-5)])
def test_float32_stays_float32(d, tolerance, rng):
    q, k, v = (rng.normal(size=(200, d)).astype(np.float32) for _ in range(3))
    for mask in MASKS:
        got = exact(q, k, v, 0.5, mask=mask).value
        assert got.dtype == np.float32
        assert np.abs(got - dense(q, k, v, 0.5, "softmax", mask)[0]).max() < tolerance


@pytest.mark.parametrize("kind", ["spread", "clustered", "lone"])
@pytest.mark.parametrize("beta", [0.1, 1.0, 9.0, 50.0, 1e4])
def test_tokens_on_the_sphere(kind, beta):
    for d in (2, 3, 8):
        x = cloud(kind, 270, d)
        got = exact(x, x, None, beta)
        value, log_z = dense(x, x, x, beta)
        assert np.abs(got.value - value).max() < 3e-14 * (1 + beta / 9)
        assert np.abs(got.log_z - log_z).max() < 1e-14 * (1 + beta)


def test_huge_scores_of_either_sign_do_not_overflow(rng):
    q, k = 1e4 * rng.normal(size=(90, 3)), rng.normal(size=(90, 3))
    got = exact(q, k, None, 1.0)
    assert np.abs(got.value - dense(q, k, k, 1.0)[0]).max() < 1e-9
    assert np.isfinite(exact(q, -np.abs(k), None, 1e3).value).all()
    assert np.isinf(exact(np.ones((1, 1)), np.ones((1, 1)), None, 800.0, normalise="unnormalised").value).all()


def test_symmetric_sum_agrees_with_row_sum(rng):
    for n in (255, 256, 257, 1100):
        x, w = rng.normal(size=(n, 3)), rng.uniform(0, 2, n)
        both = [exact(x, x, None, 2.0, weights=w, symmetric=s) for s in (True, False)]
        assert np.abs(both[0].value - both[1].value).max() < 1e-13
        assert np.abs(both[0].log_z - both[1].log_z).max() < 1e-13


def test_more_queries_than_keys(rng):
    q, k = rng.normal(size=(40, 3)), rng.normal(size=(9, 3))
    assert np.abs(exact(q, k, None, 3.0).value - dense(q, k, k, 3.0)[0]).max() < 1e-14
    low, high = np.arange(40) % 4, 4 + np.arange(40) % 5
    got = summed(q, k, None, 3.0, low=low, high=high).value
    for i in range(40):
        seen = k[low[i] : high[i]]
        assert np.abs(got[i] - dense(q[i : i + 1], seen, seen, 3.0)[0][0]).max() < 1e-14
    with pytest.raises(InputError, match="at least one"):
        exact(q, k, None, 3.0, mask="causal")


def test_a_weight_counts_as_so_many_tokens(rng):
    x = rng.normal(size=(5, 3))
    w = np.array([1, 3, 2, 1, 4])
    many = np.repeat(x, w, axis=0)
    for normalise in ("softmax", "unnormalised"):
        got = exact(x, x, None, 2.0, normalise=normalise, weights=w)
        apart = exact(many, many, None, 2.0, normalise=normalise)
        assert np.abs(np.repeat(got.value, w, axis=0) - apart.value).max() < 1e-13


def test_causal_tokens_do_not_see_later_ones(rng):
    x = rng.normal(size=(500, 3))
    whole, part = (exact(a, a, None, 2.0, mask="causal").value for a in (x, x[:77]))
    assert np.array_equal(whole[:77], part)


def test_hardmax_shares_ties_evenly():
    x = np.repeat(np.eye(3), 4, axis=0)
    v = np.arange(12.0)[:, None]
    assert exact(x, x, v, normalise="hardmax").value.ravel().tolist() == [1.5] * 4 + [5.5] * 4 + [9.5] * 4


def test_nan_in_is_nan_out():
    x = np.eye(3)
    x[1, 1] = np.nan
    assert np.isnan(exact(x, x).value).all()


def test_bad_input_is_refused_with_a_sentence(rng):
    x = rng.normal(size=(4, 3))
    nobody = {"low": np.arange(4), "high": np.arange(4)}
    for change in ({"kind": "softmx"}, nobody, {"low": [0]}, {"weights": np.ones(3)}, {"weights": -np.ones(4)}):
        with pytest.raises(InputError):
            summed(x, x, **change)
    for q, k, v in ((x, x[:, :2], None), (x, x, x[:3]), (x[:0], x[:0], None), (x[0], x[0], None)):
        with pytest.raises(InputError, match="Queries and keys"):
            exact(q, k, v)


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_a_hundred_thousand_tokens(mask):
    n = 100_000
    x = cloud("spread", n, 3)
    got = exact(x, x, None, 9.0, mask=mask).value
    for i in (0, 7, n // 2, n - 1):
        seen = x if mask == "full" else x[: i + 1]
        assert np.abs(got[i] - dense(x[i : i + 1], seen, seen, 9.0)[0][0]).max() < 1e-13


@pytest.mark.slow
def test_memory_grows_with_n_and_not_with_its_square():
    import subprocess
    import sys

    # VmHWM and not ru_maxrss, which a child takes over from its parent
    code = """
import numpy as np
from pathlib import Path
from metastable.engines import exact
def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
x = np.random.default_rng(0).normal(size=(100_000, 3))
exact(x[:100], x[:100])
before = peak()
exact(x, x, beta=0.1)
print((peak() - before) / 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 200  # megabytes; the matrix would be 80,000


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [31, 32, 33, 128])
def test_blas_and_own_products_agree(d, dtype, rng):
    q, k, v = (rng.normal(size=(150, d)).astype(dtype) / d**0.25 for _ in range(3))
    w = rng.uniform(0.1, 3, 150)
    for mask, weights in itertools.product(MASKS, (None, w)):
        low, high = reach(mask, 150)
        task = Task(q, k, v, weights, low, high, np.dtype(dtype))
        for parts in (1, 5):
            own, blas = passes.by_tiles(task, parts), passes.by_blas(task, parts)
            scale = 64 * np.finfo(dtype).eps
            assert np.array_equal(own.power, blas.power)
            assert np.abs(own.out - blas.out).max() <= scale * np.abs(own.out).max()
            assert np.abs(own.z - blas.z).max() <= scale * own.z.max()


@pytest.mark.parametrize("cheap", ["tile", "blas"])
def test_the_cheaper_product_is_taken(cheap, monkeypatch, rng):
    costs = dict.fromkeys(calibrate.coefficients(), 1e-9)
    costs |= {name: 1e-8 for name in costs if name.startswith("blas" if cheap == "tile" else "tile")}
    monkeypatch.setattr(calibrate, "_known", costs)
    other = {"tile": "by_blas", "blas": "by_tiles"}[cheap]
    monkeypatch.setattr(passes, other, None)
    x = rng.normal(size=(40, 8))
    assert np.abs(summed(x, x).value - dense(x, x, x, 1.0)[0]).max() < 1e-13
