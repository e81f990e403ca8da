"""What the commands do when all is well, and how they resume."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import metastable as ms
from metastable.cli import main
from metastable.config import build, read
from metastable.config.settings import Animate, Plot, Simulate, checked
from tests.cli.conftest import Metastable

SMALL = ("--n", 8, "--t", 1, "--save", 5)
ROOT = Path(__file__).parents[2]


def test_default_run(metastable: Metastable, tmp_path: Path) -> None:
    answer = metastable("simulate", "--out", "first")
    assert answer.code == 0
    assert answer.err == ""
    lines = answer.out.splitlines()
    assert lines[0].startswith("64 tokens on S^2, full attention, beta = 1, rk4, dt = 0.1: reached t = 15. It took")
    assert lines[1].startswith("Clusters at 0.01 rad: ")
    names = {path.name for path in (tmp_path / "first").iterdir()}
    assert names == {"config.toml", "provenance.json", "data.zarr", "done", "figure.png", "film.mp4"}
    run = ms.load(tmp_path / "first")
    assert run.x.shape == (151, 64, 3)
    same = ms.simulate(ms.Dynamics(), ms.initial.sphere(64, 3))  # the same defaults from both sides
    np.testing.assert_allclose(run.x, same.x, atol=1e-12)
    assert (tmp_path / "first" / "film.mp4").stat().st_size > 10_000


def test_json_is_all_there_is(metastable: Metastable, tmp_path: Path) -> None:
    answer = metastable("simulate", *SMALL, "--out", "run", "--no-pictures", "--json")
    assert answer.code == 0
    assert answer.err == ""
    facts = answer.facts
    assert facts["record"] == "run"
    assert facts["how"] == "made"
    assert facts["status"] == "done"
    assert facts["shape"] == [5, 8, 3]
    assert facts["pictures"] == []
    assert facts["valid_until"] is None
    assert set(metastable("list", "--json").facts) >= {"masks", "families", "observables", "plots"}
    picture = metastable("plot", "run", "--json", "--out", "p.svg").facts
    assert picture == {"picture": "p.svg", "notes": []}


def test_a_second_time(metastable: Metastable, tmp_path: Path) -> None:
    metastable("simulate", *SMALL, "--out", "run", "--no-pictures")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    answer = metastable("simulate", *SMALL, "--out", "run", "--no-pictures")
    assert answer.code == 0
    assert answer.out.startswith("The record in run is already complete: nothing was computed or changed.")
    metastable("simulate", *SMALL, "--beta", 2, "--out", "run").refused("another run (beta is 1.0 there and 2.0 here)")
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}


def test_folders_are_named_after_the_run(metastable: Metastable, tmp_path: Path) -> None:
    (tmp_path / "circle.toml").write_text('[simulate]\nn = 8\nd = 2\nt = 1.0\nsave = 5\nV = "1,-1"\n')
    one = metastable("simulate", "circle.toml", "--no-pictures", "--json").facts["record"]
    two = metastable("simulate", "circle.toml", "--no-pictures", "--json").facts
    assert one.startswith("runs/circle-")
    assert (two["record"], two["how"]) == (one, "already complete")
    other = metastable("simulate", "circle.toml", "--seed", 1, "--no-pictures", "--json").facts["record"]
    assert other != one


def test_flags_override_files(metastable: Metastable, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    np.save(tmp_path / "sub" / "V.npy", np.diag([1.0, 2.0]))
    (tmp_path / "sub" / "run.toml").write_text('[simulate]\nn = 8\nt = 1.0\nsave = 5\nV = "V.npy"\nbeta = 2.0\n')
    metastable("simulate", "sub/run.toml", "--beta", -1.5, "--out", "run", "--no-pictures")
    run = ms.load(tmp_path / "run")
    assert run.dynamics.beta == -1.5  # negative beta: attention to unlike tokens
    np.testing.assert_array_equal(run.dynamics.weights.V, [[[1.0, 0.0], [0.0, 2.0]]])
    # the record is whole in itself: its config runs from anywhere
    (tmp_path / "sub" / "V.npy").unlink()
    metastable("simulate", "run/config.toml", "--out", "again", "--no-pictures")
    np.testing.assert_array_equal(ms.load(tmp_path / "again").x, run.x)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "V"),
    [
        ("1,1,-0.5", np.diag([1.0, 1.0, -0.5])),
        ("-1", -np.eye(3)),
        ("-1,-1,1", np.diag([-1.0, -1.0, 1.0])),
        ("2*identity", 2 * np.eye(3)),
        ("goe(seed=4)", ms.weights.goe(3, 4)),
        ("1, 0.5+2i, 0.5-2i", ms.weights.from_eigenvalues([1.0, 0.5 + 2j, 0.5 - 2j])),
        ("1, 0.5+2j, 0.5-2j", ms.weights.from_eigenvalues([1.0, 0.5 + 2j, 0.5 - 2j])),
        ("[[0,1],[-1,0]]", np.array([[0.0, 1.0], [-1.0, 0.0]])),
    ],
)
def test_matrices(given: str, V: np.ndarray, metastable: Metastable, tmp_path: Path) -> None:
    assert (
        metastable("simulate", "--V", given, "--n", 3, "--t", 0, "--save", 1, "--no-pictures", "--out", "r").code == 0
    )
    np.testing.assert_array_equal(ms.load(tmp_path / "r").dynamics.weights.V[0], V)


def test_random_bases_and_families_differ_between_matrices_and_heads(metastable: Metastable, tmp_path: Path) -> None:
    flags = ("--Q", "ginibre", "--K", "ginibre", "--V", "1,2,3@orthogonal", "--heads", 2)
    metastable("simulate", *flags, "--n", 3, "--t", 0, "--save", 1, "--no-pictures", "--out", "r")
    w = ms.load(tmp_path / "r").dynamics.weights
    assert w.heads == 2
    assert not np.allclose(w.Q, w.K)
    assert not np.allclose(w.Q[0], w.Q[1])
    for head in w.V:
        np.testing.assert_allclose(np.linalg.eigvalsh(head), [1.0, 2.0, 3.0])
    assert not np.allclose(w.V[0], w.V[1])


def test_early_ends_are_told(metastable: Metastable) -> None:
    answer = metastable(
        "simulate", "--initial", "cap(angle=0.5)", "--n", 6, "--mask", "full", "--beta", 1, "--until", 1,
        "--t", 40, "--save", 41, "--no-pictures", "--out", "r",
    )  # fmt: skip
    assert "stopped at t =" in answer.out
    assert answer.code == 0
    answer = metastable(
        "simulate", "--geometry", "euclidean", "--V", 60, "--n", 2, "--d", 1, "--t", 20, "--save", 21, "--no-pictures",
        "--out", "d", "--json",
    )  # fmt: skip
    assert answer.facts["status"] == "diverged"
    answer = metastable(
        "simulate", "--geometry", "euclidean", "--V", 60, "--n", 2, "--d", 1, "--t", 20, "--save", "20,",
        "--out", "none",
    )  # fmt: skip
    assert answer.code == 0
    assert "left the range of floats before t = 20" in answer.out
    assert len(ms.load("none")) == 0


def test_pictures_of_a_record(metastable: Metastable, tmp_path: Path) -> None:
    metastable("simulate", *SMALL, "--out", "run", "--no-pictures")
    assert metastable("plot", "run", "--times", "0,0.5", "--first", "red").out == "Picture: run/snapshots.png\n"
    assert metastable("plot", "run", "--kind", "series", "--observable", "energy", "--out", "e.pdf").code == 0
    metastable("plot", "run", "--kind", "snapshot").refused("did you mean 'snapshots'?")
    metastable("plot", "run", "--kind", "series", "--observable", "enrgy").refused("did you mean 'energy'?")
    metastable("plot", "run", "--kind", "series", "--times", 3).refused("has no option 'times'")
    metastable("plot", "run", "--out", "x.bmp").refused("use one of .png, .pdf, .svg")
    metastable("plot", "run", "--view", "3").refused("view must be two angles separated by a comma")
    assert metastable("animate", "run", "--frames", 4, "--size", "64,64", "--out", "a.gif").code == 0
    metastable("animate", "run", "--frames", 0).refused("at least one frame")
    metastable("animate", "run", "--out", "a.avi").refused("use one of .mp4, .gif")
    assert (tmp_path / "e.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "a.gif").read_bytes().startswith(b"GIF")


def test_looks_from_the_file(metastable: Metastable, tmp_path: Path) -> None:
    text = '[simulate]\nn = 8\nt = 1.0\nsave = 5\n[plot]\nfirst = "red"\ntimes = [0.0, 1.0]\n[animate]\nframes = 3\n'
    (tmp_path / "run.toml").write_text(text)
    answer = metastable("simulate", "run.toml", "--out", "run")
    assert answer.code == 0
    assert "Note" not in answer.out
    assert answer.out.count("Picture: ") == 2
    assert metastable("simulate", "run.toml", "--out", "run").out.count("Picture: ") == 0  # they are there


def test_lists(metastable: Metastable) -> None:
    said = metastable("list").out
    for name in (
        "sphere",
        "sinkhorn",
        "causal",
        "distance",
        "dopri8",
        "paranormal",
        "equiangular",
        "hull",
        "snapshots",
    ):
        assert f"\n  {name} " in said
    assert metastable("list", "parts").out.startswith("geometries (--geometry")


def test_interruption_leaves_a_record_to_go_on_from(
    metastable: Metastable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextlib import nullcontext

    from metastable.cli import simulate_command as simulate
    from metastable.progress import Progress
    from metastable.store import recorder

    monkeypatch.setattr(recorder, "_INTERVAL", 0.0)
    metastable("simulate", *SMALL, "--out", "whole", "--no-pictures")
    calls = 0

    def interrupt() -> object:
        def report(progress: Progress) -> None:
            nonlocal calls
            calls += 1
            if calls == 3:
                raise KeyboardInterrupt

        return nullcontext(report)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulate, "progress_bar", interrupt)
        answer = metastable("simulate", *SMALL, "--out", "run", "--no-pictures")
    assert answer.code == 130
    assert answer.out == ""
    assert answer.err.startswith("metastable: Interrupted at t = 0.5; the record in 'run' is unfinished: run the same")
    assert answer.err.count("\n") == 1
    assert answer.err.endswith("(metastable simulate --n 8 --t 1 --save 5 --out run --no-pictures).\n")
    metastable("plot", "run").refused("is unfinished", "partial=True")
    assert metastable("plot", "run", "--partial").code == 0
    answer = metastable("simulate", *SMALL, "--out", "run", "--no-pictures", "--json")
    assert answer.facts["how"] == "resumed"
    assert ms.load(tmp_path / "run").x.tobytes() == ms.load(tmp_path / "whole").x.tobytes()


def test_faults_of_our_own(metastable: Metastable, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("the sky\nis falling")

    monkeypatch.setattr("metastable.config.job.build", fail)
    answer = metastable("simulate", *SMALL)
    assert answer.code == 70
    assert answer.err.count("\n") == 1
    assert "RuntimeError: the sky)" in answer.err
    assert "--traceback" in answer.err
    with pytest.raises(RuntimeError):
        main(["simulate", "--traceback"])
    monkeypatch.setattr("metastable.config.job.build", lambda *args: (_ for _ in ()).throw(MemoryError()))
    metastable("simulate", *SMALL).refused("does not fit in memory")


# --- in a process of its own --------------------------------------------------------------------------------------


def test_help_is_light() -> None:
    """No array library is loaded by --help, and what is takes well under half a second."""
    code = (
        "import sys, time, resource\n"
        "from metastable.cli import main\n"
        "main(['--help'])\n"
        "heavy = {'jax', 'numpy', 'matplotlib', 'xarray', 'zarr', 'torch', 'scipy', 'pandas'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "simulate" in done.stdout
    assert done.stderr == "[]\n"


def test_flags_and_the_names_in_their_tables_are_listed() -> None:
    code = "from metastable.cli import main\nmain(['simulate', '--help'])\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    named = ("n", "d", "beta", "t", "dt", "method", "geometry", "mask", "normalise", "seed", "tokens", "Q", "K", "V")
    for flag in (*named, "save", "out"):
        assert f"--{flag} " in done.stdout
    for part in ("causal", "sinkhorn", "rescaled", "dopri8"):
        assert part in done.stdout
    assert done.stderr == ""


def test_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "metastable", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"metastable {ms.__version__}\n"


def test_examples_are_sound() -> None:
    """Every example builds; running them all is for the slow tests."""
    found = sorted((ROOT / "examples").glob("*.toml"))
    assert len(found) >= 10
    for path in found:
        tables = read(path)
        build(checked(Simulate, tables.merged("simulate", {})))
        checked(Plot, tables.merged("plot", {}))
        checked(Animate, tables.merged("animate", {}))


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda path: path.stem)
def test_examples_run(path: Path, metastable: Metastable) -> None:
    answer = metastable("simulate", path, "--out", "run", "--json")
    assert answer.code == 0
    assert answer.facts["status"] == "done"
    assert len(answer.facts["pictures"]) == 2
    assert answer.facts["notes"] == []


def test_environment_shows_tracebacks() -> None:
    env = {**os.environ, "METASTABLE_TRACEBACK": "1"}
    done = subprocess.run([sys.executable, "-m", "metastable", "simualte"], capture_output=True, text=True, env=env)
    assert "Traceback" in done.stderr


@pytest.mark.slow
def test_json_survives_a_process(tmp_path: Path) -> None:
    words = [
        "simulate",
        "--n",
        "8",
        "--t",
        "1",
        "--save",
        "5",
        "--out",
        str(tmp_path / "run"),
        "--no-pictures",
        "--json",
    ]
    done = subprocess.run([sys.executable, "-m", "metastable", *words], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["status"] == "done"
    assert "Traceback" not in done.stderr
