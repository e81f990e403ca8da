"""Drawn laws of infinitely many tokens: growth rates near the uniform law, mass and positivity far from it.

What `infinitely_many` judges of the solver itself, one seed at a time.
"""

import numpy as np

from metastable.continuum.density import density
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments.base import Data, judged_by_validity
from metastable.theory.sphere_forms import mode_growth_rate, noise_threshold

SMALL = 1e-5  # amplitude of the perturbed mode


def one_rate(seed: int) -> Data:
    """The growth rate of a drawn mode of the uniform law, measured and exact, with the fastest rate of that law."""
    rng = np.random.default_rng([seed, 17])
    d, kind = int(rng.integers(2, 4)), str(rng.choice(["softmax", "unnormalised"]))
    beta, k = float(rng.uniform(0.5, 9.0)), int(rng.integers(1, 7))
    noise = noise_threshold(beta, kind, d) * float(rng.uniform(0.0, 1.3))
    rates = mode_growth_rate(np.arange(1, 13), beta, kind, d, noise)
    t = 0.5 / float(np.abs(rates).max())
    across = 1 if d == 2 else 2
    law = density(
        Dynamics(beta=beta, normalise=kind, noise=noise),
        lambda x: 1.0 + SMALL * ((x[:, 0] + 1j * x[:, across]) ** k).real,
        t, d=d, save=2, rtol=1e-13,
    )  # fmt: skip
    size = law.mode(k)
    return {
        "place": np.array([d]), "mode": np.array([k]), "beta": np.array([beta]), "noise": np.array([noise]),
        "rate": np.array([np.log(size[1] / size[0]) / t]), "theory": rates[k - 1 : k],
        "fastest": np.array([np.abs(rates).max()]), "mass": np.array([law.mass_error]), "least": np.array([law.least]),
    }  # fmt: skip


def one_law(seed: int) -> Data:
    """Mass and least density of a drawn law with structure while it moves, as long as its modes resolve it."""
    rng = np.random.default_rng([seed, 43])
    d, kind = int(rng.integers(2, 4)), str(rng.choice(["softmax", "unnormalised"]))
    beta, bend = float(rng.uniform(0.5, 4.0)), float(rng.uniform(-0.8, 0.8))
    noise = noise_threshold(beta, kind, d) * float(rng.choice([0.0, 0.5, 1.2]))
    V, along = np.eye(d) + 0.3 * rng.normal(size=(d, d)), rng.normal(size=d)
    along *= float(rng.uniform(1.0, 9.0)) / np.linalg.norm(along)  # least over largest density down to e^-18
    t = 0.3 if kind == "softmax" else 0.3 * np.exp(-0.75 * beta)  # unnormalised pulls are between 1 and e^beta
    with judged_by_validity():
        law = density(
            Dynamics(Weights(V=V), beta, kind, noise=noise),
            lambda x: np.exp(x @ along) * (1.0 + bend * x[:, 0] * x[:, 1]), t, save=6,
        )  # fmt: skip
    return {
        "law mass": np.array([law.mass_error]), "law least": np.array([law.least]),
        "law sharp": np.array([law.rho[-1].max() * law.surface.area]), "law done": np.array([law.status == "done"]),
    }  # fmt: skip
