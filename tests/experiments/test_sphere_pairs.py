"""Two groups of tokens on the sphere: their exact angle, and what it notices."""

import numpy as np
import pytest

from metastable.equation.dynamics import Dynamics
from metastable.experiments import experiment, noise_against_order, scheme_groups, second_token, sphere_pairs
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import SelfCheckError, self_check
from metastable.solve.simulate import simulate
from tests.broken.breakages import Breakage, broken_engine


@pytest.mark.parametrize("kind", ["softmax", "unnormalised"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_angle_is_that_of_all_tokens_by_the_plain_formulas(kind: str, sign: float) -> None:
    beta, eye = 1.7, np.eye(4)
    x, angle = sphere_pairs.tokens(7, 4, 1, seed=3, beta=beta)
    assert sphere_pairs.apart(x) == pytest.approx(angle)
    pulls = {
        "softmax": lambda y: plain.pull(y, eye, eye, sign * eye, beta),
        "unnormalised": lambda y: sign * plain.unnormalised(y, beta),
    }
    there = plain.moved(plain.on_sphere(pulls[kind]), x[0], 1.0, 200)
    exact = sphere_pairs.exact(angle, 7, beta, 1.0, sign, kind)
    assert sphere_pairs.apart(there) == pytest.approx(exact[0], abs=1e-9)


@pytest.mark.parametrize("scheme", ["post-ln", "ngpt"])
def test_groups_under_a_scheme_are_all_tokens_under_it(scheme: str) -> None:
    x, angle = sphere_pairs.tokens(6, 3, 1, seed=1)
    eye, beta = np.eye(3), np.array([1.3])

    def pull(y: np.ndarray) -> np.ndarray:
        u = plain.pull(y, eye, eye, eye, 1.3)
        return u / np.linalg.norm(u, axis=1, keepdims=True) if scheme == "ngpt" else u

    there = plain.moved(plain.on_sphere(pull), x[0], 1.0, 200)[None]
    assert scheme_groups.measured(scheme, there, angle, beta, 1.0, 1.5)[f"groups {scheme}"].max() < 1e-8


@pytest.mark.parametrize("kind", ["", "transposed", "half beta"])
def test_verdicts_notice_beta_and_transposed_attention(kind: str) -> None:
    x0, angle = sphere_pairs.tokens(6, 3, 12, seed=0)

    def status() -> str:
        x = simulate(Dynamics(beta=2.0), x0, 1.0, 0.1, save=[1.0], engine="dense").x[-1]
        return str(sphere_pairs.verdict(sphere_pairs.measured(x, angle, 2.0), "here").status)

    if not kind:
        assert status() == "holds"
        return
    with broken_engine("dense", kind):
        assert status() == "fails"


def test_the_second_token_under_multiples_of_the_identity() -> None:
    start = np.linspace(0.5, 2.0, 12)
    values = (-0.5, 0.0, 1.0)
    angles = np.stack(
        [np.stack([start, second_token.angle_at(2.0 * abs(a), start, 1.0, np.sign(a))], axis=1) for a in values]
    )
    assert second_token.judge_multiples(values, angles, 2.0, 1.0).status == "holds"
    assert second_token.judge_multiples(values, angles, 2.0, 0.5).status == "fails"


@pytest.mark.parametrize("kind", ["softmax", "unnormalised"])
def test_half_the_beta_of_a_law_is_seen_before_noise_runs(kind: str) -> None:
    def off() -> float:
        own, plainly, allowed = noise_against_order._law_velocity(kind)
        return float(np.abs(np.asarray(own) - np.asarray(plainly)).max() / allowed)

    assert off() <= 1.0
    with Breakage("law_pull.law_pull", "half beta").applied():
        assert off() > 1.0


@pytest.mark.slow
@pytest.mark.parametrize("place", ["equation", "dense"])
def test_half_the_beta_stops_the_instability(place: str) -> None:
    made = experiment("instability")
    with Breakage(place, "half beta").applied(), pytest.raises(SelfCheckError, match="tokens, softmax"):
        self_check(made, made.params(**made.quick))
