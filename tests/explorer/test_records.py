"""The list of records: whatever lies in the folder, the list is made."""

import json
import os

import pytest

import metastable as ms
from metastable.errors import InputError

pytest.importorskip("nicegui")
from metastable.explorer.records_page import Library

DAMAGED = {
    "not-json": b"{ not",
    "empty": b"",
    "no-object": b"[]",
    "no-kind": b"{}",
    "list-of-kinds": b'{"kind": []}',
    "object-of-kinds": b'{"kind": {"run": 1}}',
    "deep": b"[" * 200_000,
    "no-text": b"\xff\xfe\x00",
}


def put(folder, name, data):
    path = os.fsencode(folder) + b"/" + os.fsencode(name)
    os.mkdir(path)
    with open(path + b"/provenance.json", "wb") as file:
        file.write(data)


def test_damaged_records_are_listed_as_such(tmp_path):
    for name, data in DAMAGED.items():
        put(tmp_path, name, data)
    put(tmp_path, "good", b'{"kind": "run"}')
    found = {name: (kind, state) for name, kind, state in Library(tmp_path).records()}
    assert found.pop("good") == ("run", "unfinished")
    assert set(found) == set(DAMAGED)
    assert all(kind == "?" and state.startswith("damaged: ") for kind, state in found.values())


def test_what_a_damaged_record_lacks_is_said(tmp_path):
    put(tmp_path, "little", b'{"kind": "run"}')
    with pytest.raises(InputError, match=r"provenance\.json: it lacks 'record'"):
        Library(tmp_path).run("little")


def test_a_name_that_is_no_text_is_listed_and_cannot_be_opened(tmp_path):
    try:
        put(tmp_path, b"bad\xff", b'{"kind": "run"}')
    except OSError:
        pytest.skip("this file system takes no such names")
    [(name, kind, state)] = Library(tmp_path).records()
    assert (name, kind) == ("bad\\xff", "?")
    assert "rename" in state
    json.dumps([name, state]).encode()  # what a page is made of
    with pytest.raises(InputError, match="no record"):
        Library(tmp_path).run(name)


@pytest.mark.slow  # runs a sweep, and draws with matplotlib
def test_a_sweep_is_a_page_with_pictures_and_rows(tmp_path):
    settings = {"simulate": {"n": 6, "t": 1.0}, "sweep": {"beta": [1.0, 4.0], "seed": [0, 1], "observe": ["clusters"]}}
    settings["sweep"]["times"] = [1.0]
    ms.sweep(settings, out=tmp_path / "small")
    text = Library(tmp_path).sweep("small").body.decode()
    assert "<svg" in text
    assert text.count("<tr") == 1 + 4
    with pytest.raises(InputError, match="no sweep"):
        Library(tmp_path).sweep("nowhere")
