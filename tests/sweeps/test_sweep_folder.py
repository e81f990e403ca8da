"""What a folder of a sweep may hold besides what its driver wrote: strays, damage, and what a kill left half done."""

import shutil

import pandas
import pytest

import metastable as ms
from metastable import sweeps
from metastable.cli import main
from metastable.errors import InputError
from metastable.sweeps import sweep_driver, sweep_folder
from tests.sweeps import observing
from tests.sweeps.test_driver import config, cut_by_beta, same, watched

pytestmark = pytest.mark.usefixtures("small_chunks")
FAILING = {"length": observing.fails_at_three}


@pytest.fixture
def place(tmp_path):
    ms.sweep(config(), tmp_path / "sweep")
    return tmp_path / "sweep"


@pytest.fixture
def failed(tmp_path, monkeypatch):
    """A sweep of which chunk 2 failed."""
    monkeypatch.setattr(sweep_driver, "cut", cut_by_beta)
    with pytest.raises(InputError, match="1 chunk failed"):
        ms.sweep(config(seeds=2, observe=FAILING), tmp_path / "failed")
    return tmp_path / "failed"


def test_files_of_other_names_are_none_of_its_chunks(place):
    whole = sweeps.read(place)
    chunks = place / "chunks"
    for name in (
        "000/0abc.parquet",
        "000/1.parquet",
        "000/000001 (copy).parquet",
        "007/000001.parquet",
        "000/²²²²²².parquet",
    ):
        (chunks / name).parent.mkdir(exist_ok=True)
        (chunks / name).write_bytes((chunks / "000" / "000001.parquet").read_bytes())
    assert sweeps.sweep_status(place).landed == 3
    (place / "done").unlink()
    same(ms.sweep(config(), place), whole)


def test_a_chunk_with_the_rows_of_another_is_computed_again(place, monkeypatch):
    whole = sweeps.read(place)
    (place / "done").unlink()
    shutil.copy(sweep_folder.chunk_file(place, 0), sweep_folder.chunk_file(place, 2))
    shutil.copy(sweep_folder.chunk_file(place, 0), sweep_folder.chunk_file(place, 9))  # of no chunk of this sweep
    calls = watched(monkeypatch)
    same(ms.sweep(config(), place), whole)
    assert calls == [2]
    assert sweep_folder.numbers_in(place, "chunks") == {0, 1, 2}


def test_the_table_of_before_is_not_taken_for_that_of_an_extended_sweep(place, monkeypatch):
    """Killed after the last new chunk has landed, before the table is written."""

    def killed(folder, numbers):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(sweep_driver, "merge", killed)
        with pytest.raises(KeyboardInterrupt):
            ms.sweep(config(betas=(1.0, 2.0, 3.0, 5.0)), place)
    with pytest.raises(InputError, match="unfinished"):
        sweeps.read(place)
    table = ms.sweep(config(betas=(1.0, 2.0, 3.0, 5.0)), place)
    assert sorted(table["beta"].unique()) == [1.0, 2.0, 3.0, 5.0]
    pandas.testing.assert_frame_equal(pandas.DataFrame(sweeps.read(place)), pandas.DataFrame(table))


def test_a_failure_that_was_mended_before_a_kill_is_forgotten(place):
    """Killed between a chunk's landing and the removal of the record that it had failed."""
    (place / "done").unlink()
    (place / "failed").mkdir()
    sweep_folder.failure_file(place, 1).write_text('{"chunk": 1, "error": "ZeroDivisionError", "parameters": {}}')
    assert len(ms.sweep(config(), place)) == 24
    assert sweeps.sweep_status(place).state == "finished"
    assert not sweep_folder.numbers_in(place, "failed")


@pytest.mark.parametrize("text", ['{"chunk', "[]", "{}", '{"error": "x"}', "\x00"])
def test_a_damaged_record_of_a_failure(failed, monkeypatch, capsys, text):
    sweep_folder.failure_file(failed, 2).write_text(text)
    with pytest.raises(InputError, match=r"damaged \(failed/000002.json"):
        sweeps.sweep_status(failed)
    assert main(["sweep", "--status", str(failed)]) == 2
    calls = watched(monkeypatch)
    with pytest.raises(InputError, match="beta is three"):
        ms.sweep(config(seeds=2, observe=FAILING), failed)  # what cannot be read is tried again, and recorded anew
    assert calls == [2]
    assert sweeps.sweep_status(failed).failed[0]["parameters"]["beta"] == [3.0]


def test_a_column_whose_name_is_no_text_is_damage(tmp_path):
    """Found by tests.fuzz: the name is decoded only when it is looked at, beyond what reads the file."""
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "000.parquet"
    parquet.write_table(pyarrow.table({"caf\u00e9": [1.0]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"caf\xc3\xa9", b"caf\xe9\xe9"))
    with pytest.raises(ValueError, match=r"000\.parquet: "):
        sweep_folder.read_rows(path)
