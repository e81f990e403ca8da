"""States and maps shown on the way are the library's own; a shared block may be applied again and again."""

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import load, trajectory
from tests.models.conftest import IDS, SMALL, plain


def seen(model, ids, layers):
    states, maps = {}, {}
    model.watch(ids, layers, lambda l, x: states.update({l: x.copy()}), lambda l, A: maps.update({l: A.copy()}))
    assert list(states) == list(range(layers + 1))
    assert list(maps) == list(range(1, layers + 1))
    return list(states.values()), list(maps.values())


@pytest.mark.parametrize("name", SMALL)
def test_states_and_maps_are_the_librarys(models, name):
    model = models[name]
    states, maps = plain(model, IDS)
    for a, b in zip(seen(model, IDS, 3), (states, maps)):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)
    fewer = seen(model, IDS, 2)
    np.testing.assert_allclose(fewer[0][2], states[2], rtol=1e-12, atol=1e-14)


def test_t5_decoder(folders):
    import torch

    model = load(folders["t5"], dtype="float64", part="decoder")
    states, maps = seen(model, IDS, 3)
    text = torch.tensor([IDS])
    shifted = torch.tensor([[0, *IDS[:-1]]])
    with torch.no_grad():
        out = model.whole(input_ids=text, decoder_input_ids=shifted, output_hidden_states=True, output_attentions=True)
    np.testing.assert_allclose(states, [x[0].numpy() for x in out.decoder_hidden_states], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(maps, [A[0].numpy() for A in out.decoder_attentions], rtol=1e-12, atol=1e-14)


def test_deeper_than_trained(models):
    import torch

    model = models["albert"]
    states, maps = seen(model, IDS, 20)
    assert model.stack.config.num_hidden_layers == 3  # put back
    block = model.stack.encoder.albert_layer_groups[0].albert_layers[0]
    x = torch.tensor(states[0])[None]
    with torch.no_grad():
        for l in range(20):
            x = block(x)
            np.testing.assert_array_equal(x[0].numpy(), states[l + 1])
    assert len(maps) == 20


def test_only_shared_weights_go_deeper(models):
    with pytest.raises(InputError, match="only a model that shares one block"):
        seen(models["bert"], IDS, 4)
    with pytest.raises(InputError, match="at least 1"):
        seen(models["albert"], IDS, 0)


def test_hooks_are_removed_also_after_an_error(models):
    model = models["gpt2"]

    def hooks():  # the library keeps some of its own
        return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.stack.modules())

    def fail(layer, x):
        raise RuntimeError("stop")

    before = hooks()

    with pytest.raises(RuntimeError, match="stop"):
        model.watch(IDS, 3, fail, lambda l, A: None)
    assert hooks() == before


@pytest.mark.parametrize("name", ["albert", "llama"])
def test_trajectory(models, name):
    model = models[name]
    states, maps = plain(model, IDS)
    run = trajectory(model, IDS)
    np.testing.assert_allclose(run.x, states, rtol=1e-12, atol=1e-14)
    assert run.t.tolist() == [0.0, 1.0, 2.0, 3.0]
    for l in range(3):
        np.testing.assert_allclose(run.attention(l), maps[l], atol=1e-12)
    assert run.attention(-1).shape == (4, 10, 10)
    assert run.observe("clusters").sizes["time"] == 4
    assert trajectory(model, IDS, longest=4).x.shape == (4, 4, 16)
