"""Normalisation schemes and kinds of noise as parts of the equation."""

from dataclasses import replace

import numpy as np
import pytest

import metastable as ms
from metastable.equation.geometry import GEOMETRIES
from metastable.theory.closed_forms import SCHEMES, scheme_path

ORACLE = {  # ORACLES 24: n = 6, beta = 2.3, t = 2
    "post-ln": (0.57560564, 1.0),
    "ngpt": (0.82073446, 1.0),
    "pre-ln": (0.28562294, 2.30291326),
    "peri-ln": (0.41004534, 2.86403909),
    "depth-scaled": (0.20635721, 1.95631081),
}


def equiangular(n, gamma=0.0):
    gram = np.full((n, n), gamma) + (1 - gamma) * np.eye(n)
    return np.linalg.cholesky(gram)


@pytest.mark.parametrize("scheme", ORACLE)
def test_equiangular_tokens_follow_the_oracle(scheme):
    x = ms.simulate(ms.Dynamics(beta=2.3, geometry=scheme), np.eye(6), 2.0, 0.02, save=2).x[-1]
    r = np.linalg.norm(x, axis=1)
    gamma, norm = ORACLE[scheme]
    assert r == pytest.approx(norm, abs=2e-8)
    assert (x[0] @ x[1]) / (r[0] * r[1]) == pytest.approx(gamma, abs=2e-8)
    assert scheme_path(scheme, [2.0], 6, 2.3) == (pytest.approx([gamma], abs=1e-8), pytest.approx([norm], abs=1e-8))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_other_numbers(scheme):
    n, beta, t = 6, 0.9, 1.5
    name = "mix-ln(0.5)" if scheme == "mix-ln" else scheme
    run = ms.simulate(ms.Dynamics(beta=beta, geometry=name), equiangular(n, 0.2), t, 0.02, save=[0.3, 0.5, 1.5])
    gamma, r = scheme_path(scheme, run.t, n, beta, 0.2, until=0.5)
    norms = np.linalg.norm(run.x, axis=-1)
    assert np.abs(norms - r[:, None]).max() < 1e-6
    assert np.abs((run.x[:, 0] * run.x[:, 1]).sum(-1) / norms[:, 0] / norms[:, 1] - gamma).max() < 1e-6
    assert int(run.observe("clusters")[-1]) == int(ms.observables.cluster_count(run.x[-1]))  # by angle


@pytest.mark.parametrize("name", [*GEOMETRIES, "mix-ln(0.2)"])
def test_layers_are_the_networks_own(name):
    """x + dt u, normalised where the scheme normalises, written down once more."""
    x0, dt, beta = ms.initial.sphere(5, 3, seed=1), 0.1, 1.4
    if name in ("euclidean", "rescaled"):
        pytest.skip("no scheme")
    x = x0.copy()
    for k in range(4):
        theta = x / np.linalg.norm(x, axis=1, keepdims=True)
        A = np.exp(beta * theta @ theta.T)
        u = A / A.sum(axis=1, keepdims=True) @ theta
        if name in ("peri-ln", "ngpt"):
            u = u / np.linalg.norm(u, axis=1, keepdims=True)
        if name == "depth-scaled":
            u = u / np.sqrt(1 + k * dt)
        x = x + dt * u
        until = {"mix-ln": 4.0, "mix-ln(0.2)": 0.2}.get(name, np.inf if name in ("sphere", "ngpt") else 0.0)
        if k * dt < until:
            x = x / np.linalg.norm(x, axis=1, keepdims=True)
    run = ms.simulate(ms.Dynamics(beta=beta, geometry=name), x0, 0.4, dt, "layers", save=2)
    assert np.abs(run.x[-1] - x).max() < 1e-12


def test_schemes_are_named_stored_and_refused(tmp_path):
    dyn = ms.Dynamics(beta=2.0, geometry="mix-ln(0.5)")
    run = ms.simulate(dyn, ms.initial.sphere(4, 3), 1.0, save=3)
    run.save(tmp_path / "run")
    assert ms.load(tmp_path / "run").dynamics.geometry == dyn.geometry
    assert ms.geometry.resolve("post-ln") is ms.geometry.SPHERE
    assert dyn.time_dependent
    with pytest.raises(ms.InputError, match="attention alone"):
        ms.Dynamics(geometry="pre-ln", block=ms.Block())
    with pytest.raises(ms.InputError, match="number >= 0"):
        ms.geometry.resolve("mix-ln(-1)")
    with pytest.raises(ms.InputError, match="did you mean 'peri-ln'"):
        ms.Dynamics(geometry="perri-ln")


# --- noise --------------------------------------------------------------------------------------------------------


COMMON = ms.Dynamics(ms.Weights(V=np.zeros((3, 3))), geometry="euclidean", noise=0.7, noise_kind="common")
CLOUDS = ms.initial.gaussian(6, 3, seed=0, runs=2)


def test_common_noise_moves_all_tokens_by_one_vector():
    x = ms.simulate(COMMON, CLOUDS, 1.0, 0.1, "euler", save=[0.0, 0.25, 1.0], seed=3).x
    shift = x - x[0]
    assert np.abs(shift - shift[:, :, :1]).max() < 1e-12  # also between steps
    assert np.abs(shift[-1, 0, 0] - shift[-1, 1, 0]).min() > 1e-3  # every run has its own


@pytest.mark.slow
def test_independent_noise_does_not():
    own = ms.simulate(replace(COMMON, noise_kind="independent"), CLOUDS, 1.0, 0.1, "euler", seed=3).x
    assert np.abs((own[-1] - own[0]) - (own[-1] - own[0])[:, :1]).max() > 0.1


@pytest.mark.parametrize("d", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_common_noise_brings_tokens_together(d):
    """V = 0: log distances of near tokens fall at the rate (d-1) sigma^2/2; one token alone knows no difference."""
    sigma, t, runs = 0.8, 2.0, 400
    dyn = ms.Dynamics(ms.Weights(V=np.zeros((d, d))), noise=sigma, noise_kind="common")
    first = np.zeros((runs, 2, d))
    first[..., 0], first[:, 1, 1] = 1.0, 1e-6
    x = ms.simulate(dyn, first, t, 0.01, "euler", save=2).x
    rate = -np.log(np.linalg.norm(x[-1, :, 1] - x[-1, :, 0], axis=-1) / 1e-6) / t
    assert rate.mean() == pytest.approx((d - 1) * sigma**2 / 2, abs=4 * rate.std() / np.sqrt(runs))
    stay = (x[-1, :, 0] * x[0, :, 0]).sum(axis=-1)
    assert stay.mean() == pytest.approx(np.exp(-(d - 1) * sigma**2 * t / 2), abs=4 * stay.std() / np.sqrt(runs))


def test_kinds_of_noise_are_named_stored_and_refused(tmp_path):
    assert "common" in repr(COMMON)
    run = ms.simulate(COMMON, CLOUDS, 0.25, 0.1, "euler", save=[0.0, 0.25])
    run.save(tmp_path / "run")
    assert ms.load(tmp_path / "run").dynamics.noise_kind == ms.noises.COMMON
    with pytest.raises(ms.InputError, match="did you mean 'common'"):
        ms.Dynamics(noise_kind="comon")
    with pytest.raises(ms.InputError, match="independent noise"):
        ms.density(ms.Dynamics(noise=0.1, noise_kind="common"), "uniform", 1.0)
