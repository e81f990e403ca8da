"""Kernels that are kept between processes are those of the sources at hand."""

from pathlib import Path

from metastable import engines as fast
from metastable.engines.chart import kernel_steps as chart_steps
from metastable.engines.lanes import batch as many
from metastable.engines.simd import vectors as lanes


def test_a_kernel_is_kept_under_a_name_that_tells_all_sources(monkeypatch, tmp_path):
    assert chart_steps.run.py_func.__qualname__ == f"run_{lanes.SOURCES}"
    assert lanes.SOURCES in Path(many._run._cache._cache_file._index_name).name
    for source in Path(lanes.__file__).parent.glob("*.py"):
        (tmp_path / "fast").mkdir(exist_ok=True)
        (tmp_path / "fast" / source.name).write_bytes(source.read_bytes())
    beside = Path(lanes.__file__).parent.parent / "rescaled_chart.py"
    (tmp_path / "rescaled_chart.py").write_bytes(beside.read_bytes())
    monkeypatch.setattr(lanes, "__file__", str(tmp_path / "fast" / "lanes.py"))
    assert lanes._fingerprint() == lanes.SOURCES
    for changed in (tmp_path / "fast" / "chart_kernels.py", tmp_path / "rescaled_chart.py"):
        before = lanes._fingerprint()
        changed.write_text(changed.read_text() + "\n")
        assert lanes._fingerprint() != before


def test_kernels_of_other_sources_are_deleted(monkeypatch, tmp_path):
    (tmp_path / "__pycache__").mkdir()
    old, own = (tmp_path / "__pycache__" / f"exact.{name}-1.py311.1.nbc" for name in ("f_0123", f"f_{lanes.SOURCES}"))
    old.touch()
    own.touch()
    monkeypatch.setattr(fast, "__file__", str(tmp_path / "__init__.py"))
    fast._drop_stale_kernels()
    assert own.exists()
    assert not old.exists()
