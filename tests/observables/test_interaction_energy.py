"""Energy against plain double sums, its rate against finite differences, and ORACLES 4."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastable.errors import InputError
from metastable.observables import arrays, dissipation, energy_maximum, energy_rate, interaction_energy, log_energy


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def plain(x, beta, forms):
    return sum(np.exp(beta * (x @ A @ x.T)).sum() for A in forms) / (2 * beta * len(x) ** 2)


def velocity(x, beta, forms, values, normalise, sphere=True):
    """Full attention on the sphere or in R^d, written from the equations."""
    u = np.zeros_like(x)
    for A, V in zip(forms, values):
        P = np.exp(beta * (x @ A @ x.T))
        P = P / (P.sum(1, keepdims=True) if normalise == "softmax" else len(x))
        u += P @ x @ V.T
    return u - (u * x).sum(1, keepdims=True) * x if sphere else u


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 9),
    d=st.integers(1, 4),
    h=st.integers(1, 3),
    beta=st.floats(0.1, 9.0) | st.floats(-9.0, -0.1),
    symmetric=st.booleans(),
)
def test_energy_and_rate_equal_plain_sums(seed, n, d, h, beta, symmetric):
    rng = np.random.default_rng(seed)
    x, v, A = unit(rng.normal(size=(n, d))), rng.normal(size=(n, d)), rng.normal(size=(h, d, d)) / d
    if symmetric:
        A = A + np.swapaxes(A, 1, 2)
    assert np.isclose(interaction_energy(x, beta, A), plain(x, beta, A), rtol=1e-12)
    assert np.isclose(log_energy(x, beta, A), np.log(abs(plain(x, beta, A))), rtol=1e-11, atol=1e-11)
    step = 1e-5
    slope = (plain(x + step * v, beta, A) - plain(x - step * v, beta, A)) / (2 * step)
    assert np.isclose(energy_rate(x, v, beta, A), slope, rtol=1e-4, atol=1e-5 * abs(plain(x, beta, A)))


@pytest.mark.parametrize("normalise", ["softmax", "unnormalised"])
@pytest.mark.parametrize("beta", [0.3, 4.0, 9.0, -2.0])
@pytest.mark.parametrize("sphere", [True, False])
def test_oracle_4_the_rate_is_the_dissipation(normalise, beta, sphere):
    rng = np.random.default_rng(5)
    x = unit(rng.normal(size=(3, 12, 4)))
    S = rng.normal(size=(4, 4))
    for A in (np.eye(4), (S + S.T) / 4):
        v = np.stack([velocity(one, beta, [A], [A], normalise, sphere) for one in x])
        slow = dissipation(x, v, beta, normalise, A)
        assert np.allclose(energy_rate(x, v, beta, A), slow, rtol=1e-11, atol=1e-14)
        assert (slow >= 0).all()


def test_oracle_4_with_heads_holds_unnormalised_only():
    rng = np.random.default_rng(6)
    x = unit(rng.normal(size=(10, 3)))
    S = rng.normal(size=(2, 3, 3))
    A = S + np.swapaxes(S, 1, 2)
    v = velocity(x, 0.7, A, A, "unnormalised")
    assert np.isclose(energy_rate(x, v, 0.7, A), dissipation(x, v, 0.7, "unnormalised", A), rtol=1e-11)
    with pytest.raises(InputError, match="one head"):
        dissipation(x, v, 0.7, "softmax", A)


def test_the_law_fails_where_it_is_said_to():
    """V is not Q^T K: the chain rule still gives the slope, the dissipation does not."""
    rng = np.random.default_rng(7)
    x = unit(rng.normal(size=(8, 3)))
    A = np.diag([2.0, 1.0, -1.0])
    v = velocity(x, 1.0, [A], [np.eye(3)], "softmax")
    slope = (plain(x + 1e-6 * v, 1.0, [A]) - plain(x - 1e-6 * v, 1.0, [A])) / 2e-6
    assert np.isclose(energy_rate(x, v, 1.0, A), slope, rtol=1e-6)
    assert not np.isclose(dissipation(x, v, 1.0, "softmax", A), slope, rtol=1e-2)


@pytest.mark.parametrize("beta", [0.01, 1.0, 30.0, -3.0])
def test_consensus_has_the_largest_energy(beta):
    x = unit(np.random.default_rng(0).normal(size=(200, 6, 3)))
    top = energy_maximum(beta)
    assert np.isclose(interaction_energy(np.repeat(x[0, :1], 6, axis=0), beta), top, rtol=1e-13)
    assert (interaction_energy(x, beta) < top).all()


def test_blocks_do_not_change_the_sum(monkeypatch):
    rng = np.random.default_rng(1)
    x, v, A = rng.normal(size=(5, 37, 3)), rng.normal(size=(5, 37, 3)), rng.normal(size=(2, 3, 3))
    b = np.array([0.5, 1.0, -1.0, 2.0, 0.1])
    for form in (None, A, A + np.swapaxes(A, 1, 2)):
        whole = interaction_energy(x, b, form), energy_rate(x, v, b, form), log_energy(x, b, form)
        soft = dissipation(x, v, b)
        monkeypatch.setattr(arrays, "MOST_ENTRIES", 200)
        parts = interaction_energy(x, b, form), energy_rate(x, v, b, form), log_energy(x, b, form)
        assert np.allclose(dissipation(x, v, b), soft, rtol=1e-12)
        monkeypatch.undo()
        assert all(np.allclose(p, w, rtol=1e-11) for p, w in zip(parts, whole))
        loop = [interaction_energy(x[k], b[k], form) for k in range(5)]
        assert np.allclose(whole[0], loop, rtol=1e-13)


def test_huge_beta_is_refused_by_a_sentence_and_has_a_logarithm():
    x = np.eye(3)
    with pytest.raises(InputError, match="use log_energy"):
        interaction_energy(x, 1000.0)
    with pytest.raises(InputError, match="use log_energy"):
        energy_maximum(1000.0)
    with pytest.raises(InputError, match="use log_energy"):
        dissipation(x, np.ones((3, 3)), 1000.0)
    assert np.isclose(log_energy(x, 1000.0), 1000 - np.log(2000 * 3))
    assert np.isclose(interaction_energy(x, 712.0), np.exp(712 - np.log(2 * 712 * 3)))  # e^712 alone overflows
    assert np.isclose(log_energy(x, -1000.0), np.log(6 / (2000 * 9)))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: interaction_energy(np.eye(2), 0.0), "divides by beta"),
        (lambda: energy_maximum(0.0), "divides by beta"),
        (lambda: interaction_energy(np.eye(2), np.nan), "finite"),
        (lambda: interaction_energy(np.eye(2), [1.0, 2.0]), "leading axes"),
        (lambda: interaction_energy(np.eye(2), 1.0, np.eye(3)), "form"),
        (lambda: interaction_energy(1e200 * np.eye(2), 1.0), "overflow"),
        (lambda: energy_rate(np.eye(2), np.eye(3), 1.0), "shape of the tokens"),
        (lambda: dissipation(np.eye(2), np.eye(2), 1.0, "sinkhorn"), "softmax, unnormalised"),
        (lambda: interaction_energy(np.full((2, 2), np.nan), 1.0), "nan"),
    ],
)
def test_bad_input_gets_a_sentence(call, says):
    with pytest.raises(InputError, match=says):
        call()


def test_beta_zero_limit_named_in_the_refusal():
    x = unit(np.random.default_rng(0).normal(size=(7, 3)))
    beta = 1e-6
    m = np.linalg.norm(x.mean(0))
    assert np.isclose(interaction_energy(x, beta) - 1 / (2 * beta), m**2 / 2, atol=1e-5)
