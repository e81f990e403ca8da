"""Everything a user can get wrong: exit code 2, one sentence, no half-written record."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Metastable

# flags -> what the sentence says
FLAGS: dict[str, tuple[list[object], list[str]]] = {
    "no tokens": (["--n", 0], ["n must be a whole number >= 1, not 0"]),
    "negative n": (["--n", -3], ["n must be"]),
    "n in words": (["--n", "many"], ["n must be a whole number, not 'many'"]),
    "fraction of n": (["--n", 2.5], ["n must be a whole number"]),
    "no dimension": (["--d", 0], ["d must be a whole number >= 1"]),
    "nan beta": (["--beta", "nan"], ["beta must be a finite number, not nan"]),
    "infinite beta": (["--beta", "inf"], ["beta must be a finite number", "hardmax"]),
    "no step": (["--dt", 0], ["dt must be a finite number > 0"]),
    "backward step": (["--dt", -0.1], ["dt must be"]),
    "backward time": (["--t", -1], ["t must be a finite number >= 0"]),
    "nan time": (["--t", "nan"], ["t must be"]),
    "too many steps": (["--t", 1e9, "--dt", 1e-3], ["steps of dt"]),
    "save beyond t": (["--save", "0,99"], ["Save times must lie in [0, t] = [0, 15]"]),
    "save before 0": (["--save", "-1,2"], ["Save times must lie in"]),
    "save backwards": (["--save", "3,2"], ["Save times must increase"]),
    "save nothing": (["--save", 0], ["save must ask for at least one time"]),
    "save words": (["--save", "often"], ["save must be a number of times", "'often'"]),
    "save nan": (["--save", "0,nan"], ["save must be"]),
    "unknown mask": (["--mask", "casual"], ["did you mean 'causal'?"]),
    "unknown geometry": (["--geometry", "spere"], ["did you mean 'sphere'?"]),
    "unknown normalisation": (["--normalise", "sofmax"], ["did you mean 'softmax'?"]),
    "unknown score": (["--score", "dots"], ["did you mean 'dot'?"]),
    "unknown method": (["--method", "rk5"], ["did you mean 'rk4'?"]),
    "unknown cloud": (["--initial", "cupe"], ["did you mean 'cube'?"]),
    "unknown option of a cloud": (["--initial", "cap(angel=1)"], ["did you mean 'angle'?"]),
    "option without value": (["--initial", "cap(1)"], ["written name=value"]),
    "option in words": (["--initial", "cap(angle=wide)"], ["angle of 'cap' must be a number"]),
    "cloud of an ensemble": (["--initial", "equiangular", "--runs", 3, "--n", 3], ["no ensemble"]),
    "unknown family": (["--V", "geo"], ["did you mean 'goe'?", "eigenvalues such as"]),
    "unknown basis": (["--V", "1,1,2@ortogonal"], ["did you mean 'orthogonal'?"]),
    "unpaired eigenvalues": (["--V", "1+1j,2,3"], ["conjugate pairs"]),
    "nan eigenvalue": (["--V", "nan,1,1"], ["finite"]),
    "infinite V": (["--V", "inf"], ["V holds nan or inf"]),
    "ragged matrix": (["--V", "[[1,2],[3]]"], ["rows of equal length"]),
    "broken matrix": (["--V", "[[1,2],[3,4]"], ["V is not a matrix"]),
    "V of another dimension": (["--d", 3, "--V", "1,2"], ["dimension 3", "dimension 2"]),
    "Q and V apart": (["--Q", "1,2", "--V", "1,2,3"], ["one dimension"]),
    "unknown position": (["--position", "rotery"], ["did you mean 'rotary'?"]),
    "rotary in odd width": (["--position", "rotary"], ["even head width"]),
    "no heads": (["--heads", 0], ["heads must be a whole number >= 1"]),
    "no runs": (["--runs", 0], ["number of runs must be at least 1"]),
    "negative seed": (["--seed", -1], ["seed must be a whole number"]),
    "seed of a family": (["--V", "goe(seed=-1)"], ["A seed is a whole number >= 0"]),
    "huge seed of a family": (["--V", "goe(seed=1e9)"], ["A seed is a whole number >= 0"]),
    "astronomically many heads": (["--heads", 10**18], ["more than this machine has", "heads"]),
    "as many drawn heads": (["--heads", 10**12, "--V", "goe"], ["more than this machine has"]),
    "a long name": (["--tokens", "a" * 3000 + ".npy"], ["File name too long"]),
    "many saves of many tokens": (["--n", 10**6, "--save", 10**5], ["more than this machine has", "arrays of a step"]),
    "huge seed": (["--seed", 2**70], ["seed must be a whole number"]),
    "noise with rk4": (["--noise", 0.1], ["method='euler'"]),
    "negative noise": (["--noise", -1, "--method", "euler"], ["noise must be"]),
    "sinkhorn and causal": (["--normalise", "sinkhorn", "--mask", "causal"], ["sinkhorn needs mask='full'"]),
    "rescaled heads": (["--geometry", "rescaled", "--heads", 2], ["one head"]),
    "unknown stop": (["--until", "bored"], ["until must be 'steady'"]),
    "unknown dtype": (["--dtype", "float16"], ["did you mean"]),
    "bad tolerance": (["--rtol", 0], ["rtol must be"]),
    "too much memory": (["--n", 10**10], ["more than this machine has"]),
    "unknown flag": (["--bta", 1], ["--bta", "--beta"]),
    "flag without value": (["--beta"], ["--beta", "requires an argument"]),
    "two files": (["a.toml", "b.toml"], ["b.toml"]),
    "missing file": (["nothing.toml"], ["There is no file 'nothing.toml'"]),
    "missing tokens": (["--tokens", "nothing.npy"], ["There is no file 'nothing.npy'"]),
    "missing V": (["--V", "nothing.csv"], ["There is no file 'nothing.csv'"]),
    "model that is not there": (["--V", "model:no-such-model/head=0/top=3"], []),
}


@pytest.mark.parametrize("name", FLAGS)
def test_flags(name: str, metastable: Metastable, tmp_path: Path) -> None:
    flags, fragments = FLAGS[name]
    metastable("simulate", *flags, "--out", "run").refused(*fragments)
    assert list(tmp_path.iterdir()) == []


class Boom:
    """Unpickled, it would make a folder."""

    def __reduce__(self) -> object:
        return (os.mkdir, ("executed",))


def write_pickle(path: Path) -> None:
    np.save(path, np.array([Boom()], dtype=object), allow_pickle=True)


def write_cut(path: Path) -> None:
    np.save(path, np.ones((50, 3)))
    path.write_bytes(path.read_bytes()[:300])


HUGE = "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 3)}"


def write_header(path: Path, text: str) -> None:
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + b"\0" * 72)


FILES = {
    "pickle": ("x.npy", write_pickle, "Cannot read numbers from x.npy"),
    "plain pickle": ("x.npy", lambda p: p.write_bytes(pickle.dumps(Boom())), "Cannot read numbers from x.npy"),
    "cut": ("x.npy", write_cut, "Cannot read numbers from x.npy"),
    "empty": ("x.npy", lambda p: p.write_bytes(b""), "Cannot read numbers from x.npy"),
    "words": ("x.csv", lambda p: p.write_text("a,b\nc,d\n"), "Cannot read numbers from x.csv"),
    "not text": ("x.csv", lambda p: p.write_bytes(bytes(range(128, 256))), "Cannot read numbers from x.csv"),
    "ragged": ("x.csv", lambda p: p.write_text("1,2\n3\n"), "Cannot read numbers from x.csv"),
    "complex": ("x.npy", lambda p: np.save(p, np.ones((4, 3)) * 1j), "Cannot read numbers from x.npy"),
    "nan": ("x.npy", lambda p: np.save(p, np.full((3, 3), np.nan)), "nan or inf"),
    "inf": ("x.csv", lambda p: p.write_text("1,inf,0\n0,1,0\n0,0,1\n"), "nan or inf"),
    "truth values": ("x.npy", lambda p: np.save(p, np.ones((4, 3)) > 0), "it holds bool data"),
    "broken header": ("x.npy", lambda p: write_header(p, "{'descr': '<f8', 'shape': (3,"), "Cannot read numbers"),
    "header of words": ("x.npy", lambda p: write_header(p, "import os"), "Cannot read numbers"),
    "no shape": ("x.npy", lambda p: write_header(p, "{'descr': '<f8', 'fortran_order': False}"), "Cannot read numbers"),
    "huge shape": ("x.npy", lambda p: write_header(p, HUGE), "too short for shape"),
    "folder": ("x.npy", lambda p: p.mkdir(), "There is no file 'x.npy'"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("flag", ["--tokens", "--V"])
def test_files_of_numbers(name: str, flag: str, metastable: Metastable, tmp_path: Path) -> None:
    file, write, fragment = FILES[name]
    write(tmp_path / file)
    metastable("simulate", flag, file, "--out", "run").refused(fragment)
    assert [path.name for path in tmp_path.iterdir()] == [file]


@pytest.mark.parametrize(
    ("flag", "shape", "fragment"),
    [
        ("--tokens", (3,), "tokens need shape (n, d)"),
        ("--tokens", (0, 3), "tokens need shape (n, d)"),
        ("--V", (2, 3), "V must be square"),
        ("--V", (0, 0), "none of them empty"),
        ("--V", (2, 2, 2, 2), "must have 2 or 3 axes"),
        ("--Q", (2, 3), "Q and K must have as many rows"),
    ],
)
def test_wrong_shapes(flag: str, shape: tuple[int, ...], fragment: str, metastable: Metastable, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(shape))
    metastable("simulate", flag, "x.npy", "--out", "run").refused(fragment)


def test_tokens_and_sizes_that_disagree(metastable: Metastable, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(3))
    metastable("simulate", "--tokens", "x.npy", "--n", 5).refused("has n = 3; leave out n")
    metastable("simulate", "--tokens", "x.npy", "--d", 2).refused("has d = 3; leave out d")
    metastable("simulate", "--tokens", "x.npy", "--initial", "cap").refused("either tokens or initial")
    np.save(tmp_path / "zero.npy", np.zeros((2, 3)))
    metastable("simulate", "--tokens", "zero.npy").refused("A token at 0 has no direction")
    np.save(tmp_path / "V.npy", np.ones((2, 3, 3)))
    metastable("simulate", "--V", "V.npy", "--heads", 3).refused("leave out heads")


def test_tokens_off_the_sphere_are_projected_and_it_is_said(metastable: Metastable, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", 3.0 * np.eye(3))
    answer = metastable("simulate", "--tokens", "x.npy", "--t", 0.5, "--save", 2, "--no-pictures", "--out", "run")
    assert answer.code == 0
    assert "Note: Tokens were not on the unit sphere and have been projected onto it." in answer.out
    assert answer.err == ""


TOMLS = {
    "broken": ("[simulate\nn = 3", "Cannot read run.toml as TOML"),
    "not text": (b"\xff\xfe", "Cannot read run.toml as TOML"),
    "deep": ("a = " + "[" * 50_000, "Cannot read run.toml as TOML"),
    "unknown key": ("[simulate]\nbetta = 1", "did you mean 'beta'?"),
    "unknown table": ("[simulat]\nn = 1", "did you mean 'simulate'?"),
    "outside a table": ("n = 3", "put it under [simulate]"),
    "not a number": ('[simulate]\nbeta = "warm"', "beta must be a number, not 'warm'"),
    "true": ("[simulate]\nn = true", "n must be a whole number, not True"),
    "list": ("[simulate]\nt = [1, 2]", "t must be a number, not [1, 2]"),
    "nan": ("[simulate]\nbeta = nan", "beta must be a finite number, not nan"),
    "matrix of words": ('[simulate]\nV = [["a"]]', "V must be a list of rows"),
    "matrix with nan": ("[simulate]\nV = [[nan]]", "V holds nan or inf"),
    "table for a number": ("[simulate]\nn = {a = 1}", "n must be a whole number"),
    "unknown look": ('[plot]\nfirts = "red"', "did you mean 'first'?"),
    "unknown look of the film": ("[animate]\nframe = 3", "did you mean 'frames'?"),
}


@pytest.mark.parametrize("name", TOMLS)
def test_toml_files(name: str, metastable: Metastable, tmp_path: Path) -> None:
    text, fragment = TOMLS[name]
    (tmp_path / "run.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    metastable("simulate", "run.toml", "--out", "run").refused(fragment)
    assert not (tmp_path / "run").exists()


def test_a_folder_for_a_file(metastable: Metastable, tmp_path: Path) -> None:
    metastable("simulate", tmp_path).refused("is a folder; give a TOML file")


def test_where_nothing_can_be_written(metastable: Metastable, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    metastable("simulate", "--out", "file").refused("is a file; give a folder")
    metastable("simulate", "--out", "file/run").refused("Cannot write to 'file/run'")
    metastable("simulate", "--out", "/proc/no/where").refused("Cannot write to '/proc/no/where'")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("x")
    metastable("simulate", "--out", "full").refused("is not empty and holds no record (notes.txt)")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["notes.txt"]


def test_commands(metastable: Metastable) -> None:
    metastable("simualte").refused("did you mean 'simulate'?")
    metastable("list", "familes").refused("did you mean 'families'?")
    metastable("plot").refused("RECORD")
    metastable("plot", "nowhere").refused("There is no record 'nowhere'")
    metastable("animate", "nowhere").refused("There is no record 'nowhere'")
    metastable("plot", ".").refused("'.' is no record")
