"""The machine's coefficients: measured, kept for all processes, measured again where nothing can be kept."""

import json

import numpy as np
import pytest

from metastable.engines import calibrate


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("METASTABLE_CACHE", str(tmp_path))
    monkeypatch.setattr(calibrate, "_known", {})
    return tmp_path / "calibration"


@pytest.fixture
def counted(monkeypatch):
    """A group that counts how often it is measured."""
    calls = []

    def measured():
        calls.append(1)
        return {"pair": float(len(calls)), "share": 2.0}

    monkeypatch.setattr(calibrate, "GROUPS", {"rows": (("pair", "share"), measured)})
    return calls


@pytest.mark.slow
def test_everything_is_measured_and_positive():
    found = calibrate.measure()
    assert set(found) == {name for names, _ in calibrate.GROUPS.values() for name in names}
    assert all(np.isfinite(v) and v >= 0 for v in found.values())
    assert found["symmetric_pair"] < found["pair"]
    assert found["tile_pair_float64"] > 0
    assert found["blas_pair_float64"] > 0


def test_the_first_process_decides_for_all(cache, counted, monkeypatch):
    assert calibrate.coefficient("pair") == 1.0
    assert calibrate.coefficient("share") == 2.0
    monkeypatch.setattr(calibrate, "_known", {})  # another process
    assert calibrate.coefficients() == {"pair": 1.0, "share": 2.0}
    assert len(counted) == 1
    (file,) = cache.iterdir()
    calibrate._write(file, {"pair": 9.0, "share": 9.0})
    assert json.loads(file.read_text())["pair"] == 1.0
    assert [path.name for path in cache.iterdir()] == [file.name]


@pytest.mark.parametrize("content", ["", "{", '{"pair": 1.0}', '{"pair": NaN, "share": 1.0}', "[]"])
def test_a_broken_file_is_replaced(cache, counted, content):
    cache.mkdir()
    file = cache / f"rows-{calibrate.machine()}.json"
    file.write_text(content)
    assert calibrate.coefficient("share") == 2.0
    assert json.loads(file.read_text()) == {"pair": 1.0, "share": 2.0}


def test_without_a_folder_it_is_measured_in_this_process(cache, counted):
    cache.parent.mkdir(exist_ok=True)
    cache.write_text("not a folder")
    assert calibrate.coefficient("pair") == calibrate.coefficient("pair") == 1.0
    assert len(counted) == 1


def test_other_features_are_another_machine(monkeypatch):
    before = calibrate.machine()
    monkeypatch.setattr(calibrate, "features", lambda: "+avx2")
    assert calibrate.machine() != before


def test_a_line_through_two_times():
    assert calibrate._line(3.0, 5.0, 1.0, 2.0) == (1.0, 2.0)
    assert calibrate._line(3.0, 2.0, 1.0, 2.0) == (3.0, 0.0)  # noise never makes work free
