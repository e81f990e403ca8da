"""Kernels that are kept between processes are those of the sources at hand."""

import shutil
from pathlib import Path

from numba import config

from metastable import engines
from metastable.engines.chart import kernel_steps
from metastable.engines.lanes import lane_steps
from metastable.engines.simd import vectors


def test_a_kernel_is_kept_under_a_name_that_tells_all_sources(monkeypatch, tmp_path):
    assert kernel_steps.run.py_func.__qualname__ == f"run_{vectors.SOURCES}"
    assert vectors.SOURCES in Path(lane_steps.run_group._cache._cache_file._index_name).name
    copied = tmp_path / "metastable" / "engines"
    package = Path(engines.__file__).parents[1]
    shutil.copytree(package, copied.parent, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(vectors, "__file__", str(copied / "simd" / "vectors.py"))
    assert vectors._fingerprint() == vectors.SOURCES
    for changed in (copied / "chart" / "kernels.py", copied / "simd" / "products.py"):
        before = vectors._fingerprint()
        changed.write_text(changed.read_text() + "\n")
        assert vectors._fingerprint() != before


def test_kernels_of_other_sources_are_deleted(monkeypatch, tmp_path):
    home = tmp_path / "kernels"
    names = ("f_0123", f"f_{vectors.SOURCES}")
    there = [home / folder / f"a.{name}-1.nbi" for folder in ("exact_1", "models_2") for name in names]
    for path in there:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.setattr(engines, "kernel_home", lambda: home)
    engines._drop_stale_kernels()
    assert [path.exists() for path in there] == [False, True, True, True]


def test_kernels_live_in_the_users_cache():
    home = vectors.kernel_home()
    assert home is not None
    assert Path(lane_steps.run_group._cache._cache_path).parent == home
    assert config.CACHE_DIR == ""  # other packages' functions are kept where they were


def test_kernels_are_compiled_where_nothing_can_be_kept(monkeypatch):
    monkeypatch.setattr(vectors, "kernel_home", lambda: None)
    assert vectors.kept(nogil=True)(lambda a: a + 1)(1) == 2
