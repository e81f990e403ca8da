"""The front door, and the kernels inside JAX."""

import threading

import numpy as np
import pytest

import metastable as ms
from metastable.backend import jax
from metastable.engines import ENGINES, attend, journal, velocity_field
from metastable.engines.simd import threads as pool
from metastable.errors import InputError
from metastable.solve.plan import make_plan
from tests.engines.conftest import cloud, dense


@pytest.mark.slow
def test_auto_is_exact_for_few_tokens_and_linear_for_many():
    few, many = cloud("spread", 100, 3), cloud("spread", 4000, 3)
    assert attend(few, few, beta=9.0).method == "exact"
    got = attend(many, many, beta=9.0)
    assert (got.method, got.error <= 1e-12) == ("spectral", True)
    assert np.abs(got.value - attend(many, many, beta=9.0, summation="exact").value).max() < 1e-12


def test_float32_tokens_are_summed_as_well_as_they_are_given():
    x = cloud("spread", 4000, 3).astype(np.float32)
    for mask in ("full", "causal"):
        linear, pairwise = (attend(x, x, beta=9.0, mask=mask, summation=s) for s in ("auto", "exact"))
        assert (linear.method, linear.value.dtype) == ("spectral", np.float32)
        assert np.abs(linear.value - pairwise.value).max() < 1e-5


def test_what_has_no_expansion_is_summed_exactly_and_says_why():
    x = cloud("spread", 3000, 3)
    for change, word in (
        ({"normalise": "hardmax"}, "hardmax"),
        ({"mask": "window(4)"}, "all up to itself"),
        ({"v": x + 0.0}, "values"),
        ({"tol": 1e-17}, "tolerance"),
    ):
        got = attend(x, x, beta=4.0, summation="spectral", **change)
        assert got.method == "exact"
        assert word in got.reason


def test_leading_axes_are_summed_one_by_one(rng):
    x = rng.normal(size=(2, 3, 20, 4))
    beta = np.array([[0.5], [2.0]])
    got = attend(x, x, beta=beta, mask="causal")
    assert got.value.shape == (2, 3, 20, 4)
    assert got.log_z.shape == (2, 3, 20)
    for a in range(2):
        for b in range(3):
            assert (
                np.abs(got.value[a, b] - dense(x[a, b], x[a, b], x[a, b], beta[a, 0], mask="causal")[0]).max() < 1e-13
            )


def test_bad_input_is_refused():
    x = np.eye(3)
    for change in ({"summation": "fast"}, {"tol": 0.0}, {"tol": float("nan")}, {"mask": "half"}, {"normalise": "max"}):
        with pytest.raises(InputError):
            attend(x, x, **change)


def test_two_callers_at_once_get_the_same_digits():
    x = cloud("spread", 2000, 3)
    alone = attend(x, x, beta=3.0, summation="exact").value
    found = []
    callers = [
        threading.Thread(target=lambda: found.append(attend(x, x, beta=3.0, summation="exact").value)) for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all(np.array_equal(alone, value) for value in found)


def test_digits_do_not_depend_on_the_number_of_threads(monkeypatch):
    x = cloud("clustered", 3000, 3)
    for summation, mask in (("exact", "full"), ("exact", "causal"), ("spectral", "full"), ("spectral", "causal")):
        many = attend(x, x, beta=3.0, summation=summation, mask=mask).value
        monkeypatch.setattr(pool, "cores", lambda: 1)
        one = attend(x, x, beta=3.0, summation=summation, mask=mask).value
        monkeypatch.undo()
        assert np.array_equal(many, one)


def test_an_error_in_a_shared_task_reaches_the_caller():
    def task(part):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        pool.share(task, 3)


# --- inside JAX --------------------------------------------------------------------------------------------------

ROTATION = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
HEADS = np.random.default_rng(4).normal(size=(2, 3, 3))
PARTS = {
    "plain": {"beta": 9.0},
    "causal": {"beta": 9.0, "mask": "causal"},
    "unnormalised": {"beta": 2.0, "normalise": "unnormalised", "mask": "causal"},
    "hardmax": {"normalise": "hardmax"},
    "sinkhorn": {"beta": 2.0, "normalise": "sinkhorn"},
    "rotated": {"weights": ms.Weights(Q=ROTATION, V=HEADS[0]), "beta": 4.0},
    "heads": {"weights": ms.Weights(Q=HEADS, K=HEADS[::-1], V=HEADS), "mask": "window(5)"},
    "values only": {"weights": ms.Weights(V=HEADS), "beta": 2.0},
    "thin": {"weights": ms.Weights(Q=HEADS[:, :2], K=HEADS[:, 1:]), "beta": 3.0},
    "biased": {
        "weights": ms.Weights(Q=HEADS, q_bias=np.ones((1, 3)), v_bias=np.ones((2, 3))),
        "normalise": "unnormalised",
    },
    "euclidean": {"weights": ms.Weights(V=HEADS[0]), "geometry": "euclidean"},
    "rescaled": {"weights": ms.Weights(V=np.eye(3)), "geometry": "rescaled"},
    "rotary": {"weights": ms.Weights(Q=np.ones((4, 3)), K=np.eye(4, 3)), "position": ms.positions.rotary(4)},
    "negative": {"beta": -3.0},
    "mlp": {"block": ms.Block(mlp=ms.blocks.MLP(np.ones((4, 3)), np.ones((3, 4)))), "mask": "causal"},
}
QUICK = ("plain", "causal", "heads", "rotary")  # the rest compile as much again: slow


@pytest.mark.parametrize("name", [p if p in QUICK else pytest.param(p, marks=pytest.mark.slow) for p in PARTS])
def test_velocity_field_is_the_velocity_of_the_dynamics(name):
    dyn, x = ms.Dynamics(**PARTS[name]), ms.initial.sphere(60, 3, seed=1)
    true = np.asarray(dyn.velocity(0.3, x))
    for summation in ("exact", "spectral", "auto"):
        if name == "sinkhorn":
            with pytest.raises(InputError, match="stream"):
                velocity_field(dyn, summation)(0.3, x)
            continue
        field = velocity_field(dyn, summation)
        got = np.asarray(jax.jit(field)(0.3, x) if summation == "exact" else field(0.3, x))
        assert np.abs(got - true).max() < 2e-13 * max(1.0, np.abs(true).max())


@pytest.mark.slow
def test_velocity_field_takes_ensembles_and_their_betas():
    x = np.stack([ms.initial.sphere(40, 3, seed=s) for s in range(2)])
    for w in (ms.Weights(), ms.Weights(Q=HEADS), ms.Weights(Q=HEADS, q_bias=np.ones((1, 3)))):
        dyn = ms.Dynamics(w, beta=np.array([2.0, 3.0]))
        assert np.abs(velocity_field(dyn)(0.0, x) - dyn.velocity(0.0, x)).max() < 1e-13
    each = jax.vmap(lambda y: velocity_field(ms.Dynamics(beta=2.0))(0.0, y))(x)
    assert np.abs(each - ms.Dynamics(beta=2.0).velocity(0.0, x)).max() < 1e-13


def test_velocity_field_keeps_float32():
    x = ms.initial.sphere(40, 3, seed=0).astype(np.float32)
    got = velocity_field(ms.Dynamics(beta=np.float32(2.0)))(0.0, x)
    assert got.dtype == np.float32


def test_journal_tells_how_sums_were_made():
    x = ms.initial.sphere(3000, 3, seed=0)
    with journal() as notes:
        jax.jit(velocity_field(ms.Dynamics(beta=9.0), tol=1e-8))(0.0, x).block_until_ready()
    assert dict(notes.calls) == {"spectral": 1}
    assert 0 < notes.error <= 1e-8
    with journal() as notes:
        pass
    assert not notes.calls


def refusal(dyn, engine="exact", d=3):
    plan, _ = make_plan(dyn, ms.initial.sphere(5, d))
    return ENGINES[engine].supports(plan)


def test_dynamics_the_kernels_cannot_serve_say_why():
    for parts, word in (
        ({"score": "distance"}, "score"),
        ({"position": ms.positions.alibi()}, "position"),
        ({"mask": lambda i, j: j <= i}, "mask"),
    ):
        assert word in refusal(ms.Dynamics(**parts))

    def causal(i, j):
        return j >= i

    assert "mask" in refusal(ms.Dynamics(mask=causal))  # a name alone proves nothing
    assert refusal(ms.Dynamics(mask=ms.masks.CAUSAL)) is None
    assert refusal(ms.Dynamics(mask=ms.masks.window(4))) is None
    assert "rotation" in refusal(ms.Dynamics(ms.Weights(Q=np.diag([1.0, 2.0, 3.0]))), "spectral")
    assert "dimension" in refusal(ms.Dynamics(ms.Weights(V=np.eye(4))), "spectral", d=4)


@pytest.mark.parametrize("summation", ["exact", "spectral"])
def test_queries_that_are_turned_away_from_their_token(summation):
    """What is projected out of a velocity lies along the token, and not along its query."""
    x = ms.initial.sphere(400, 3, seed=0)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    dyn = ms.Dynamics(ms.Weights(Q=turn), beta=4.0)
    assert np.abs(velocity_field(dyn, summation)(0.0, x) - dyn.velocity(0.0, x)).max() < 1e-12


def test_without_the_radial_part_both_sums_give_the_velocity():
    x = ms.initial.sphere(400, 3, seed=0)
    true = ms.Dynamics(beta=4.0).velocity(0.0, x)
    for summation in ("exact", "spectral"):
        assert np.abs(attend(x, x, beta=4.0, radial=False, summation=summation).value - true).max() < 1e-12


def test_tokens_of_weight_zero_only_look_on():
    x, w = ms.initial.sphere(700, 3, seed=0), np.ones(700)
    w[300:] = 0.0
    for summation in ("exact", "spectral"):
        got = attend(x, x, beta=4.0, weights=w, summation=summation)
        true = attend(x, x[:300], beta=4.0)
        assert got.method == summation
        assert np.abs(got.value - true.value).max() < 1e-12
        assert np.abs(got.log_z - true.log_z).max() < 1e-12


def test_keys_given_as_values_are_no_other_values():
    x = ms.initial.sphere(3000, 3, seed=0)
    got = attend(x, x, x, 4.0, summation="spectral")
    assert got.method == "spectral"
    np.testing.assert_allclose(got.value, attend(x, x, None, 4.0, summation="exact").value, atol=1e-12)


def test_exact_sums_report_their_rounding():
    x = np.tile([[0.6, 0.8, 0.0]], (30000, 1))
    got = attend(x, x, None, 0.1, mask="causal", summation="exact")
    assert np.abs(got.value - x).max() <= got.error < 1e-12
