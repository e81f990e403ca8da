"""Runs side by side in vector lanes against the same runs by JAX."""

import numpy as np
import pytest

import metastable as ms
from metastable.engines import calibrate
from metastable.engines.lanes.lanes_engine import Lanes
from metastable.errors import InputError
from metastable.solve import observe as observing
from metastable.solve.driver import drive, engine_of
from metastable.solve.plan import make_plan

RUNS = 11  # a whole group of eight and part of another


def weights(heads, d, seed=0):
    rng = np.random.default_rng(seed)
    return ms.Weights(*(rng.normal(size=(heads, d, d)) for _ in range(3)))


def tokens(n, d, geometry):
    if geometry == "sphere":
        return ms.initial.sphere(n, d, seed=1, runs=RUNS)
    return 0.3 * np.random.default_rng(1).normal(size=(RUNS, n, d))


SPACES, SEEN = ("sphere", "euclidean"), ("full", "causal")


def spread(sizes):
    """Every size in every geometry under every mask; by default each size once and each pair of the others once."""
    cases = [(space, mask, *size) for size in sizes for space in SPACES for mask in SEEN]
    usual = {4 * k + (k + k // 4) % 4 for k in range(len(sizes))} | {1, 2, 3}
    return [pytest.param(*case, marks=() if k in usual else pytest.mark.slow) for k, case in enumerate(cases)]


@pytest.mark.parametrize(
    ("geometry", "mask", "n", "d", "heads", "method"), spread([(7, 2, 1, "rk4"), (5, 3, 2, "rk4"), (6, 5, 1, "euler")])
)
def test_as_dense(geometry, mask, n, d, heads, method):
    betas = np.linspace(0.5, 3.0, RUNS)
    dyn = ms.Dynamics(weights(heads, d), beta=betas, mask=mask, geometry=geometry)
    asked = {"t": 1.0, "dt": 0.05, "method": method, "save": 14}  # most saves lie inside a step
    lanes, dense = (ms.simulate(dyn, tokens(n, d, geometry), engine=how, **asked) for how in ("lanes", "dense"))
    assert lanes.provenance["engine"] == "lanes"
    np.testing.assert_allclose(lanes.x, dense.x, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
def test_layers_as_dense(geometry):
    dyn = ms.Dynamics(weights(1, 3), beta=2.0, geometry=geometry)
    x = tokens(6, 3, geometry)
    lanes, dense = (
        ms.simulate(dyn, x, t=2.0, dt=0.2, method="layers", save=6, engine=how) for how in ("lanes", "dense")
    )
    np.testing.assert_allclose(lanes.x, dense.x, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("n", "d"), [(1, 3), (1, 1), (4, 1)])
def test_smallest_systems(n, d):
    x = np.random.default_rng(2).normal(size=(9, n, d))
    dyn = ms.Dynamics(beta=2.0, geometry="euclidean")
    lanes, dense = (ms.simulate(dyn, x, t=0.5, save=3, engine=how) for how in ("lanes", "dense"))
    np.testing.assert_allclose(lanes.x, dense.x, rtol=1e-12)


def test_two_axes_of_runs():
    dyn = ms.Dynamics(beta=np.array([[1.0], [4.0]]))
    x = ms.initial.sphere(5, 3, runs=6).reshape(2, 3, 5, 3)
    lanes, dense = (ms.simulate(dyn, x, t=1.0, save=4, engine=how) for how in ("lanes", "dense"))
    assert lanes.x.shape == (4, 2, 3, 5, 3)
    np.testing.assert_allclose(lanes.x, dense.x, atol=1e-13)


def test_own_weights_for_every_run():
    members = [ms.Dynamics(weights(1, 3, seed), beta=0.2 * seed, mask="causal") for seed in range(RUNS)]
    x = tokens(6, 3, "sphere")
    lanes, dense = (ms.simulate(members, x, t=2.0, save=5, engine=how) for how in ("lanes", "dense"))
    for a, b in zip(lanes, dense):
        np.testing.assert_allclose(a.x, b.x, atol=1e-11)


def test_taken_up_again_it_is_the_same_run():
    plan, x = make_plan(ms.Dynamics(beta=2.0), tokens(6, 3, "sphere"), t=3.0, dt=0.1, save=58, engine="lanes")
    whole = list(drive(plan, x))
    rest = list(drive(plan, x, checkpoint=whole[4].state))
    assert len(whole) > 10
    assert [p.first for p in rest] == [p.first for p in whole[5:]]
    for a, b in zip(rest, whole[5:]):
        assert np.array_equal(a.x, b.x)


def test_a_run_does_not_depend_on_its_neighbours():
    x = tokens(6, 3, "sphere")
    dyn = ms.Dynamics(beta=3.0)
    together = ms.simulate(dyn, x, t=2.0, save=3, engine="lanes").x
    few = ms.simulate(dyn, x[3:5], t=2.0, save=3, engine="lanes").x
    assert np.array_equal(together[:, 3:5], few)


@pytest.mark.parametrize("runs", [(8,), ()])
def test_scores_beyond_floats_are_not_passed_over(runs):
    dyn = ms.Dynamics(ms.Weights(V=40.0 * np.eye(2)), geometry="euclidean")
    run = ms.simulate(dyn, 1e100 * np.ones((*runs, 3, 2)), t=50.0, dt=1.0, save=51, engine="lanes")
    assert run.status == "diverged"


@pytest.mark.parametrize("runs", [(), (64,)])
def test_auto_takes_lanes_only_where_they_pay(monkeypatch, runs):
    """What pays is measured on each machine; here it is set."""
    x = ms.initial.sphere(32, 3, runs=64) if runs else ms.initial.sphere(32, 3)
    plan, costs = make_plan(ms.Dynamics(), x, t=10.0)[0], calibrate.coefficients()
    cheap = {name: 1e-15 if name.startswith("lane") else 1e-6 for name in costs}
    dear = {name: 1e-6 if name.startswith("lane") else 1e-15 for name in costs}
    monkeypatch.setattr(calibrate, "_known", cheap)
    assert engine_of(plan) == "lanes"
    for other in ({"normalise": "hardmax"}, {"mask": lambda i, j: j <= i}, {"position": "alibi"}):
        assert engine_of(make_plan(ms.Dynamics(**other), x, t=10.0)[0]) != "lanes"
    assert engine_of(make_plan(ms.Dynamics(), x, t=10.0, method="tsit5")[0]) != "lanes"
    monkeypatch.setattr(calibrate, "_known", dear)
    assert engine_of(plan) != "lanes"


@pytest.mark.parametrize(
    ("dyn", "asked"),
    [
        (ms.Dynamics(), {"method": "tsit5"}),
        (ms.Dynamics(), {"dtype": "float32"}),
        (ms.Dynamics(normalise="sinkhorn"), {}),
        (ms.Dynamics(mask=lambda i, j: j <= i), {}),
        (ms.Dynamics(noise=0.1), {"method": "euler"}),
    ],
)
def test_refusals_are_one_sentence(dyn, asked):
    with pytest.raises(InputError, match="because"):
        ms.simulate(dyn, ms.initial.sphere(4, 3, runs=2), engine="lanes", **asked)


@pytest.mark.parametrize(
    ("geometry", "mask", "n", "d", "heads", "method"),
    spread(
        [
            (7, 3, 1, "rk4"),
            (1, 3, 1, "rk4"),
            (8, 2, 1, "euler"),
            (9, 3, 2, "rk4"),
            (21, 5, 1, "rk4"),
            (33, 3, 1, "layers"),
        ]
    ),
)
def test_one_run_with_its_tokens_in_lanes(geometry, mask, n, d, heads, method):
    dyn = ms.Dynamics(weights(heads, d), beta=1.5, mask=mask, geometry=geometry)
    x, save = tokens(n, d, geometry), 5 if method == "layers" else 8  # times between steps where there are any
    asked = {"t": 1.0, "dt": 0.25 if method == "layers" else 0.1, "method": method, "save": save}
    among = ms.simulate(dyn, x, engine="lanes", **asked).x
    alone, dense = (ms.simulate(dyn, x[4], engine=how, **asked).x for how in ("lanes", "dense"))
    assert np.array_equal(alone, among[:, 4])
    np.testing.assert_allclose(alone, dense, rtol=1e-12, atol=1e-13 * np.abs(dense).max())


def test_few_runs_go_one_by_one_and_keep_their_digits():
    x = ms.initial.sphere(20, 3, runs=RUNS)
    few, all_ = (ms.simulate(ms.Dynamics(beta=3.0), some, t=1.0, engine="lanes").x for some in (x[:3], x))
    assert np.array_equal(few, all_[:, :3])


def test_later_tokens_do_not_reach_earlier_ones_alone():
    x = ms.initial.sphere(21, 3)
    other = np.concatenate([x[:11], -x[11:]])
    one, two = (ms.simulate(ms.Dynamics(beta=4.0, mask="causal"), a, t=2.0, engine="lanes").x for a in (x, other))
    assert np.array_equal(one[:, :11], two[:, :11])
    assert not np.allclose(one[-1, 11:], two[-1, 11:])


def test_one_run_alone_can_be_taken_up_again():
    plan, x = make_plan(ms.Dynamics(beta=2.0), ms.initial.sphere(13, 3), t=3.0, dt=0.1, save=58, engine="lanes")
    whole = list(drive(plan, x))
    rest = list(drive(plan, x, checkpoint=whole[2].state))
    straight = np.concatenate([piece.x for piece in whole])
    assert np.array_equal(np.concatenate([piece.x for piece in whole[:3] + rest]), straight)
    assert np.array_equal(straight[:, 0], ms.simulate(plan.model, x[0], t=3.0, save=58, engine="lanes").x)


def test_observables_of_many_runs():
    betas = np.repeat([1.0, 9.0], 6)
    x = ms.initial.sphere(8, 2, runs=12)
    kept = ms.observe_many(ms.Dynamics(beta=betas), x, ["clusters", "order"], t=3.0, save=4)
    assert dict(kept.sizes) == {"time": 4, "run": 12}
    members = [ms.Dynamics(beta=float(b)) for b in betas]
    other = ms.observe_many(members, x, ["clusters", "order"], t=3.0, save=4)
    alone = ms.simulate(members[7], x[7], t=3.0, save=4)
    for name in ("clusters", "order"):
        np.testing.assert_allclose(kept[name], other[name], atol=1e-12)
        np.testing.assert_allclose(kept[name][:, 7], alone.observe(name), atol=1e-12)


def test_chunks_do_not_change_what_is_observed(monkeypatch):
    x = ms.initial.sphere(8, 2, runs=20)
    whole = ms.observe_many(ms.Dynamics(beta=np.linspace(1, 5, 20)), x, "order", t=2.0, save=3)
    monkeypatch.setattr(observing, "_MOST_SAVED", 1)  # chunks of eight
    done = []
    cut = ms.observe_many(ms.Dynamics(beta=np.linspace(1, 5, 20)), x, "order", t=2.0, save=3, progress=done.append)
    assert done == [8, 16, 20]
    np.testing.assert_allclose(whole.order, cut.order, atol=1e-13)


def test_own_functions_are_observed():
    x = ms.initial.sphere(6, 2, runs=9)
    kept = ms.observe_many(
        ms.Dynamics(), x, {"last": lambda run: run.observe("similarity_share", above=0.5)}, t=1.0, save=2
    )
    assert kept["last"].shape == (2, 9)


def test_observe_many_names_what_it_does_not_know():
    with pytest.raises(InputError, match="clusters"):
        ms.observe_many(ms.Dynamics(), ms.initial.sphere(4, 2, runs=2), "cluster")
    with pytest.raises(InputError, match="shape"):
        ms.observe_many(ms.Dynamics(), ms.initial.sphere(4, 2), "clusters")


def test_a_function_called_softmax_is_not_taken_for_ours():
    def softmax(scores, visible):
        return 0.0 * scores

    dyn = ms.Dynamics(normalise=softmax)
    assert Lanes().supports(make_plan(dyn, ms.initial.sphere(4, 3))[0]) is not None
    assert not np.asarray(dyn.pull(0.0, ms.initial.sphere(4, 3))).any()


def test_noise_of_any_member_is_seen():
    members = [ms.Dynamics(), ms.Dynamics(noise=0.1)]
    with pytest.raises(InputError, match="noise"):
        ms.simulate(members, ms.initial.sphere(4, 3, runs=2), t=0.5, method="euler", engine="lanes")
