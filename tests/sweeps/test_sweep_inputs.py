"""What a user gives to a sweep: arrays, names that are taken, limits and seeds that cannot be, long names."""

import numpy as np
import pytest

import metastable as ms
from metastable.cli import main
from metastable.errors import InputError, Misuse

SMALL = {"n": 4, "d": 2, "t": 0.2}


def swept(simulate=None, sweep=None, **how):
    values = {"beta": [1.0, 2.0], "observe": ["order"], "times": [0.2], **(sweep or {})}
    return ms.sweep({"simulate": {**SMALL, **(simulate or {})}, "sweep": values}, **how)


def test_arrays_are_matrices():
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    asked = [[[0.0, 1.0], [-1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]]
    assert swept({"V": turn}).order.tolist() == swept({"V": asked[0]}).order.tolist()
    as_array, as_lists = (swept(sweep={"V": given}) for given in (np.stack([turn, np.eye(2)]), asked))
    assert as_array.order.tolist() == as_lists.order.tolist()
    assert as_array["V"].tolist() == as_lists["V"].tolist()
    assert swept(sweep={"beta": np.array(2.0)})["beta"].tolist() == [2.0]


@pytest.mark.parametrize("name", ["beta", "noise", "seed", "valid_until", "sample", "run"])
def test_a_column_may_not_cover_a_parameter(name):
    with pytest.raises(InputError, match=f"cannot be called '{name}'"):
        swept({"method": "euler"}, {"noise": [0.0, 0.1], "observe": {name: "order"}})
    with pytest.raises(InputError, match=f"cannot be called '{name}'"):
        swept({"method": "euler"}, {"noise": [0.0, 0.1], "observe": {name: lambda run: run.t}})


@pytest.mark.parametrize(
    "flags", [["--limit", value] for value in ("0", "-1", "nan", "inf", "1e300")] + [["--design-seed", "-1"]]
)
def test_limits_and_seeds_that_cannot_be(flags, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drawn = ["sweep", "--beta", "0.5..9", "--samples", "2", "--n", "4", "--t", "0.2"]
    assert main([*drawn, *flags]) == 2
    said = capsys.readouterr().err
    assert flags[0].strip("-").replace("-", "_") in said
    assert not list(tmp_path.iterdir())


def test_functions_that_cannot_be_sent_to_workers(tmp_path):
    with pytest.raises(InputError, match="cannot be sent") as refused:
        swept(sweep={"observe": {"a": lambda run: run.t}}, jobs=1)
    assert type(refused.value) is InputError


def test_of_a_sweep_without_a_folder_nothing_is_said_to_be_left():
    with pytest.raises(InputError, match="division by zero") as failed:
        swept(sweep={"observe": {"a": lambda run: 1 / 0}})
    assert "The rest is in" not in str(failed.value)


@pytest.mark.parametrize("wrong", [{"out": 3}, {"out": object()}, {"out": "a\0b"}, {"progress": 3}, {"n_jobs": 2}])
def test_misuse_of_a_sweep_is_one_sentence(wrong):
    with pytest.raises(InputError) as refused:
        swept(**wrong)
    assert isinstance(refused.value, Misuse) == ("n_jobs" not in wrong)
    assert "sweep" in str(refused.value)


@pytest.mark.parametrize("name", ["x" * 3000, "x/" * 3000])
def test_names_of_3000_characters(name):
    for call in (lambda: ms.sweep(name), lambda: swept(out=name), lambda: ms.sweeps.read(name), lambda: ms.load(name)):
        with pytest.raises(InputError, match="too long"):
            call()


def test_a_device_is_no_file_of_settings(tmp_path):
    with pytest.raises(InputError, match="too large"):
        ms.sweep("/dev/zero")
    with pytest.raises(InputError, match="no regular file"):
        swept({"tokens": "/dev/zero"})
