"""Bytes of a run for the player: read back as the player reads them."""

import json
import struct

import numpy as np
import pytest

import metastable as ms
from metastable.explorer.offline_page import MODULES, asset, script
from metastable.explorer.payload import TYPES, encode, pack


def read(data):
    assert data[:4] == b"MSP1"
    length = struct.unpack("<I", data[4:8])[0]
    header = json.loads(data[8 : 8 + length])
    arrays = {}
    for name, place in header["arrays"].items():
        start = 8 + length + place["at"]
        assert start % 4 == 0
        count = int(np.prod(place["shape"], dtype=int))
        arrays[name] = np.frombuffer(data, TYPES[place["type"]], count, start).reshape(place["shape"])
    return header, arrays


def sphere_run(n=12, d=3, mask="causal", **options):
    return ms.simulate(ms.Dynamics(beta=9.0, mask=mask), ms.initial.sphere(n=n, d=d, seed=0), t=3.0, save=7, **options)


def test_tokens_times_and_attention_arrive():
    run = sphere_run()
    header, arrays = read(pack(run))
    assert (header["kind"], header["n"], header["T"], header["causal"]) == ("sphere", 12, 7, True)
    np.testing.assert_allclose(arrays["tokens"], run.x, atol=1e-6)
    np.testing.assert_allclose(arrays["t"], run.t, rtol=1e-6)
    for k in (0, 6):
        sent = arrays["attention"][arrays["attentionAt"][k]] / 255 * header["attentionTop"]
        np.testing.assert_allclose(sent, run.attention(k), atol=0.5 / 255 + 1e-6)


@pytest.mark.parametrize(
    ("geometry", "d", "kind"),
    [("sphere", 2, "circle"), ("sphere", 5, "ball"), ("euclidean", 1, "line"), ("euclidean", 2, "plane"),
     ("euclidean", 3, "box"), ("euclidean", 6, "cloud")],
)  # fmt: skip
def test_every_space_has_a_scene_that_holds_its_tokens(geometry, d, kind):
    x = ms.initial.sphere(n=9, d=d) if geometry == "sphere" else ms.initial.cube(n=9, d=d)
    run = ms.simulate(ms.Dynamics(geometry=geometry, beta=0.5), x, t=1.0, save=4)
    header, arrays = read(pack(run))
    assert header["kind"] == kind
    assert np.abs(arrays["tokens"]).max() <= 1 + 1e-6
    if kind in ("plane", "box"):
        back = arrays["tokens"] * header["axes"]["half"] + header["axes"]["centre"]
        np.testing.assert_allclose(back[..., :d], run.x, rtol=1e-4, atol=1e-4)


def test_a_run_that_grows_is_fitted_at_every_time():
    run = ms.simulate(ms.Dynamics(geometry="euclidean"), ms.initial.cube(n=9, d=2), t=4.0, save=9)
    header, arrays = read(pack(run))
    assert header["grows"]
    fitted = (arrays["tokens"] - arrays["fit"][:, None, :3]) / arrays["fit"][:, None, 3:]
    np.testing.assert_allclose(np.abs(fitted).max(axis=(1, 2)), 1.0, atol=1e-3)


def test_clusters_keep_their_rank_and_lone_tokens_have_none():
    run = ms.simulate(ms.Dynamics(beta=1.0), ms.initial.cap(n=10, d=3, seed=1), t=20.0, save=21)
    _, arrays = read(pack(run))
    assert (arrays["cluster"][-1] == 0).all()
    assert arrays["clusters"][-1] == 1
    assert (arrays["cluster"][0] == 255).sum() >= 5


def test_many_tokens_and_states_are_thinned_and_say_nothing_false():
    x = np.random.default_rng(0).standard_normal((1500, 40, 2))
    run = ms.Trajectory(np.arange(1500.0), x)
    header, arrays = read(pack(run))
    assert header["T"] == len(arrays["t"]) <= 601
    assert arrays["t"][-1] == 1499
    assert "attention" not in arrays


def test_numbers_that_are_not_finite_never_reach_the_header():
    assert b'"a": null' in encode({"a": float("inf")}, {})


def test_modules_become_one_script_without_imports():
    text = script()
    assert "import {" not in text
    assert "\nexport " not in text
    for name in MODULES:
        listed = [line.split('"./')[1].removesuffix('.js";') for line in asset(f"{name}.js").splitlines()
                  if line.startswith("import ")]  # fmt: skip
        assert set(listed) <= set(MODULES[: MODULES.index(name)]), name


def test_pages_load_nothing_from_elsewhere(tmp_path):
    text = sphere_run().export(tmp_path / "run.html", title="<b>a & b</b>").read_text()
    assert "&lt;b&gt;a &amp; b&lt;/b&gt;" in text
    assert "http://" not in text
    assert "https://" not in text
    with pytest.raises(ms.InputError, match="suffix"):
        sphere_run().export(tmp_path / "run.txt")
    with pytest.raises(ms.InputError, match="theme"):
        sphere_run().export(tmp_path / "run.html", theme="pink")


def test_view_is_the_same_page_in_a_frame():
    shown = sphere_run().view(height=300)
    assert "srcdoc=" in shown._repr_html_()
    assert "<script" not in shown._repr_html_().split("srcdoc=")[0]
    with pytest.raises(ms.InputError, match="height"):
        sphere_run().view(height=3)
