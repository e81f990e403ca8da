"""Studies made up for tests: records on disk with datasets of the right shape and numbers that are known."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray

from metastable.models.controls import Controls
from metastable.models.layer_similarity import WEIGHTING
from metastable.models.study import Settings, Study, purpose, read
from metastable.models.study_record import MEASURED
from metastable.store.datasets import write_dataset
from metastable.store.files import write_json
from metastable.store.folder import claim, finish

DEPTH, HEADS, TOKENS, TEXTS, BINS = 3, 4, 6, 3, 20


def similarity(rng: np.random.Generator, layers: int, collapsed: bool = False, **given: float) -> xarray.Dataset:
    """One value for all states; ``given`` sets raw values by name, ``collapsed`` puts all tokens in one point."""
    edges = np.linspace(-1, 1, BINS + 1)
    shape = (layers + 1, 2)
    histogram = rng.random((*shape, BINS))
    cut = ("layer", "kind", "threshold")
    values = {"mean": 0.2, "largest": 0.1, "mixed_share": 0.3, "mixed_clusters": 3.0, "share_above": 0.02, **given}
    if collapsed:
        values |= {"mean": 0.99, "largest": 1.0, "mixed_share": 1.0, "mixed_clusters": 1.0, "share_above": 1.0}
    data = {
        "counts": (("layer", "kind", "bin"), np.ones((*shape, BINS), dtype=int)),
        "histogram": (("layer", "kind", "bin"), histogram / histogram.sum(axis=-1, keepdims=True)),
        "pairs": (("layer", "kind"), np.full(shape, 45)),
        "texts": (("layer", "kind"), np.full(shape, TEXTS)),
        "mean": (("layer", "kind"), np.full(shape, values.pop("mean"))),
        "same_token_base": (("layer", "kind"), np.full(shape, 0.05)),
        "same_token_share": (cut, np.full((*shape, 2), 0.5)),
        "clusters": (cut, np.full((*shape, 2), 5.0)),
        "cluster_share": (cut, np.full((*shape, 2), 0.8)),
        **{name: (cut, np.full((*shape, 2), value)) for name, value in values.items()},
    }
    centres = (edges[1:] + edges[:-1]) / 2
    coords = {"layer": np.arange(layers + 1), "kind": ["raw", "centred"], "threshold": [0.9, 0.99], "bin": centres}
    return xarray.Dataset(
        data, coords, {"edges": edges.tolist(), "weighting": WEIGHTING, "caution": "", "texts": TEXTS}
    )


def heads(rng: np.random.Generator, layers: int, grouped: bool = True) -> xarray.Dataset:
    correlation = np.tile(np.eye(HEADS), (layers, 1, 1))
    high = np.full(layers, 0.6 if grouped else 0.15)
    data = {
        "correlation": (("layer", "head", "other"), correlation),
        "null_correlation": (("layer", "head", "other"), correlation),
        "group": (("layer", "head"), np.tile([0, 0, 1, 1], (layers, 1))),
        "groups": (("layer",), np.full(layers, 2)),
        "silhouette": (("layer",), high),
        "stability": (("layer",), high + 0.1),
        "null_silhouette": (("layer",), np.full(layers, 0.1)),
        "has_groups": (("layer",), np.full(layers, grouped)),
        "received": (("layer", "head", "token"), rng.random((layers, HEADS, TOKENS))),
    }
    words = ["[CLS]", "שלום", "🙂", "$x$", "a\nb", "中"]
    coords = {"layer": np.arange(1, layers + 1), "word": ("token", words)}
    attrs = {"least_silhouette": 0.25, "least_stability": 0.5, "rule": "The rule of groups.", "weighting": WEIGHTING}
    return xarray.Dataset(data, coords, attrs)


def sinks(layers: int, strongest: float = 0.5) -> xarray.Dataset:
    mass = np.full((layers, HEADS, 3), 0.1)
    mass[1, 2, 0] = strongest
    position = np.full((layers, 3), 0.1)
    data = {
        "mass": (("layer", "head", "kind"), mass),
        "position": (("layer", "kind"), position),
        "uniform": (("kind",), np.array([0.1, 0.0, 0.2])),
        "excess": (("layer", "head", "kind"), mass / position[:, None]),
    }
    coords = {"layer": np.arange(1, layers + 1), "kind": ["first", "separator", "punctuation"]}
    return xarray.Dataset(data, coords, {"weighting": WEIGHTING})


def ranks(layers: int) -> xarray.Dataset:
    values = np.tile(np.arange(1.0, HEADS + 1)[None, :, None], (layers, 1, 2))
    data = {
        "effective_rank": (("layer", "head", "text"), values),
        "rank": (("layer", "head", "text"), values.astype(int)),
        "even": (("layer", "text"), np.ones((layers, 2))),
        "tokens": (("text",), np.full(2, TOKENS)),
    }
    return xarray.Dataset(data, {"layer": np.arange(1, layers + 1)}, {"tolerance": 1e-3})


def spectra(rng: np.random.Generator) -> xarray.Dataset:
    both = ("layer", "head")
    values = rng.normal(size=(DEPTH, HEADS, 5)) + 1j * rng.normal(size=(DEPTH, HEADS, 5))
    good = np.zeros((DEPTH, HEADS), dtype=int)
    good[0, :2] = 1
    good[1, 0] = -1
    data = {
        "ov": ((*both, "rank"), values),
        "value_block": ((*both, "rank"), values),
        "qk": ((*both, "form"), np.sort(rng.normal(size=(DEPTH, HEADS, 6)))[..., ::-1]),
        "beta": (both, np.full((DEPTH, HEADS), 3.0)),
        "beta_model": (both, np.full((DEPTH, HEADS), 2.0)),
        "along": (both, np.full((DEPTH, HEADS), np.nan)),
        "good": (both, good),
        "margin": (both, np.full((DEPTH, HEADS), 0.1)),
    }
    return xarray.Dataset(data, {"layer": np.arange(DEPTH)})


def ladder(layers: int, rungs: list[float], frozen: float) -> dict[str, xarray.Dataset]:
    """Rungs at fixed distances (the exact network is added) beside frozen tokens at ``frozen``."""
    wobble = 0.01 * np.arange(TEXTS)[None, :, None]

    def spread(each: list[float]) -> np.ndarray:
        return np.asarray(each)[:, None, None] + wobble + np.zeros(layers + 1)

    dims = ("rung", "text", "layer")
    every = [*rungs, 0.0]
    names = ("gram_distance", "wasserstein", "rand_index", "mean_cosine", "relative_error")
    data: dict[str, Any] = {name: (dims, spread(every)) for name in names}
    data["relative_error"][1][:3] = np.nan
    data["step_error"] = (("rung", "layer"), np.full((5, layers + 1), 0.02))
    data["model_mean_cosine"] = (("text", "layer"), np.full((TEXTS, layers + 1), 0.2))
    data["length"] = (("layer",), np.ones(layers + 1))
    data["exact_error"] = (("layer",), np.full(layers + 1, 1e-12))
    where = {"text": np.arange(TEXTS), "layer": np.arange(layers + 1)}
    parts = ["one head", "all heads", "biases and positions", "residual and norms", "MLP: the network itself"]
    climbed = xarray.Dataset(data, {"rung": np.arange(5), "part": ("rung", parts), **where})
    beside_dims = ("baseline", "text", "layer")
    values = {name: (beside_dims, spread([frozen, 2.0, 1.9])) for name in names[:4]}
    values["constant"] = (("distance",), np.array([0.3, 0.2]))
    coords = {"baseline": ["frozen tokens", "one point", "best constant"], "distance": list(names[:2]), **where}
    four = ("side", "part", "text", "layer")
    table = np.stack([spread(row) for row in ([1.0, 0.5, 2.0], [1.5, 1.5, 1.5], [1.0, 1.5, 1.8])])  # side, part, ...
    sides = ["network without it", "bare without it", "bare with it"]
    alone = dict.fromkeys(names[:2], (four, table)) | {"diverges": (four[:3], np.full(table.shape[:3], -1))}
    return {
        "ladder": climbed,
        "baselines": xarray.Dataset(values, coords),
        "parts": xarray.Dataset(alone, {"side": sides, "part": ["softmax", "heads", "MLP"], **where}),
    }


def cloud(rng: np.random.Generator, layers: int) -> xarray.Dataset:
    place = rng.uniform(-0.6, 0.6, (2, layers + 1, TOKENS, 3))
    place[1, -1, 0] = np.nan
    ones = (("kind", "layer"), np.ones((2, layers + 1)))
    data = {"place": (("kind", "layer", "token", "axis"), place), "seen": ones, "seen_in_space": ones}
    coords = {"kind": ["raw", "centred"], "layer": np.arange(layers + 1), "word": ("token", list("abcdef"))}
    return xarray.Dataset(data, coords)


def made_study(
    folder: Path,
    *,
    name: str = "made-up",
    layers: int = 5,
    control: tuple[str, ...] = ("init", "tokens"),
    maps: bool = True,
    parts: bool = True,
    rungs: tuple[float, ...] = (1.8, 1.7, 1.6, 1.5),
    frozen: float = 0.4,
    grouped: bool = True,
    sink: float = 0.5,
    written: bool = False,
    **given: float,
) -> Study:
    """A finished study with numbers that are known, in memory or on disk; ``given`` sets similarities."""
    rng = np.random.default_rng(0)
    settings = Settings(name, layers=layers, control=control, control_seeds=2)
    data = {"similarity": similarity(rng, layers, **given), "cloud": cloud(rng, layers)}
    if maps:
        data |= {"heads": heads(rng, layers, grouped), "sinks": sinks(layers, sink), "ranks": ranks(layers)}
    for key in ("similarity", "heads", "sinks", "ranks") if control else ():
        if key in data:
            data[f"controls_{key}"] = _repeated(rng, layers, key, control, data[key])
    if parts:
        data |= {"spectra": spectra(rng), **ladder(layers, list(rungs), frozen)}
    facts = {"name": name, "family": "albert", "depth": DEPTH, "heads": HEADS if maps else 0, "dimension": 8}
    facts |= {"shared": True, "causal": False, "parameters": 1234, "digest": "abc", "dtype": "float32"}
    facts |= {"stored": "", "final_norm": False if parts else None, "order": "post", "rotary": False}
    why = "" if parts else "Its weights are not known here."
    promoted = [{"layer": 0, "head": 1, "eigenvalue": [1.0, 0.0], "toward": ["<b>"], "away": ["b"]}] if parts else []
    probe = {"model": facts, "layers": layers, "source": "english", "texts": TEXTS, "tokens": 18, "notes": ["A note."]}
    about: dict[str, dict[str, Any]] = {
        "probe": {**probe, "seconds": {"network": 1.0, "reduction": 1.0}, "climbed": []},
        "spectra": {"absent": why, "promotions": promoted, "triples": []},
        "ladder": {"absent": why, "notes": [], "texts": TEXTS, "tokens": 6, "seconds": 2.0},
    }
    if written:
        _write(folder, settings, data, about)
        return read(folder)
    beside = {key: data.pop(f"controls_{key}", None) for key in (*MEASURED, "ranks")}
    names = ("similarity", "heads", "sinks", "cloud", "ranks", "spectra", "ladder", "baselines", "parts")
    controls = Controls((), **beside) if control else None
    return Study(folder, settings, facts, **{key: data.get(key) for key in names}, controls=controls, about=about)


def _write(folder: Path, settings: Settings, data: dict[str, xarray.Dataset], about: dict[str, dict[str, Any]]) -> None:
    with claim(folder, purpose(settings)):
        for key, values in data.items():
            write_dataset(folder, key, values)
        for step, facts in about.items():
            write_json(folder / f"{step}.json", facts)
        finish(folder, "study")


def _repeated(rng: Any, layers: int, key: str, control: tuple[str, ...], own: xarray.Dataset) -> xarray.Dataset:
    """The dataset of each control: fresh weights collapse, others are like the model."""
    make = {
        "similarity": lambda name: similarity(rng, layers, collapsed=name == "init"),
        "heads": lambda name: heads(rng, layers, grouped=name != "init").drop_vars(("received", "word")),
        "sinks": lambda name: sinks(layers, 0.2),
        "ranks": lambda name: 2.0 * ranks(layers),
    }[key]
    rows = [xarray.concat([make(name), make(name)], "seed", "all") for name in control]
    return (
        xarray.concat(rows, "control", "all").assign_coords(control=list(control), seed=[0, 1]).assign_attrs(own.attrs)
    )
