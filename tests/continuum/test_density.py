"""The density of infinitely many tokens against closed forms, quadrature and tokens."""

import numpy as np
import pytest
from scipy.special import iv, spherical_in

import metastable as ms
from metastable.continuum.law_pull import law_drift
from metastable.continuum.surfaces import surface

SMALL = 1e-5


def tilted(x):
    return np.exp(x[:, 0]) * (1.0 + 0.5 * x[:, 0] * x[:, 1])


def rate(d, k, beta, kind, noise):
    across = 1 if d == 2 else 2
    dyn = ms.Dynamics(beta=beta, normalise=kind, noise=noise)
    t = 0.2 / k**2 / (1.0 if kind == "softmax" else iv(0, beta))
    law = ms.density(dyn, lambda x: 1 + SMALL * ((x[:, 0] + 1j * x[:, across]) ** k).real, t, d=d, save=2, rtol=1e-13)
    assert law.mass_error < 1e-12
    assert law.least > 0
    return np.log(law.mode(k)[1] / law.mode(k)[0]) / t


@pytest.mark.parametrize(("k", "beta", "noise"), [(1, 2.0, 0.0), (3, 4.0, 0.3), (2, 7.5, 1.1)])
def test_modes_grow_at_the_exact_rates(k, beta, noise):
    """ORACLES 7 and 25, and the same on S^2, to 1e-8."""
    for kind in ("softmax", "unnormalised"):
        j, j0 = iv(k, beta), 1.0 if kind == "unnormalised" else iv(0, beta)
        assert rate(2, k, beta, kind, noise) == pytest.approx(k**2 * (j / beta / j0 - noise**2 / 2), rel=1e-8, abs=1e-8)
        j, j0 = spherical_in(k, beta), 1.0 if kind == "unnormalised" else spherical_in(0, beta)
        theory = k * (k + 1) * (j / beta / j0 - noise**2 / 2)
        assert rate(3, k, beta, kind, noise) == pytest.approx(theory, rel=1e-8, abs=1e-8)
        assert theory == pytest.approx(ms.theory.closed_forms.mode_growth_rate(k, beta, kind, 3, noise), rel=1e-12)


@pytest.mark.parametrize("d", [2, 3])
def test_surfaces_expand_functions_and_their_slopes(d):
    on, a = surface(d, 12), np.array([0.3, -0.5, 0.7])[:d]
    f = np.exp(on.points @ a)
    c = on.moments(f)
    assert np.abs(on.values(c) - f).max() < 1e-11
    assert np.abs(on.at(c, on.points) - f).max() < 1e-11
    slope = (on.frame @ a) * f
    assert np.abs(on.slopes(c) - slope).max() < 1e-10
    assert np.abs(on.flux(slope) - on.laplacian * c).max() < 1e-10  # Green's formula
    for s in (2.3, -1.7, 0.0, 0.4):
        gram, by_mode = on.points @ on.points.T, on.kernel(s)
        kernel = np.exp(s * gram - abs(s)) * on.weights
        assert np.abs(on.values(by_mode.total * c) - kernel @ f).max() < 1e-10
        assert np.abs(on.values(by_mode.radial * c) - (kernel * gram) @ f).max() < 1e-10
        across = (on.frame * (kernel @ (f[:, None] * on.points))).sum(axis=-1)
        assert np.abs(on.slopes(by_mode.tangent * c) - across).max() < 1e-10


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("kind", ["softmax", "unnormalised"])
def test_general_weights_agree_with_bessel_functions_where_both_apply(d, kind):
    rng, on = np.random.default_rng(1), surface(d, 10)
    V = rng.normal(size=(d, d))
    c = on.moments(tilted(on.points))
    nudged = np.eye(d) + 1e-9 * np.triu(np.ones((d, d)), 1)  # no multiple of the identity: quadrature
    plain, general = (ms.Dynamics(ms.Weights(Q=Q, V=V), 1.7, kind) for Q in (None, nudged))
    assert np.abs(law_drift(plain, on)(c) - law_drift(general, on)(c)).max() < 1e-7
    two = ms.Dynamics(ms.Weights(Q=np.stack([np.eye(d)] * 2), V=np.stack([V, V])), 1.7, kind)
    assert np.abs(2 * law_drift(plain, on)(c) - law_drift(two, on)(c)).max() < 1e-12


def test_tokens_at_quantiles_follow_the_law():
    """Even in another variable, so that their moments are those of the law, with V and Q of no symmetry."""
    w = ms.Weights(Q=[[1.0, 0.4], [-0.3, 0.8]], V=[[1.0, 0.5], [0.2, 0.6]])
    even = 2 * np.pi * np.arange(128) / 128
    angle = even
    for _ in range(60):
        angle = even - 0.5 * np.sin(angle)
    x = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    for kind in ("softmax", "unnormalised"):
        dyn = ms.Dynamics(w, 2.0, kind)
        law = ms.density(dyn, lambda y: 1 + 0.5 * y[:, 0], 0.5, save=2)
        there = ms.simulate(dyn, x, 0.5, 0.01, save=2).x[-1]
        z = (there[:, 0] - 1j * there[:, 1])[:, None] ** np.arange(5)
        assert np.abs(law.moments[-1, :5] - z.mean(axis=0)).max() < 1e-7


@pytest.mark.parametrize("d", [2, 3])
def test_noise_without_attention_is_the_heat_equation(d):
    dyn = ms.Dynamics(ms.Weights(V=np.zeros((d, d))), 1.0, noise=0.6)
    law = ms.density(dyn, tilted, 1.0, save=3)
    for k in (1, 2):
        decay = np.exp(-k * (k + d - 2) * 0.18 * law.t)
        assert np.allclose(law.mode(k), law.mode(k)[0] * decay, rtol=1e-7)


@pytest.mark.parametrize("d", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_noise_does_not_shorten_the_steps(d):
    """On the circle the fastest decay would ask for (sigma^2/2) degree^2 t/6 = 900 steps; at rest pull meets noise."""
    dyn = ms.Dynamics(beta=1.5, noise=0.6)
    law = ms.density(dyn, lambda x: 1 + 0.9 * x[:, 0], 30.0, d=d, save=2, rtol=1e-6, most=32)
    assert law.status == "done"
    assert law.order[-1] > 0.5
    assert law.steps < 300
    damping = 0.5 * dyn.noise**2 * law.surface.laplacian
    assert np.abs(law_drift(dyn, law.surface)(law.moments[-1]) - damping * law.moments[-1]).max() < 1e-4


def test_a_law_that_becomes_points_ends_with_a_sentence():
    with pytest.warns(RuntimeWarning, match="too sharp"):
        law = ms.density(ms.Dynamics(beta=1.0), tilted, 20.0, most=64)
    assert law.status == "unresolved"
    assert law.t[-1] <= law.valid_until < 20.0
    assert len(law) == len(law.rho) < 101
    assert law.mass_error < 1e-12
    more = ms.density(ms.Dynamics(beta=1.0), tilted, law.t[-1], most=256, save=2)
    assert abs(more.order[-1] - law.order[-1]) < 1e-6  # what was kept is right


def test_saving_changes_nothing_and_a_law_goes_on():
    dyn = ms.Dynamics(beta=2.0, noise=0.4)
    few, many = (ms.density(dyn, tilted, 1.0, save=save) for save in (2, 31))
    assert np.array_equal(few.moments[-1], many.moments[-1])
    half = ms.density(dyn, tilted, 0.5, save=2)
    assert np.abs(ms.density(dyn, half, 0.5, save=2).moments[-1, :20] - few.moments[-1, :20]).max() < 1e-7


def test_values_at_even_angles_and_samples():
    theta = 2 * np.pi * np.arange(64) / 64
    law = ms.density(ms.Dynamics(beta=2.0), 1 + 0.5 * np.cos(theta), 0.1, save=2)
    assert law.order[0] == pytest.approx(0.25, abs=1e-12)
    assert law.at([[1.0, 0.0]], 0)[0] == pytest.approx(1.5 / (2 * np.pi), abs=1e-12)
    x = law.sample(20_000, seed=3)
    assert x.mean(axis=0) == pytest.approx([0.25, 0.0], abs=0.02)
    assert "the circle" in repr(law)


@pytest.mark.parametrize(
    ("dyn", "rho0", "options", "words"),
    [
        ({"mask": "causal"}, "uniform", {}, "full attention"),
        ({"geometry": "euclidean"}, "uniform", {}, "sphere"),
        ({"normalise": "hardmax"}, "uniform", {}, "softmax"),
        ({}, "uniform", {"d": 4}, "circle"),
        ({}, "even", {}, "uniform"),
        ({}, lambda x: x[:, 0], {}, "negative"),
        ({}, lambda x: np.abs(x[:, 0]) > 0.5, {}, "smooth"),
        ({}, lambda x: x, {}, "one number per point"),
        ({}, lambda x: ["a"] * len(x), {}, "real numbers"),
        ({}, lambda x: 1.0 + 0.1j * x[:, 0], {}, "real numbers"),
        ({}, lambda x: np.nan * x[:, 0], {}, "finite"),
        ({}, {"law": 1}, {}, "real numbers"),
        ({}, [1.0, -1.0, 1.0], {}, "negative"),
        ({}, np.zeros(8), {}, "negative"),
        ({}, np.ones((4, 4)), {}, "even angles"),
        ({}, (1.0, 1.0, 1.0), {"d": 3}, "circle"),
        ({}, "uniform", {"d": 2.5}, "circle"),
        ({}, "uniform", {"modes": 0}, "modes must be"),
        ({}, "uniform", {"modes": "many"}, "modes must be"),
        ({}, "uniform", {"rtol": 1.0}, "rtol must be at most"),
    ],
)
def test_misuse_is_answered_with_a_sentence(dyn, rho0, options, words):
    with pytest.raises(ms.InputError, match=words):
        ms.density(ms.Dynamics(**dyn), rho0, 1.0, **options)


def test_odd_but_meant():
    """No time at all, no attention, a law that is not normalised, a very sharp kernel, whole numbers."""
    for options in ({"t": 0.0, "save": 1}, {"t": 1e-3, "save": 2}):
        law = ms.density(ms.Dynamics(beta=200.0, noise=0.1), lambda x: 7 + 3 * x[:, 0], d=2, **options)
        assert law.status == "done"
        assert law.order[0] == pytest.approx(3 / 14, abs=1e-12)
    flat = ms.density(ms.Dynamics(beta=0.0), lambda x: 1 + 0.5 * x[:, 0], 0.5, d=3, save=2)
    assert flat.order[-1] > 1.1 * flat.order[0]  # every token is drawn to the mean
    whole = ms.density(ms.Dynamics(), [2, 3, 2, 1], 0.0, save=1)
    assert whole.at([[0.0, 1.0]])[0] == pytest.approx(1.5 / (2 * np.pi))
    with pytest.raises(ms.InputError, match="number of tokens"):
        whole.sample(0)


def test_pictures(tmp_path):
    for d in (2, 3):
        law = ms.density(ms.Dynamics(beta=2.0), tilted, 0.5, d=d, save=3)
        run = ms.simulate(ms.Dynamics(beta=2.0), law.sample(20), 0.5, save=3)
        figure = law.plot(tmp_path / f"{d}.png", tokens=run, **({"times": 2} if d == 3 else {}))
        assert "20 tokens" in figure.caption
        assert (tmp_path / f"{d}.png").stat().st_size > 5000
        with pytest.raises(ms.InputError, match="one run"):
            law.plot(tokens=ms.simulate(ms.Dynamics(beta=2.0), law.sample(8).reshape(2, 4, d), 0.5, save=3))


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3])
def test_a_million_tokens_are_near(d):
    dyn = ms.Dynamics(beta=3.0)
    law = ms.density(dyn, tilted, 1.5, d=d, save=2)
    there = ms.simulate(dyn, law.sample(1_000_000, seed=5), 1.5, 0.1, save=[1.5]).x[-1]
    assert np.linalg.norm(there.mean(axis=0) - law.mean[-1]) < 5 / np.sqrt(1e6)
