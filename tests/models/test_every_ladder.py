"""The ladder of every family and form: all rungs, all parts and lone heads, on small random models."""

import numpy as np
import pytest

from metastable.models import ladder, load
from metastable.models.parts_alone import all_systems, compared_systems
from tests.models.conftest import IDS
from tests.models.test_tiny_models import DOUBLE
from tests.models.tiny_models import ROWS, build

TEXTS = [IDS, [2, 9, 30, 4, 44, 12, 6, 21, 7, 33]]
PICTURES = list(np.random.default_rng(0).normal(size=(2, 3, 6, 6)).astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_a_ladder_is_climbed(name):
    """The top rung is the network; every other system stays finite, in both distances, part by part."""
    model = load(build(name))
    climb = ladder(model, TEXTS if model.vocabulary is not None else PICTURES, head=1)
    tolerance = 1e-10 if name in DOUBLE or ROWS[name][0] in DOUBLE else 1e-5
    last = -1 if name == "opt-350m" else None  # the library maps its last state into the space of words
    assert float(climb.data["exact_error"][:last].max()) < tolerance
    assert float(climb.data["relative_error"].sel(rung=4)[:, :last].max()) < 1e-5
    parts = climb.parts
    assert parts is not None
    assert {"attention", "softmax", "heads", "norms", "MLP", "residual"} <= set(parts.part.values.tolist())
    assert (parts["diverges"] == -1).all()
    for key in ("gram_distance", "wasserstein"):
        for data in (climb.data, parts, climb.baselines):
            assert np.isfinite(data[key]).all(), key
    needed = parts["gram_distance"].sel(side="network without it")[:, :, 1:last]
    assert (needed.sel(part=["attention", "heads", "MLP", "residual"]) > 1e-6).all()


def test_the_parts_of_a_model_with_both_kinds_of_positions():
    """MPNet: what is taken from the network, places in the tokens and in the scores, is what the bare system gets."""
    model = load(build("mpnet"))
    compared = compared_systems(model)["positions"]
    start = np.stack([model.parts.start(ids) for ids in TEXTS])
    placeless = np.stack([model.parts.start(ids, positions=False) for ids in TEXTS])
    assert np.abs(start - placeless).max() > 0.01
    systems = all_systems(model, TEXTS, start, 0, (0, 4), True)
    removed, bare, added = (systems[name] for name in compared)
    for system, scores, tokens in ((removed, 0.0, placeless), (bare, 0.0, placeless), (added, 1.0, start)):
        assert system.switches.positions == scores
        np.testing.assert_array_equal(system.start, tokens)
    for name, expected in (("bert", "rung 0"), ("bloom", "bare + positions"), ("llama", "bare + positions")):
        assert compared_systems(load(build(name)))["positions"][2] == expected
    assert compared_systems(load(build("llama")))["positions"][1] == "rung 0"
