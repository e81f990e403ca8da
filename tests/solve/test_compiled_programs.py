"""Programs of many shapes in one process: the table of its memory maps does not fill up."""

import numpy as np
import pytest

import metastable as ms
from metastable import compiled_programs
from metastable.backend import jax
from metastable.solve import plan

pytestmark = pytest.mark.skipif(
    not compiled_programs._MAPS.exists(), reason="the maps of a process are counted on Linux"
)


def compiled(count):
    """As many new programs, and the functions that hold them."""
    kept = [jax.jit(lambda x, k=k: x * k + 1.0) for k in range(count)]
    assert [float(f(2.0)) for f in kept] == [2.0 * k + 1.0 for k in range(count)]
    return kept


def test_room_is_made_where_maps_are_short(monkeypatch):
    kept = compiled(12)
    assert compiled_programs._fresh >= 12
    assert not compiled_programs.make_room()  # there are enough
    kept += compiled(12)
    monkeypatch.setattr(compiled_programs, "_most", lambda: 10.0)
    before = compiled_programs._mapped()
    assert compiled_programs.make_room()
    assert compiled_programs._mapped() <= before
    assert kept[1]._cache_size() == 0
    assert float(kept[3](2.0)) == 7.0  # it is compiled again
    assert not compiled_programs.make_room()  # nothing worth a look has been compiled since


def test_a_run_makes_room_and_has_the_same_numbers(monkeypatch):
    x = ms.initial.sphere(5, 3, runs=2)
    seen = []
    monkeypatch.setattr(plan, "make_room", lambda: seen.append(jax.clear_caches()))
    first, again = (
        ms.observe_many(ms.Dynamics(beta=2.0), x, ["order"], t=0.5, save=3, method="tsit5").order.values
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)
    assert len(seen) == 2


def test_systems_without_such_a_table_have_no_limit(monkeypatch, tmp_path):
    monkeypatch.setattr(compiled_programs, "_MOST", tmp_path / "none")
    monkeypatch.setattr(compiled_programs, "_MAPS", tmp_path / "none")
    assert compiled_programs._most.__wrapped__() == float("inf")
    assert compiled_programs._mapped() == 0
