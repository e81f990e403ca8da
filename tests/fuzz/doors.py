"""Every door with a way to knock at it: a new door is a function here and a line in DOORS.

A door takes a generator and an empty folder, and raises whatever the package raises; what may be raised is an
InputError. `Sources` holds good examples, made once, which are damaged.
"""

import contextlib
import io
import json
import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import metastable as ms
from metastable.cli import COMMANDS, main
from metastable.config.job import build
from metastable.config.settings import Simulate, checked
from metastable.config.toml_files import read
from metastable.equation.matrices import from_file
from metastable.errors import InputError
from metastable.explorer import steering
from metastable.models import archives, torch_file
from metastable.models.load import load
from metastable.models.probe import trajectory
from metastable.store.datasets import read_dataset, write_dataset
from tests.fuzz.drawing import ODD, VALUES, damage_folder, damaged, word

Door = Callable[[random.Random, Path], object]
KNOWN = [
    *COMMANDS,
    "experiments",
    "masks",
    "sphere",
    "causal",
    "full",
    "rk4",
    "tsit5",
    "layers",
    "euclidean",
    "rescaled",
]
KNOWN += ["softmax", "hardmax", "sinkhorn", "identity", "psd", "dense", "lanes", "cube", "run", "0.2"]
NO_NAME = ("explore", "model", "reproduce", "hunt", "compare", "sweep")  # with a right name these work for long
TOML = b'[simulate]\nn = 4\nd = 2\nbeta = 2.0\nt = 0.2\nmask = "causal"\nV = [[1.0, 0.0], [0.0, -1.0]]\n'
TOML += b'[plot]\nkind = "snapshots"\n'


class Fault(Exception):
    """A command ended with exit code 70 or more than a sentence, a request with 500, or damage was taken for data."""


def command(*words: str) -> None:
    """Run a command, and look at how it ends."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(list(words))
        except SystemExit as end:
            code = int(end.code or 0)
    said = err.getvalue()
    if code not in (0, 1, 2) or "Traceback" in said or (code == 2 and said.count("metastable: ") != 1):
        raise Fault(f"exit code {code}: {said[-300:]}")


def settings(rng: random.Random) -> dict[str, str]:
    """Flags of simulate, few of them, so that most of what is drawn is looked at; runs stay tiny."""
    names = rng.sample(list(Simulate.model_fields), rng.choice((1, 1, 2, 3)))
    found = {"n": "4", "d": "2", "t": "0.2", **{name: word(rng, KNOWN) for name in names if name != "out"}}
    return {name: "4" if name in ("n", "runs") and text == "1e9" else text for name, text in found.items()}


def flags(rng: random.Random, place: Path) -> None:
    build(checked(Simulate, settings(rng)))


def commands(rng: random.Random, place: Path) -> None:
    name = rng.choice(list(COMMANDS))
    if name in NO_NAME or rng.random() < 0.5:
        command(name, *(rng.choice(ODD[:40]) for _ in range(rng.randint(1, 3))), "--no-such-flag")
    elif name == "simulate":
        words = [part for key, text in settings(rng).items() for part in (f"--{key}", text)]
        command(name, *words, "--no-pictures", "--out", str(place / "run"))
    else:
        command(name, *(word(rng, KNOWN[13:]) for _ in range(rng.randint(0, 2))))


def toml(rng: random.Random, place: Path) -> None:
    path = place / "a.toml"
    path.write_bytes(damaged(rng, TOML))
    checked(Simulate, read(path).merged("simulate", {}))
    command("config", str(path))


def numbers(rng: random.Random, place: Path) -> None:
    path = place / rng.choice(("x.npy", "x.csv"))
    if path.suffix == ".npy":
        np.save(path, np.arange(12.0).reshape(4, 3).astype(rng.choice(("f8", "f4", "i4", "?", "U3"))))
    else:
        path.write_text("1,2,3\n4,5,6\n")
    path.write_bytes(damaged(rng, path.read_bytes()))
    from_file(path)


SOURCES = ("record", "sweep", "dataset", "model", "gguf", "older", "newer")  # what lies beside the inputs' folders


@cache
def source(kind: str, home: Path) -> Path:
    """A good example of a kind, made once."""
    place = home / kind
    if kind == "record":
        ms.simulate(ms.Dynamics(ms.Weights(V=np.eye(2))), ms.initial.sphere(4, 2), t=0.2, save=9).save(place)
    elif kind == "sweep":
        design = {"beta": [1.0, 2.0], "observe": ["order"], "times": [0.0, 0.2]}
        ms.sweep({"simulate": {"n": 4, "d": 2, "t": 0.2}, "sweep": design}, place)
    elif kind == "dataset":
        import xarray

        place.mkdir()
        write_dataset(place, "a", xarray.Dataset({"v": (("x",), np.arange(5.0))}, coords={"x": list("abcde")}))
    elif kind == "model":
        place.mkdir()
        small_model(place)
    elif kind == "gguf":
        small_llama(place)
    elif kind in ("older", "newer"):
        import torch

        base = torch.arange(12.0)
        tensors = {"a": base.reshape(3, 4), "b": base[2:9:3], "c": torch.zeros(0, 3), "d": torch.ones(2).half()}
        torch.save(tensors, place, _use_new_zipfile_serialization=kind == "newer")
    return place


def small_model(folder: Path) -> None:
    """A GPT-2 of one layer, as a folder."""
    from safetensors.numpy import save_file

    d, rng = 4, np.random.default_rng(0)
    shapes = {"wte.weight": (9, d), "wpe.weight": (8, d)}
    shapes |= {f"{norm}.{part}": (d,) for norm in ("h.0.ln_1", "h.0.ln_2", "ln_f") for part in ("weight", "bias")}
    for name, rows, columns in (
        ("attn.c_attn", d, 3 * d),
        ("attn.c_proj", d, d),
        ("mlp.c_fc", d, 8),
        ("mlp.c_proj", 8, d),
    ):
        shapes |= {f"h.0.{name}.weight": (rows, columns), f"h.0.{name}.bias": (columns,)}
    save_file({key: rng.normal(size=shape).astype("f4") for key, shape in shapes.items()}, folder / "model.safetensors")
    config = {"model_type": "gpt2", "architectures": ["GPT2Model"], "vocab_size": 9, "n_embd": d, "n_layer": 1}
    config |= {"n_head": 2, "n_positions": 8, "n_inner": 8, "activation_function": "gelu_new"}
    (folder / "config.json").write_text(json.dumps(config))


def spoilt(kind: str, rng: random.Random, place: Path) -> Path:
    """A damaged copy of a good example."""
    folder = place / kind
    shutil.copytree(source(kind, place.parent), folder)
    damage_folder(rng, folder)
    return folder


def records(rng: random.Random, place: Path) -> None:
    found = ms.load(spoilt("record", rng, place), partial=rng.random() < 0.5)
    if found.status != "unfinished" and not np.isfinite(found.x).all():
        raise Fault("a damaged record was read as nan")


def sweep_folders(rng: random.Random, place: Path) -> None:
    from metastable import sweeps

    folder = spoilt("sweep", rng, place)
    sweeps.read(folder, partial=rng.random() < 0.5)
    sweeps.sweep_status(folder)


def datasets(rng: random.Random, place: Path) -> None:
    folder = spoilt("dataset", rng, place)
    try:
        found = read_dataset(folder, "a")
    except (ValueError, OSError, KeyError, TypeError) as error:  # what a study turns into its sentence
        raise InputError(str(error)) from error
    if "v" in found and not np.isfinite(found["v"].values).all():
        raise Fault("a damaged dataset was read as nan")


def small_llama(path: Path) -> None:
    """A Llama of one layer, as a GGUF file."""
    import gguf

    d, heads, rng = 8, 2, np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    for add, value in (
        (writer.add_embedding_length, d),
        (writer.add_feed_forward_length, d),
        (writer.add_block_count, 1),
        (writer.add_head_count, heads),
        (writer.add_head_count_kv, heads),
        (writer.add_context_length, 16),
    ):
        add(value)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e4)
    norms, maps = (
        ("attn_norm", "ffn_norm"),
        ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"),
    )
    shapes = {"token_embd": (9, d), "output_norm": (d,)}
    shapes |= {f"blk.0.{name}": (d,) for name in norms} | {f"blk.0.{name}": (d, d) for name in maps}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", rng.normal(size=shape).astype("f4"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def weights_files(rng: random.Random, place: Path) -> None:
    """A good file, damaged: of GGUF the whole model is read, of torch's two formats every tensor."""
    kind = rng.choice(("gguf", "older", "newer"))
    good, path = source(kind, place.parent), place / ("a.gguf" if kind == "gguf" else "a.bin")
    path.write_bytes(damaged(rng, good.read_bytes()))
    if kind == "gguf":
        trajectory(load(path, library="own"), [1, 2, 3], maps=False)
    else:
        torch_file.read(path)


def model_folders(rng: random.Random, place: Path) -> None:
    model = load(spoilt("model", rng, place), library="own")
    trajectory(model, [1, 2, 3], maps=False)


def archive_files(rng: random.Random, place: Path) -> None:
    import tarfile
    import zipfile

    path, inside = place / "a", place / "b.txt"
    inside.write_text("b" * 50)
    name = rng.choice(("b.txt", "../b.txt", "/b.txt", "a/../../b.txt"))
    if rng.random() < 0.5:
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(inside, name)
    else:
        with tarfile.open(path, rng.choice(("w", "w:gz"))) as archive:
            archive.add(inside, name)
    if rng.random() < 0.8:
        path.write_bytes(damaged(rng, path.read_bytes()))
    (place / "out").mkdir()
    archives.extract(path, {name: "b"}, {"b": 60}, place / "out")


def queries(rng: random.Random, place: Path) -> None:
    names = [*steering.DEFAULTS, "view", "compare", "x"]
    text = "&".join(f"{rng.choice(names)}={word(rng, KNOWN)}" for _ in range(rng.randint(1, 4)))
    steering.settings_of(steering.tidy(steering.from_query(text)))
    steering.moved_of(word(rng, ["0:1,0,0", "1:0,1,0;2:1,0,0"]))


@cache
def client(folder: Path) -> Any:
    """A visitor of the explorer, through its guard."""
    from starlette.testclient import TestClient

    from metastable.explorer import server
    from metastable.explorer.guard import Guard

    server._warm = lambda workshop: None  # what it compiles nobody waits for here
    guarded = Guard(server.application(folder), server.PORT)
    return TestClient(guarded, base_url=f"http://127.0.0.1:{server.PORT}", raise_server_exceptions=False)


def requests(rng: random.Random, place: Path) -> None:
    from urllib.parse import quote

    source("record", place.parent)
    kind = rng.choice(
        ("run", "take/csv", f"take/{word(rng, ['html', 'npz'])}", "record", f"files/{word(rng, KNOWN)}", "probe")
    )
    names = {"record": ["path", "part"], "probe": ["model", "text", "layers", "variant", "part"]}.get(
        kind, [*steering.DEFAULTS, "part", "moved"]
    )
    values = ["record", "record/../record", "first", "reactions-albert", "C" * 5, *KNOWN, "9" * 5000]
    asked = {rng.choice(names): word(rng, values) for _ in range(rng.randint(0, 3))}
    if kind == "run" or kind.startswith("take"):
        asked |= {"n": "4", "t": "0.2"}
    query = "&".join(f"{name}={quote(text)}" for name, text in asked.items())
    answer = client(place.parent).get(f"/{quote(kind)}?{query}", headers=rng.choice(({}, {}, {"origin": "http://["})))
    if answer.status_code not in (200, 400, 403, 404, 414, 422):
        raise Fault(f"/{kind}?{query[:200]}: {answer.status_code} {answer.text[:300]}")


def interface(rng: random.Random, place: Path) -> None:
    targets: list[Any] = [
        ms.Dynamics,
        ms.Weights,
        ms.initial.sphere,
        ms.initial.cap,
        ms.initial.clusters,
        ms.weights.goe,
    ]
    targets += [ms.weights.from_eigenvalues, ms.masks.window, ms.observables.cluster_count, ms.check, ms.load]
    target = rng.choice(targets)
    target(*(rng.choice(VALUES) for _ in range(rng.randint(0, 3))))


DOORS: dict[str, Door] = {
    "flags": flags,
    "commands": commands,
    "toml": toml,
    "numbers": numbers,
    "records": records,
    "sweeps": sweep_folders,
    "datasets": datasets,
    "weights": weights_files,
    "models": model_folders,
    "archives": archive_files,
    "queries": queries,
    "requests": requests,
    "interface": interface,
}
