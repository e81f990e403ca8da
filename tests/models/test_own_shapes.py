"""Weights whose shapes do not fit each other are refused when a model is read, not when it is run."""

from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from metastable.errors import InputError
from metastable.models import load
from metastable.models.parts import Parts
from tests.fuzz.doors import small_model


@pytest.mark.parametrize("name", ["h.0.ln_1.weight", "h.0.ln_2.bias", "ln_f.weight", "ln_f.bias", "h.0.mlp.c_fc.bias"])
def test_a_tensor_of_another_width_is_refused(tmp_path, name):
    small_model(tmp_path)
    assert load(tmp_path, library="own").dimension == 4
    path = tmp_path / "model.safetensors"
    save_file({**load_file(path), name: np.ones(5, "f4")}, path)
    with pytest.raises(InputError, match="do not fit its config"):
        load(tmp_path, library="own")


def test_layers_are_compared_once():
    """A damaged file may name millions of layers: comparing each with all before it never ended."""
    paths = [f"layer.{k % 300_000}" for k in range(600_000)]
    parts = Parts("many", SimpleNamespace(layers=lambda config: paths), {}, None)
    assert parts.distinct == list(range(300_000))
