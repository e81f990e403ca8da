"""Fixed steps of the rescaled flow by kernels against the same steps taken in z by NumPy, and against themselves."""

from types import SimpleNamespace

import numpy as np
import pytest

from metastable.engines.chart import kernel_runs
from metastable.engines.chart.kernels import refer_every
from tests.engines.tableaus import TABLEAUS, hermite, intervals, step

DT = 0.1


def value_map(kind, d, seed=0):
    M = np.random.default_rng(seed).normal(size=(d, d)) / np.sqrt(d)
    kinds = {
        "identity": np.eye(d),
        "symmetric": (M + M.T) / 2,
        "contracting": 0.3 * M - np.eye(d),
        "complex": M,
        "turning": (M - M.T) / 2 + 0.2 * np.eye(d),
    }
    return kinds[kind]


def chart_of(V, A, layer=None):
    """V's basis: V = S L S^{-1} with L real, complex pairs as blocks of two (see `metastable.engines.chart.basis`)."""
    d = len(V)
    if np.array_equal(V, V.T):
        values, S = np.linalg.eigh(V)
        a, b, partner = values, np.zeros(d), np.arange(d)
    else:
        values, vectors = np.linalg.eig(V)
        S, a, b, partner = np.zeros((d, d)), values.real.copy(), values.imag.copy(), np.arange(d)
        for k in range(d):
            if values[k].imag > 0:
                S[:, k], S[:, k + 1] = vectors[:, k].real, vectors[:, k].imag
                partner[k], partner[k + 1] = k + 1, k
            elif values[k].imag == 0:
                S[:, k] = vectors[:, k].real
    grow, turn = a, b
    if layer is not None:
        R = 1.0 + layer * (a + 1j * b)
        grow, turn = np.log(np.abs(R)) / layer, np.angle(R) / layer
    inverse = S.T if np.array_equal(V, V.T) else np.linalg.inv(S)
    G = A if np.array_equal(A, A[0, 0] * np.eye(d)) and np.array_equal(V, V.T) else S.T @ A @ S
    return SimpleNamespace(
        S=S, S_inv=inverse, G=G, a=a, b=b, grow=grow, turn=turn, partner=partner, top=max(0.0, grow.max())
    )


def velocity(V, A, low, high):
    """Eq. (4) of the second paper: z_i' = sum_j P_ij V (z_j - z_i), attention from e^{tV} z."""
    values, S = np.linalg.eig(V)
    inverse = np.linalg.inv(S)
    j = np.arange(len(low))
    seen = (j >= low[:, None]) & (j < high[:, None])

    def attention(x):
        s = np.where(seen, x @ A @ x.T, -np.inf)
        e = np.exp(s - s.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def field(t, z):
        x = z @ ((S * np.exp(t * values)) @ inverse).real.T
        return (attention(x) @ z - z) @ V.T

    return field, attention


def start(chart, z):
    n = z.shape[-2]
    return kernel_runs.start(z @ chart.S_inv.T, np.broadcast_to(np.arange(n), z.shape[:-1]))


def setting(kind, n, d, seed=0, A=None, size=1.0):
    V = value_map(kind, d, seed)
    return V, np.eye(d) if A is None else A, size * np.random.default_rng(seed + 1).normal(size=(1, n, d))


def moved(V, A, z, counts, thetas, tableau, low, high, layer=0.0, shake=0.0):
    chart = chart_of(V, A, layer or None)
    basis = kernel_runs.basis(chart)
    plan = (np.array(counts), np.array(thetas), DT, tableau, layer, low, high, np.full(len(z), shake))
    state, saved = kernel_runs.advance([basis] * len(z), start(chart, z), *plan)
    return state, saved, kernel_runs.tokens(saved.zeta, chart.S)


def transcribed(V, A, z, counts, thetas, tableau, low, high):
    field, _ = velocity(V, A, low, high)
    saved, before, k = [], z, 0
    for count, theta in zip(counts, thetas):
        for _ in range(count):
            before, z = z, step(field, k * DT, z, DT, tableau)[0]
            k += 1
        t = (k - 1) * DT
        ends = (before, field(t, before), z, field(t + DT, z))
        saved.append(hermite(theta, DT, *ends) if theta < 1 else z)
    return np.stack(saved)


COUNTS, THETAS = [0, 4, 6, 0, 5], [1.0, 0.3, 0.6, 1.0, 1.0]


def check(V, A, z, tableau, mask="full", tolerance=1e-11):
    bounds = intervals(mask, z.shape[-2])
    _, saved, got = moved(V, A, z, COUNTS, THETAS, tableau, *bounds)
    want = transcribed(V, A, z[0], COUNTS, THETAS, tableau, *bounds)
    np.testing.assert_allclose(got[:, 0], want, rtol=0, atol=tolerance * np.abs(want).max())
    return saved


@pytest.mark.parametrize("tableau", TABLEAUS)
@pytest.mark.parametrize("kind", ["symmetric", "complex"])
def test_any_explicit_tableau(kind, tableau):
    check(*setting(kind, 21, 5), TABLEAUS[tableau])


@pytest.mark.parametrize("mask", ["full", "causal", "window", "window, causal", "ragged"])
@pytest.mark.parametrize("kind", ["identity", "contracting", "turning"])
def test_any_interval(kind, mask):
    check(*setting(kind, 37, 4), TABLEAUS["rk4"], mask)


@pytest.mark.parametrize("n", [1, 2, 16, 17, 40, 515])  # one panel, part of a second, three, and too many to keep
@pytest.mark.parametrize("scale", [None, np.diag([1.0, 0.5, 1.0, 2.0])])  # scores symmetric in the chart, and not
def test_any_number_of_tokens(n, scale):
    check(*setting("symmetric", n, 4, A=scale), TABLEAUS["euler"])


@pytest.mark.parametrize("d", [1, 3, 8, 20])
def test_any_dimension(d):
    rng = np.random.default_rng(3)
    check(*setting("symmetric", 40, d, A=rng.normal(size=(d, d)) / d), TABLEAUS["rk4"])


@pytest.mark.parametrize("kind", ["symmetric", "turning", "contracting"])
@pytest.mark.parametrize("mask", ["full", "causal", "window"])
def test_layers(kind, mask):
    """Remark 4 of the second paper: x_{k+1} = x_k + h P V x_k, z_k = R^{-k} x_k with R = I + h V."""
    V, A, z = setting(kind, 20, 4)
    bounds, h = intervals(mask, 20), DT
    _, _, got = moved(V, A, z, [0, 1, 6], [1.0, 1.0, 1.0], TABLEAUS["euler"], *bounds, layer=h)
    _, attention = velocity(V, A, *bounds)
    R, x, want = np.eye(4) + h * V, z[0], []
    for k in range(8):
        if k in (0, 1, 7):
            want.append(x @ np.linalg.matrix_power(np.linalg.inv(R), k).T)
        x = x + h * attention(x) @ x @ V.T
    np.testing.assert_allclose(got[:, 0], want, rtol=0, atol=1e-11 * np.abs(want).max())


def test_tokens_that_have_joined_others_are_held_by_their_offsets():
    V, A, z = setting("identity", 30, 3, size=5.0)
    bounds = intervals("full", 30)
    _, saved, got = moved(V, A, z, [0, 150], [1.0, 1.0], TABLEAUS["rk4"], *bounds)
    want = transcribed(V, A, z[0], [0, 150], [1.0, 1.0], TABLEAUS["rk4"], *bounds)
    np.testing.assert_allclose(got[:, 0], want, rtol=0, atol=1e-11 * np.abs(want).max())
    own = saved.refs[:, 0] == np.arange(30)
    assert own[0].all()
    assert own[-1].sum() < 15


def test_a_member_has_the_same_digits_alone_and_among_others():
    kinds = ["symmetric", "complex", "identity", "turning", "contracting"]
    charts = [chart_of(value_map(kind, 3, k), np.eye(3)) for k, kind in enumerate(kinds)]
    z = np.random.default_rng(1).normal(size=(5, 18, 3))
    y = np.stack([one @ chart.S_inv.T for one, chart in zip(z, charts)])
    refs = np.broadcast_to(np.arange(18), (5, 18))
    plan = (np.array([0, 11, 40]), np.array([1.0, 0.3, 1.0]), DT, TABLEAUS["rk4"], 0.0, *intervals("full", 18))
    bases, shakes = [kernel_runs.basis(chart) for chart in charts], np.array([0.0, 4e-16, 0.0, 0.0, 1e-15])
    _, together = kernel_runs.advance(bases, kernel_runs.start(y, refs), *plan, shakes)
    for b in range(5):
        some = slice(b, b + 1)
        _, alone = kernel_runs.advance(bases[some], kernel_runs.start(y[some], refs[some]), *plan, shakes[some])
        for one, all_ in zip(alone, together):
            assert np.array_equal(one[:, 0], all_[:, b])


def test_taken_up_again_it_gives_the_same_digits():
    V, A, z = setting("complex", 18, 3)
    bounds = intervals("full", 18)
    chart = chart_of(V, A)
    bases = [kernel_runs.basis(chart)]

    def go(state, counts, thetas):
        steps = (np.array(counts), np.array(thetas), DT, TABLEAUS["rk4"], 0.0, *bounds, np.array([2e-15]))
        return kernel_runs.advance(bases, state, *steps)

    _, whole = go(start(chart, z), [3, 20, 0, 30], [1.0, 0.5, 0.9, 1.0])
    state, first = go(start(chart, z), [3, 20], [1.0, 0.5])
    assert state.k == 23
    _, rest = go(state, [0, 30], [0.9, 1.0])
    for a, b, c in zip(first, rest, whole):
        assert np.array_equal(np.concatenate([a, b]), c)


def test_shaken_members_differ_by_the_size_of_the_noise_and_from_each_other():
    V, A, z = setting("symmetric", 18, 3)
    bounds = intervals("full", 18)
    still = moved(V, A, z, [20], [1.0], TABLEAUS["rk4"], *bounds)[2]
    for size in (1e-15, 1e-10):
        shaken = moved(V, A, z, [20], [1.0], TABLEAUS["rk4"], *bounds, shake=size)[2]
        assert 0 < np.abs(shaken - still).max() < 1e3 * size * np.abs(still).max()
    nudged = z * (1 + 1e-15 * np.sign(np.random.default_rng(0).normal(size=z.shape)))
    one, two = (moved(V, A, x, [1], [1.0], TABLEAUS["rk4"], *bounds, shake=1e-10)[2] for x in (z, nudged))
    assert np.abs(one - two).max() > 1e-12  # not the same signs, although the tokens are the same to 15 digits


def test_references_are_chosen_four_times_while_the_fastest_direction_grows_e_fold():
    assert refer_every(1.0, 0.1) == 2
    assert refer_every(0.0, 0.1) == 250
    assert refer_every(100.0, 0.1) == 1
