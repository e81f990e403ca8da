"""A float32 model run in float64, one layer at a time: the same numbers as a model loaded in float64."""

import numpy as np
import pytest
import torch

from metastable.models import ladder, load, moving_systems
from metastable.models.probe import trajectory
from tests.models.conftest import IDS, SMALL


@pytest.mark.parametrize("name", SMALL)
def test_the_states_are_those_of_a_float64_model_and_nothing_stays_behind(name, folders, models):
    model = load(folders[name])
    before = {key: value.clone() for key, value in model.whole.state_dict().items()}
    single = trajectory(model, IDS).x
    with model.doubled():
        assert model.dtype == "float64"
        states = trajectory(model, IDS)
        kinds = {p.dtype for layer in model.layers for p in layer.parameters()}
        assert kinds == {torch.float32}, "a layer is widened only while it runs"
    np.testing.assert_array_equal(states.x, trajectory(models[name], IDS).x)
    after = model.whole.state_dict()
    assert all(torch.equal(before[key], after[key]) and before[key].dtype == after[key].dtype for key in before)
    np.testing.assert_array_equal(trajectory(model, IDS).x, single)


def test_an_error_inside_leaves_the_model_as_it_was(folders):
    model = load(folders["bert"])
    with pytest.raises(KeyboardInterrupt), model.doubled():
        raise KeyboardInterrupt
    assert {p.dtype for p in model.whole.parameters()} == {torch.float32}
    assert not any(layer._forward_pre_hooks or layer._forward_hooks for layer in model.layers)


@pytest.mark.parametrize("parts", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_ladder_needs_one_layer_at_a_time(models, monkeypatch, parts):
    """Weights of all layers in float64 would be most of the memory of a study."""
    kept = ladder(models["gpt2"], IDS, rungs=(4,), parts=parts, keep=True)
    asked = []
    real_layer = moving_systems._layer

    def one_layer(model, layer, *rest):
        asked.append(layer)
        return real_layer(model, layer, *rest)

    monkeypatch.setattr(moving_systems, "_layer", one_layer)
    climb = ladder(models["gpt2"], IDS, rungs=(4,), parts=parts, keep=False)
    assert asked == [0, 1, 2]
    assert climb.runs == ()
    assert climb.real.kept_attention is None
    for name in climb.data.data_vars:
        np.testing.assert_array_equal(climb.data[name].values, kept.data[name].values)


@pytest.mark.slow
def test_layer_by_layer_is_the_whole_rung(models):
    """The dynamics that is handed out has all layers, and simulating it gives the run."""
    from metastable.solve.simulate import simulate

    climb = ladder(models["llama"], IDS, layers=2, keep=True)
    assert climb.runs
    for run in climb.runs:
        again = simulate(run.dynamics, run.x[0], t=2, method="layers", save=3)
        np.testing.assert_allclose(again.x, run.x, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.network
def test_a_whole_study_of_the_largest_zoo_model_fits(tmp_path):
    import subprocess
    import sys

    words = ["model", "smollm2", "--limit", "2", "--longest", "256", "--out", str(tmp_path / "out")]
    # VmHWM and not ru_maxrss, which a child takes over from its parent
    code = f"""
from pathlib import Path
from metastable.cli import main
code = main({words!r})
print(*(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line))
raise SystemExit(code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode == 2:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) * 1024 < 2e9
