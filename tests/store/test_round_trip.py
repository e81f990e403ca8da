"""What goes into a record comes out of it, to the last bit."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import metastable as ms
from metastable import store as record
from metastable.config import build, read
from metastable.config.settings import Simulate, checked
from metastable.errors import InputError
from metastable.solve.plan import make_plan
from tests.store.runs import MORE_PARTS, RUNS, assert_same_parts, assert_same_run, made


@pytest.mark.filterwarnings("ignore:.*Rounding:RuntimeWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if "adaptive" in n or n == "noise" else n for n in RUNS]
)
def test_saved_runs_come_back(name: str, tmp_path: Path) -> None:
    dynamics, x0, options = RUNS[name]
    run = ms.simulate(dynamics, x0, **options, progress=lambda t: None)  # watched: the code compiled for records
    folder = run.save(tmp_path / "run")
    again = ms.load(folder)
    assert_same_run(run, again)
    assert dict(again.provenance) == dict(run.provenance)
    np.testing.assert_array_equal(run.attention(-1), again.attention(-1))


@pytest.mark.parametrize(
    "name", [name if k % 4 == 0 else pytest.param(name, marks=pytest.mark.slow) for k, name in enumerate(MORE_PARTS)]
)
def test_every_part_comes_back(name: str, tmp_path: Path) -> None:
    dynamics, x0 = MORE_PARTS[name], ms.initial.sphere(5, 4)
    run = ms.Trajectory(np.arange(2.0), np.stack([x0, -x0]), dynamics)
    again = ms.load(run.save(tmp_path / "run"))
    assert_same_parts(dynamics, again.dynamics)
    np.testing.assert_array_equal(dynamics.velocity(0.3, x0), again.dynamics.velocity(0.3, x0))


@pytest.mark.parametrize(
    "name", ["sphere", "rescaled", "stopped", pytest.param("adaptive", marks=pytest.mark.slow), "noise", "float32"]
)
def test_config_of_a_record_makes_the_same_run(name: str, tmp_path: Path) -> None:
    plan, x, until = made(name)
    first = record.run(plan, x, tmp_path / "one", until)
    job = build(checked(Simulate, read(tmp_path / "one" / "config.toml").merged("simulate", {})))
    second = record.run(job.plan, job.x, tmp_path / "two", job.until, job.recipe)
    assert_same_run(first, second)
    third = record.run(job.plan, job.x, tmp_path / "one", job.until, job.recipe)  # it is the same run: read it
    assert_same_run(first, third)


def test_simulating_into_a_folder_twice_reads_it(tmp_path: Path) -> None:
    plan, x, until = made("sphere")
    first = record.run(plan, x, tmp_path / "run", until)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    assert_same_run(first, record.run(plan, x, tmp_path / "run", until))
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}


def test_arrays_open_with_xarray(tmp_path: Path) -> None:
    import xarray

    plan, x, until = made("stopped")
    run = record.run(plan, x, tmp_path / "run", until)
    assert len(run) < len(plan.times)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = xarray.open_zarr(tmp_path / "run" / "data.zarr").load()
    assert data.x.dims == ("time", "token", "coordinate")
    np.testing.assert_array_equal(data.x, run.x)
    np.testing.assert_array_equal(data.time, run.t)
    np.testing.assert_array_equal(data.x0, x[0])


@pytest.mark.parametrize("status", ["done", "steady", "plateau", "stopped", "unconverged", "stalled", "diverged"])
@pytest.mark.parametrize("valid", [None, 0.0, 1.0])
def test_status_and_certified_time(status: str, valid: float | None, tmp_path: Path) -> None:
    x = np.stack([ms.initial.sphere(5, 4)] * 2)
    run = ms.Trajectory(np.arange(2.0), x, ms.Dynamics(), status, "A sentence.", valid)
    again = ms.load(run.save(tmp_path / "run"))
    assert (again.status, again.message, again.valid_until) == (status, "A sentence.", valid)
    stored = json.loads((tmp_path / "run" / "provenance.json").read_text())
    assert stored["valid_until"] == valid  # null: nothing was certified


def test_tokens_measured_in_a_model(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((4, 5, 3)).astype(np.float32)
    A = np.full((4, 2, 5, 5), 0.2)
    run = ms.Trajectory(np.arange(4.0), x, kept_attention=A, provenance={"model": "none", "texts": ["a"]})
    again = ms.load(run.save(tmp_path / "run"))
    assert again.dynamics is None
    assert again.missing == ()
    assert again.x.dtype == np.float32
    np.testing.assert_array_equal(again.x, x)
    np.testing.assert_array_equal(again.attention(1), A[1])
    assert again.provenance == run.provenance


def test_functions_are_said_not_to_be_saved(tmp_path: Path) -> None:
    dynamics = ms.Dynamics(mask=lambda i, j: i == j)
    run = ms.simulate(dynamics, ms.initial.sphere(3, 2), t=1.0, save=3)
    with pytest.warns(UserWarning, match=r"Functions cannot be saved \(mask\)"):
        run.save(tmp_path / "run")
    again = ms.load(tmp_path / "run")
    assert again.dynamics is None
    assert again.missing == ("mask",)
    np.testing.assert_array_equal(again.x, run.x)
    assert ms.load(again.save(tmp_path / "copy")).missing == ("mask",)
    whole = record.load(tmp_path / "run", dynamics=dynamics)
    assert whole.missing == ()
    assert whole.attention(-1).shape == (1, 3, 3)
    assert "[python]" in (tmp_path / "run" / "config.toml").read_text()
    with pytest.raises(InputError, match="which only Python can make again"):
        read(tmp_path / "run" / "config.toml")


def test_a_run_with_functions_is_not_taken_for_another(tmp_path: Path) -> None:
    dynamics = ms.Dynamics(mask=lambda i, j: i == j)
    plan, x = make_plan(dynamics, ms.initial.sphere(3, 2), t=1.0, save=3)
    run = record.run(plan, x, tmp_path / "run")
    np.testing.assert_array_equal(record.load(tmp_path / "run").x, run.x)
    with pytest.raises(InputError, match="cannot be decided"):
        record.run(plan, x, tmp_path / "run")


def test_records_are_never_overwritten(tmp_path: Path) -> None:
    plan, x, until = made("sphere")
    run = record.run(plan, x, tmp_path / "run", until)
    with pytest.raises(InputError, match="already holds a record"):
        run.save(tmp_path / "run")
    with pytest.raises(InputError, match=r"another run \(seed is 0 there and 5 here\)"):
        record.run(replace(plan, seed=5), x, tmp_path / "run", until)
    with pytest.raises(InputError, match="another run"):
        record.run(plan, x[:, ::-1], tmp_path / "run", until)
    assert_same_run(run, record.load(tmp_path / "run"))


def test_other_folders_are_not_touched(tmp_path: Path) -> None:
    plan, x, until = made("sphere")
    (tmp_path / "thesis.tex").write_text("x")
    for act in (lambda: record.run(plan, x, tmp_path, until), lambda: ms.simulate(*RUNS["sphere"][:2]).save(tmp_path)):
        with pytest.raises(InputError, match=r"is not empty and holds no record \(thesis.tex\)"):
            act()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(InputError, match="is a file"):
        record.run(plan, x, tmp_path / "thesis.tex", until)
    with pytest.raises(InputError, match="Cannot write to"):
        record.run(plan, x, tmp_path / "thesis.tex" / "run", until)
