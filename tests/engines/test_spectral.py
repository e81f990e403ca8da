"""Linear-time sums against the exact ones."""

import numpy as np
import pytest

from metastable.engines.spectral import ranks
from metastable.engines.spectral.expansion import _full, spectral
from metastable.engines.spectral.points import points
from tests.engines.conftest import cloud, dense
from tests.engines.named_masks import exact

BETAS = [0.1, 1.0, 9.0, 25.0, 50.0]
VIEWS = {"full": "all", "causal": "earlier"}
KINDS = ["spread", "clustered", "lone"]


@pytest.mark.parametrize("mask", ["full", "causal"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("tol", [1e-6, 1e-12])
def test_error_is_within_the_promise(d, kind, mask, tol):
    x = cloud(kind, 1500, d)
    for beta in BETAS:
        got, true = spectral(x, x, beta, view=VIEWS[mask], tol=tol), exact(x, x, None, beta, mask=mask)
        assert not isinstance(got, str), got
        off = np.abs(got.sums.value - true.value).max()
        assert off <= got.error <= tol
        assert got.measured <= got.error
        assert np.abs(got.sums.log_z - true.log_z).max() <= 2 * tol + 1e-14 * beta


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 31, 32, 33, 300])
def test_any_number_of_tokens(n, d):
    x = cloud("spread", n, d)
    for mask in ("full", "causal"):
        got = spectral(x, x, 4.0, view=VIEWS[mask])
        assert np.abs(got.sums.value - dense(x, x, x, 4.0, "softmax", mask)[0]).max() < 1e-12


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_weights_rotated_queries_lengths_and_unnormalised(d, mask, rng):
    x, w = cloud("spread", 400, d), rng.uniform(0, 2, 400)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    q, k = 2.0 * x @ turn, 0.5 * x
    for beta, normalise in ((6.0, "softmax"), (-6.0, "softmax"), (3.0, "unnormalised")):
        got = spectral(q, k, beta, kind=normalise, view=VIEWS[mask], weights=w).sums
        true = dense(q, k, k, beta, normalise, mask, w)
        assert np.abs(got.value - true[0]).max() < 1e-12 * max(1.0, float(np.abs(true[0]).max()))
        assert np.abs(got.log_z - true[1]).max() < 1e-12


def test_zero_beta_averages_evenly():
    x = cloud("clustered", 200, 3)
    assert np.abs(spectral(x, x, 0.0).sums.value - x.mean(axis=0)).max() < 1e-14


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mask", ["full", "causal"])
@pytest.mark.parametrize("d", [2, 3])
def test_without_the_radial_part_the_tangent_is_left(d, kind, mask):
    x = cloud(kind, 1500, d)
    for beta in BETAS:
        true = exact(x, x, None, beta, mask=mask).value
        true -= np.einsum("id,id->i", true, x)[:, None] * x
        got = spectral(x, x, beta, view=VIEWS[mask], radial=False)
        assert np.abs(got.sums.value - true).max() <= got.error <= 1e-12


def test_a_cluster_on_the_pole_does_not_hurt():
    x = np.array([0.0, 0.0, 1.0]) + 1e-7 * np.random.default_rng(0).normal(size=(500, 3))
    x[::50] = -x[::50]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    got = spectral(x, x, 25.0)
    assert np.abs(got.sums.value - exact(x, x, None, 25.0).value).max() <= got.error <= 1e-12


def test_a_lone_token_is_summed_exactly():
    x = cloud("lone", 5000, 3)
    got = spectral(x, x, 25.0)
    assert got.rescued == 1
    assert np.abs(got.sums.value[5000 // 3] - dense(x[5000 // 3 :][:1], x, x, 25.0)[0][0]).max() < 1e-13


def test_what_cannot_be_expanded_says_why():
    x = cloud("spread", 50, 3)
    assert "length" in spectral(x, x * np.linspace(1, 2, 50)[:, None], 1.0)
    assert "dimension" in spectral(cloud("spread", 50, 4), cloud("spread", 50, 4), 1.0)
    assert "hardmax" in spectral(x, x, 1.0, kind="hardmax")
    assert "up to itself" in spectral(x, x, 1.0, view="some")
    assert "300" in spectral(x, x, 1e3)
    assert "tolerance" in spectral(x, x, 1.0, tol=1e-17)
    assert "see so little" in spectral(cloud("clustered", 500, 2), cloud("clustered", 500, 2), -20.0)


def test_rounding_constant_covers_what_is_measured():
    for d in (2, 3):
        for kind in KINDS:
            for beta in (1.0, 50.0):
                x = cloud(kind, 2000, d)
                rank = int(np.flatnonzero(ranks.bessel(d, beta).tail < 1e-18)[0])
                out = _full(points(x, x, beta, None), rank, True, lambda *piece: None)[:, :2000]
                off = np.abs((out[1 : 1 + d] / out[0]).T - exact(x, x, None, beta).value).max(axis=1)
                assert (off * out[0] / 2000).max() < ranks.ROUNDING


def test_tails_bound_the_error_of_one_token():
    """The bound of `ranks`, mode by mode, against the sums it stands for, at all angles and for the worst value v."""
    angle = np.linspace(0, np.pi, 400)
    for d in (2, 3):
        for kappa in (0.1, 9.0, 100.0):
            weights = ranks.bessel(d, kappa)
            mode = np.arange(len(weights.value))
            if d == 2:
                P, slope = np.cos(mode[:, None] * angle), -mode[:, None] * np.sin(mode[:, None] * angle)
            else:
                P = np.polynomial.legendre.legvander(np.cos(angle), mode[-1]).T
                one = np.eye(len(mode))
                rise = [np.polynomial.legendre.legval(np.cos(angle), np.polynomial.legendre.legder(e)) for e in one]
                slope = -np.sin(angle) * np.array(rise)
            for rank in (3, 10, 20):
                left = slice(rank + 1, None)
                Z, T = weights.value[left] @ P[left], weights.value[left] @ slope[left] / kappa
                R = weights.slope[left] @ P[left]
                for turn in np.linspace(0, 2 * np.pi, 9):  # v = (cos, sin) along and across the query
                    off = np.hypot(R - np.cos(turn) * Z, T - np.sin(turn) * Z)
                    assert off.max() <= weights.tail[rank] * (1 + 1e-9) + 1e-14
                    assert np.abs(T - np.sin(turn) * Z).max() <= weights.across[rank] * (1 + 1e-9) + 1e-14


def test_tails_bound_the_kernel_itself():
    angle = np.linspace(0, np.pi, 50)
    for d in (2, 3):
        for kappa in (0.1, 9.0, 100.0):
            weights = ranks.bessel(d, kappa)
            for rank in (3, 10, 20):
                if d == 2:
                    basis = np.cos(np.arange(rank + 1)[:, None] * angle)
                else:
                    basis = np.polynomial.legendre.legvander(np.cos(angle), rank).T
                part = weights.value[: rank + 1] @ basis
                assert np.abs(part - np.exp(kappa * (np.cos(angle) - 1))).max() <= weights.tail[rank] + 1e-14


def test_float32_tokens_give_float32():
    x = cloud("spread", 300, 3).astype(np.float32)
    got = spectral(x, x, 4.0, tol=1e-4)
    assert got.sums.value.dtype == np.float32
    assert np.abs(got.sums.value - dense(x, x, x, 4.0)[0]).max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["full", "causal"])
@pytest.mark.parametrize("d", [2, 3])
def test_a_million_tokens(d, mask):
    n = 1_000_000
    x = cloud("spread", n, d)
    got = spectral(x, x, 9.0, view=VIEWS[mask])
    assert got.error <= 1e-12
    for i in (0, 1, n // 3, n - 1):
        seen = x if mask == "full" else x[: i + 1]
        assert np.abs(got.sums.value[i] - dense(x[i : i + 1], seen, seen, 9.0)[0][0]).max() < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_a_hundred_thousand_tokens_of_every_kind(kind, mask):
    n = 100_000
    x = cloud(kind, n, 3)
    rows = np.unique(np.append(np.linspace(0, n - 1, 20).astype(int), n // 3))
    for beta in BETAS:
        got = spectral(x, x, beta, view=VIEWS[mask])
        for i in rows:
            seen = x if mask == "full" else x[: i + 1]
            assert np.abs(got.sums.value[i] - dense(x[i : i + 1], seen, seen, beta)[0][0]).max() < 1e-12
