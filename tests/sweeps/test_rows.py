"""Every row of a sweep is what `simulate` gives for its parameters."""

import numpy as np
import pytest

import metastable as ms
from metastable.config import Simulate, build
from metastable.errors import InputError
from metastable.sweeps.sweep_settings import read_job
from tests.sweeps import observing

BASE = {"n": 6, "d": 2, "t": 0.5, "mask": "full"}


def alone(base, point, observable, times):
    """One run by `metastable simulate`, observed."""
    job = build(Simulate(**{**base, **point}, save=list(times)))
    plan = job.plan
    run = ms.simulate(plan.dynamics[0], job.x[0], plan.t, plan.dt, plan.method, times, seed=plan.seed)
    return np.asarray(run.observe(observable))


def check_rows(table, base, names, observable, tolerance=1e-12):
    for _, rows in table.groupby("run"):
        point = {name: rows[name].iloc[0] for name in names}
        point = {name: value.item() if hasattr(value, "item") else value for name, value in point.items()}
        expected = alone(base, point, observable, rows["time"].to_numpy())
        assert np.allclose(rows[observable].to_numpy(), expected, rtol=0, atol=tolerance), point


def test_beta_seed_and_size():
    sweep = {
        "beta": [1.0, 4.0],
        "seed": {"start": 3, "count": 2},
        "n": [4, 6],
        "observe": ["order"],
        "times": [0.0, 0.25, 0.5],
    }
    table = ms.sweep({"simulate": BASE, "sweep": sweep})
    assert len(table) == 2 * 2 * 2 * 3
    assert list(table["run"].unique()) == list(range(8))
    assert (table["status"] == "done").all()
    check_rows(table, BASE, ["beta", "seed", "n"], "order")


def test_weights_masks_and_methods():
    sweep = {
        "V": ["goe", "1,-1", "0.5+1j,0.5-1j@orthogonal"],
        "seed": [0, 7],
        "mask": ["full", "causal"],
        "observe": ["order"],
        "times": [0.5],
    }
    table = ms.sweep({"simulate": BASE, "sweep": sweep})
    check_rows(table, BASE, ["V", "seed", "mask"], "order")


def test_noise_is_that_of_the_run_alone():
    base = {**BASE, "method": "euler"}
    sweep = {"noise": [0.1, 0.3], "seed": [0, 1, 2], "observe": ["order"], "times": [0.5]}
    table = ms.sweep({"simulate": base, "sweep": sweep})
    check_rows(table, base, ["noise", "seed"], "order", 1e-10)
    assert table["order"].nunique() == 6


def test_normalisations():
    base = {"n": 5, "d": 2, "t": 0.3, "beta": 1.0}
    sweep = {"normalise": ["softmax", "unnormalised"], "observe": ["order"], "times": [0.3]}
    check_rows(ms.sweep({"simulate": base, "sweep": sweep}), base, ["normalise"], "order")


def test_dataset_and_means():
    sweep = {
        "beta": [1.0, 4.0, 9.0],
        "seed": {"start": 0, "count": 5},
        "observe": ["order", "clusters"],
        "times": [0.0, 0.5],
    }
    table = ms.sweep({"simulate": BASE, "sweep": sweep})
    data = table.dataset()
    assert dict(data.sizes) == {"seed": 5, "beta": 3, "time": 2}
    one = table[(table["beta"] == 4.0) & (table["seed"] == 2) & (table["time"] == 0.5)]
    assert float(data["order"].sel(beta=4.0, seed=2, time=0.5)) == one["order"].iloc[0]
    means = table.means("beta", "time")
    some = table[(table["beta"] == 4.0) & (table["time"] == 0.5)]["order"].to_numpy()
    row = means[(means["beta"] == 4.0) & (means["time"] == 0.5)].iloc[0]
    half = 2.7764451051977987 * some.std(ddof=1) / np.sqrt(5)  # Student's, four degrees of freedom
    assert row["order"] == pytest.approx(some.mean())
    assert row["order_high"] - row["order"] == pytest.approx(half)
    assert row["count"] == 5
    assert len(table.means()) == 6
    pooled = table.means("beta")  # a run counts once: its times are not independent
    each = table[table["beta"] == 4.0].groupby("seed")["order"].mean().to_numpy()
    row = pooled[pooled["beta"] == 4.0].iloc[0]
    assert row["order_high"] - row["order"] == pytest.approx(2.7764451051977987 * each.std(ddof=1) / np.sqrt(5))
    assert row["count"] == 5
    with pytest.raises(InputError, match="did you mean 'beta'"):
        table.means("betta")


def test_a_caption_says_each_thing_once():
    table = ms.sweep({"simulate": {**BASE, "noise": 0.5, "method": "euler"}, "sweep": {"beta": [1.0, 4.0], "times": 2}})
    caption = table.plot("lines", x="beta").caption
    assert "noise = 0.5" in caption
    assert caption.count("t = ") == 1
    assert ".0" not in caption  # numbers as one writes them


def test_drawn_parameters_are_coordinates_of_the_samples():
    sweep = {"beta": {"low": 0.5, "high": 9.0}, "n": {"low": 4, "high": 6}, "samples": 4, "design": "latin",
             "seed": [0, 1], "observe": ["order"], "times": [0.5]}  # fmt: skip
    table = ms.sweep({"simulate": BASE, "sweep": sweep})
    assert len(table) == 8
    data = table.dataset()
    assert set(data.coords) == {"sample", "seed", "time", "beta", "n"}
    assert data["beta"].dims == ("sample",)
    check_rows(table, BASE, ["beta", "n", "seed"], "order")


def test_observables_with_options_axes_and_functions():
    observe = {"met": "similarity_share(above=0.9)", "mean": observing.mean_length, "rank": "rank", "sinks": "sinks"}
    sweep = {"beta": [1.0, 4.0], "observe": observe, "times": [0.0, 0.5]}
    table = ms.sweep({"simulate": {**BASE, "heads": 2}, "sweep": sweep})
    assert {"met", "mean", "rank[0]", "rank[1]", "sinks[1,5]"} <= set(table.columns)
    run = ms.simulate(
        ms.Dynamics(ms.Weights(V=np.stack([np.eye(2)] * 2)), beta=4.0),
        ms.initial.sphere(6, 2, seed=0),
        0.5,
        save=[0.0, 0.5],
    )
    data = table.dataset()
    assert data["sinks"].dims == ("beta", "time", "head", "token")
    assert np.array_equal(data["sinks"].sel(beta=4.0, time=0.5)[1, 5], table["sinks[1,5]"].iloc[-1])
    assert np.allclose(data["rank"].sel(beta=4.0), run.observe("rank"))
    assert data["sinks"].attrs == {"long_name": "mean attention received, with its baseline", "units": "1"}
    assert data["beta"].attrs["long_name"] == "inverse temperature"
    assert (data.attrs["n"], data.attrs["heads"], data.attrs["mask"]) == (6, 2, "full")
    rows = table[table["beta"] == 4.0]
    assert rows["met"].tolist() == run.observe("similarity_share", above=0.9).values.tolist()
    assert np.allclose(rows["mean"], observing.mean_length(run))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"simulate": {}, "sweep": {}}, "several values"),
        ({"simulate": {}, "sweep": {"betta": [1.0]}}, "did you mean 'beta'"),
        ({"simulate": {}, "sweep": {"beta": [1.0], "observe": ["cluster"]}}, "did you mean 'clusters'"),
        ({"simulate": {}, "sweep": {"beta": [1.0], "observe": ["clusters(above=1)"]}}, "option"),
        ({"simulate": {"runs": 4}, "sweep": {"beta": [1.0]}}, "sweep over seed"),
        ({"simulate": {"save": 4}, "sweep": {"beta": [1.0]}}, "times"),
        ({"simulate": {"t": 1.0}, "sweep": {"beta": [1.0], "times": [2.0]}}, "2"),
        ({"simulate": {"d": 2}, "sweep": {"V": ["1,1,1"]}}, "d"),
        ({"simulate": {}, "sweep": {"mask": ["causl"]}}, "causal"),
        ({"simulate": {"n": 4, "d": 2}, "sweep": {"V": ["identity", "nonsense"]}}, "Unknown V"),
        ({"simulate": {"n": 4}, "sweep": {"noise": [0.0, 0.1], "beta": [1.0]}}, r"euler.*noise = 0\.1"),
        ({"simulate": {"n": 4}, "probe": {"model": "x"}, "sweep": {"beta": [1.0]}}, "one target"),
        ({"simulate": {}, "swep": {}}, "did you mean 'sweep'"),
        ("nowhere.toml", "no file"),
        (3, "TOML file or a mapping"),
    ],
)  # fmt: skip
def test_what_cannot_be_swept_is_refused_before_anything_runs(config, said, tmp_path):
    with pytest.raises(InputError, match=said):
        ms.sweep(config, tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


def test_flags_and_files_mean_the_same(tmp_path):
    file = tmp_path / "a.toml"
    ranges = "beta = {start = 0.5, stop = 9.0, count = 4}\nseed = {start = 0, count = 50}"
    file.write_text(f'[simulate]\nn = 6\n[sweep]\n{ranges}\nobserve = ["clusters"]\n')
    by_file = read_job(file)
    by_flags = read_job(None, {"n": "6", "beta": "0.5:9:4", "seed": "0:50", "observe": "clusters"})
    assert by_file.design == by_flags.design
    assert by_file.spec.observe == by_flags.spec.observe
    over = read_job(file, {"beta": "3", "n": "8"})
    assert over.design.axes["beta"] == (3.0,)
    assert over.spec.base == {"n": "8"}


def test_axes_that_shape_a_run_come_first():
    def order(**sweep):
        return list(read_job({"simulate": {}, "sweep": sweep}).design.axes)

    drawn = {"low": 1.0, "high": 2.0}
    assert order(beta=[1.0], seed=[0], n=[4, 8], V=["goe"]) == ["n", "V", "seed", "beta"]
    assert order(beta=drawn, samples=3, n=[4, 8], seed=[0]) == ["n", "sample", "seed"]
    assert order(t=drawn, samples=3, seed=[0]) == ["sample", "seed"]
