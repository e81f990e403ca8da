"""Going on with runs, reading them between saves, slicing and comparing them."""

import warnings

import numpy as np
import pytest

import metastable as ms
from metastable.errors import InputError
from metastable.solve.trust import with_copies

X = ms.initial.sphere(6, 3, seed=3)
LONG = {"t": 4.0, "save": 9}
SHORT = {"t": 2.0, "save": 5}


def turned(t):
    import jax.numpy as jnp

    return jnp.array([[jnp.cos(t), -jnp.sin(t), 0.0], [jnp.sin(t), jnp.cos(t), 0.0], [0.0, 0.0, 1.0]])


KINDS = {
    "sphere": (ms.Dynamics(beta=4.0, mask="causal"), {}),
    "noise": (ms.Dynamics(beta=4.0, noise=0.3), {"method": "euler", "seed": 5}),
    "layers": (ms.Dynamics(beta=4.0), {"method": "layers", "dt": 0.5}),
    "time": (ms.Dynamics(ms.Weights(V=turned)), {}),
    "certified": (ms.Dynamics(beta=4.0), {"trust": True}),
    "rescaled": (ms.Dynamics(ms.Weights(V=np.diag([1.0, 0.5, -0.5])), geometry="rescaled"), {}),
    "ensemble": (ms.Dynamics(beta=np.array([1.0, 4.0])), {}),
}


def tokens(kind):
    return ms.initial.sphere(6, 3, seed=3, runs=2) if kind == "ensemble" else X


@pytest.mark.parametrize("kind", KINDS)
def test_extended_is_the_run_made_at_once(kind):
    dyn, how = KINDS[kind]
    once = ms.simulate(dyn, tokens(kind), **LONG, **how)
    extended = ms.simulate(dyn, tokens(kind), **SHORT, **how).extend(4.0)
    assert np.array_equal(extended.t, once.t)
    assert np.array_equal(extended.x, once.x)
    assert extended.valid_until == once.valid_until
    assert extended.provenance["t"] == 4.0


@pytest.mark.parametrize("kind", ["sphere", "noise"])
def test_extended_twice_and_after_loading(kind, tmp_path):
    dyn, how = KINDS[kind]
    once = ms.simulate(dyn, X, **LONG, **how)
    run = ms.simulate(dyn, X, **SHORT, **how)
    assert np.array_equal(run.extend(3.0).extend(4.0).x, once.x)
    again = ms.load(run.save(tmp_path / "run"))
    assert np.array_equal(again.extend(4.0).x, once.x)


@pytest.mark.slow
def test_extended_runs_of_a_list_keep_their_noise():
    dyns = [ms.Dynamics(beta=b, noise=0.3) for b in (1.0, 4.0)]
    how = {"method": "euler", "seed": 5}
    x0 = np.stack([X, X])
    once = ms.simulate(dyns, x0, **LONG, **how)
    run = ms.simulate(dyns, x0, **SHORT, **how)
    assert np.array_equal(run[1].extend(4.0).x, once[1].x)


def test_a_run_of_a_list_keeps_its_noise_when_it_was_extended_and_loaded(tmp_path):
    dyns, x0, how = (
        [ms.Dynamics(beta=b, noise=0.3) for b in (1.0, 4.0)],
        np.stack([X, X]),
        {"method": "euler", "seed": 5},
    )
    once = ms.simulate(dyns, x0, **LONG, **how)[1]
    run = ms.simulate(dyns, x0, **SHORT, **how)[1].extend(3.0)
    again = ms.load(run.save(tmp_path / "run")).extend(4.0)
    np.testing.assert_allclose(again.x, once.x, rtol=0, atol=1e-13)


SLOW_KINDS = [("sphere", "rk4"), ("rescaled", "rk4"), ("rescaled", "tsit5")]


@pytest.mark.parametrize(
    ("geometry", "method"), [("sphere", "layers"), *(pytest.param(*k, marks=pytest.mark.slow) for k in SLOW_KINDS)]
)
def test_a_run_of_no_time_is_extended(geometry, method):
    """Segments of an adaptive rescaled run were as long as the run, 0, and never came to an end."""
    dyn = ms.Dynamics(geometry=geometry)
    run = ms.simulate(dyn, X, t=0.0, method=method)
    assert run.t.tolist() == [0.0]
    assert run.status == "done"
    longer = run.extend(2.0)
    whole = ms.simulate(dyn, X, t=2.0, method=method, save=2)
    assert longer.t.tolist() == [0.0, 2.0]
    np.testing.assert_allclose(longer.x, whole.x, rtol=0, atol=1e-6 if method == "tsit5" else 0)


def test_a_chart_goes_on_from_segments_of_no_length():
    from metastable.engines import ENGINES
    from metastable.solve.plan import make_plan

    plan, _ = make_plan(ms.Dynamics(geometry="rescaled"), X, t=1.0, method="tsit5")
    assert ENGINES["chart"].span(plan, {"length": np.asarray(0.0)}) > 0.0


@pytest.mark.slow
def test_extended_adaptively_and_after_an_early_stop():
    dyn = ms.Dynamics(beta=1.0)
    once = ms.simulate(dyn, X, t=6.0, save=7, method="tsit5", rtol=1e-9)
    run = ms.simulate(dyn, X, t=2.0, save=3, method="tsit5", rtol=1e-9)
    assert np.abs(run.extend(6.0).x - once.x).max() < 1e-7
    early = ms.simulate(dyn, X, t=30.0, save=301, until=2)
    assert early.status == "stopped"
    later = early.extend(float(early.t[-1]) + 1.0)
    assert np.array_equal(later.x[: len(early)], early.x)


@pytest.mark.slow
def test_a_longer_run_may_need_more_copies():
    """Nearly dependent eigenvectors: how far a rounding moves them decides the number of copies, and grows with t."""
    S = np.array([[1.0, 1.0], [0.0, 8e-4]])
    dyn = ms.Dynamics(ms.Weights(V=S @ np.diag([0.5, 0.2]) @ np.linalg.inv(S)), geometry="rescaled")
    x = np.array([[0.3, 0.2], [-0.5, 0.1], [0.7, -0.4]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        run, at_once = ms.simulate(dyn, x, t=2.0, save=3), ms.simulate(dyn, x, t=9.0, save=10)
        longer = run.extend(t=9.0)
    assert with_copies(run.ending.plan).runs == 2 < with_copies(longer.ending.plan).runs == 3
    assert np.array_equal(longer.x, at_once.x, equal_nan=True)
    assert longer.valid_until == at_once.valid_until


def test_how_later_times_are_chosen():
    run = ms.simulate(ms.Dynamics(), X, **SHORT)
    assert run.extend(3.0, save=4).t[-4:].tolist() == [2.25, 2.5, 2.75, 3.0]
    assert run.extend(3.0, save=[2.2]).t[-1] == 2.2
    for wrong in (2.0, 1.0, "late", np.nan):
        with pytest.raises(InputError):
            run.extend(wrong)
    with pytest.raises(InputError, match="beyond t = 2"):
        run.extend(3.0, save=[1.0, 3.0])


# --- between saves ---


@pytest.mark.parametrize(
    "kind", ["sphere", "rescaled", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("time", "ensemble"))]
)
def test_at_is_what_would_have_been_saved(kind):
    dyn, how = KINDS[kind]
    times = np.array([0.0, 0.03, 0.25, 0.5, 1.234, 2.0])
    asked = ms.simulate(dyn, tokens(kind), t=2.0, save=times, **how)
    read = ms.simulate(dyn, tokens(kind), **SHORT, **how).at(times)
    assert np.array_equal(read.t, times)
    assert np.abs(read.x - asked.x).max() < 1e-14
    assert np.abs(read.attention(2) - asked.attention(2)).max() < 1e-13


@pytest.mark.slow
def test_at_is_not_the_nearest_save_and_is_of_high_order():
    """Between saves as good as at them: halving dt divides the error by about sixteen."""
    exact = ms.simulate(ms.Dynamics(beta=4.0), X, t=1.0, method="dopri8", rtol=1e-12, save=[0.333]).x
    errors = []
    for dt in (0.2, 0.1, 0.05):
        run = ms.simulate(ms.Dynamics(beta=4.0), X, t=1.0, dt=dt, save=2)
        errors.append(np.abs(run.at(0.333).x - exact).max())
    assert errors[0] / errors[2] > 100


@pytest.mark.slow
def test_at_of_adaptive_and_layers():
    dyn = ms.Dynamics(beta=4.0)
    how = {"method": "tsit5", "t": 2.0}
    asked = ms.simulate(dyn, X, save=[0.0, 0.77, 2.0], **how)
    assert np.array_equal(ms.simulate(dyn, X, save=2, **how).at(0.77).x[0], asked.x[1])
    layers = ms.simulate(dyn, X, t=6, method="layers", save=7)
    assert np.array_equal(layers.at([2.0, 3.0]).x, layers.x[2:4])
    with pytest.raises(InputError, match="whole layers"):
        layers.at(2.5)


def test_at_refuses_what_is_outside():
    run = ms.simulate(ms.Dynamics(), X, **SHORT)
    for wrong in (2.1, -0.1, [1.0, 0.5], [], np.nan, "now", None):
        with pytest.raises(InputError):
            run.at(wrong)


# --- slices ---


def test_slices():
    run = ms.simulate(ms.Dynamics(beta=4.0), X, **LONG)
    part = run[3:6]
    assert np.array_equal(part.t, run.t[3:6])
    assert np.array_equal(part.x, run.x[3:6])
    assert np.array_equal(run[-1].x[0], run.x[-1])
    assert part.observe("clusters").shape == (3,)
    assert np.abs(part.at(1.77).x - run.at(1.77).x).max() < 1e-15
    with pytest.raises(InputError, match="without what came before"):
        part.extend(5.0)
    assert np.array_equal(run[:3].extend(4.0).x, run.x)
    for wrong in (99, "a", slice(None, None, -1), [0, 0], 1.5):
        with pytest.raises(InputError):
            run[wrong]


def test_slices_of_a_rescaled_run_keep_its_coordinates():
    dyn, how = KINDS["rescaled"]
    run = ms.simulate(dyn, X, **LONG, **how)
    assert np.array_equal(run[2:4].coordinates()[0], run.coordinates()[0][2:4])


# --- two runs ---


def test_compare_finds_the_angle_and_names_the_difference():
    run = ms.simulate(ms.Dynamics(beta=4.0), X, **SHORT)
    turn = np.array([[np.cos(0.1), -np.sin(0.1), 0.0], [np.sin(0.1), np.cos(0.1), 0.0], [0.0, 0.0, 1.0]])
    turned_run = ms.simulate(ms.Dynamics(beta=4.0), X @ turn.T, **SHORT)
    expected = np.arccos(np.einsum("tnd,tnd->tn", run.x, run.x @ turn.T))
    found = ms.compare(run, turned_run)
    assert np.abs(found.distance.values - expected).max() < 1e-7
    assert found.attrs["differ"] == "first tokens differ"
    assert found.distance.attrs["units"] == "rad"


def test_compare_reads_the_other_run_in_between():
    a = ms.simulate(ms.Dynamics(beta=4.0), X, t=2.0, save=11)
    b = ms.simulate(ms.Dynamics(beta=4.0), X, t=1.0, save=3, dt=0.05)
    found = ms.compare(a, b)
    assert np.allclose(found.time, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert float(found.largest.max()) < 1e-4
    assert found.attrs["differ"] == "dt: 0.1 and 0.05"
    with pytest.raises(InputError, match="token by token"):
        ms.compare(a, ms.simulate(ms.Dynamics(), X[:3], t=1.0))


@pytest.mark.parametrize("given", ["ensemble", "list"])
def test_seeds_of_each_run_are_kept(given, tmp_path):
    """A run that was saved goes on with its own noise: every run has a seed, as when it is run alone."""
    dyn, x, seeds = ms.Dynamics(noise=0.3), np.stack([X, X, X]), np.array([7, 3, 7])
    how = {"method": "euler", "t": 1.0, "save": 3}
    alone = [ms.simulate(dyn, X, seed=int(seed), **{**how, "t": 2.0, "save": 5}) for seed in seeds]
    if given == "ensemble":
        run = ms.simulate(dyn, x, seed=seeds, **how)
        assert run.provenance["seed"] == [7, 3, 7]
        assert run.parameters()["seed"] == [7, 3, 7]
        assert run.observe("order").seed.values.tolist() == [7, 3, 7]
        longer = ms.load(run.save(tmp_path / "run")).extend(2.0).x
        assert "seed" in (tmp_path / "run" / "config.toml").read_text()
    else:
        runs = ms.simulate([dyn] * 3, x, seed=seeds, **how)
        assert [run.provenance["seed"] for run in runs] == [7, 3, 7]
        loaded = [ms.load(run.save(tmp_path / f"run{k}")) for k, run in enumerate(runs)]
        longer = np.stack([run.extend(2.0).x for run in loaded], axis=1)
    np.testing.assert_allclose(longer, np.stack([run.x for run in alone], axis=1), rtol=0, atol=1e-13)


def test_a_record_with_other_seeds_is_another_run(tmp_path):
    from metastable.solve.plan import make_plan
    from metastable.store import run

    how = {"method": "euler", "t": 0.4, "save": 3}
    x = np.stack([X, X])
    plan, tokens = make_plan(ms.Dynamics(noise=0.3), x, seed=[1, 2], **how)
    first = run(plan, tokens, tmp_path / "run")
    again = run(plan, tokens, tmp_path / "run")
    assert np.array_equal(first.x, again.x)
    assert "beyond" in (tmp_path / "run" / "config.toml").read_text()  # a TOML file has one seed
    other, tokens = make_plan(ms.Dynamics(noise=0.3), x, seed=[1, 3], **how)
    with pytest.raises(InputError, match="another run"):
        run(other, tokens, tmp_path / "run")
