"""A sweep over texts and models: its numbers are those of the library's own hidden states."""

import numpy as np
import pytest

import metastable as ms
from metastable.models import zoo

TEXTS = ["CCO.CC(=O)O>>CCOC(C)=O", "CC(=O)Cl.NC>>CNC(C)=O"]


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("jobs", [0, 2])
def test_texts_and_models_as_parameters(reactions, tmp_path, jobs):
    import torch
    from transformers import AutoModel

    layers = [0, 3, 12]
    sweep = {"model": ["reactions-albert", "reactions-bert"], "text": [0, 1], "times": layers}
    config = {"probe": {"texts": TEXTS}, "sweep": sweep | {"observe": ["similarity_share(above=0.5)", "clusters"]}}
    table = ms.sweep(config, out=tmp_path / "sweep", jobs=jobs)
    assert len(table) == 2 * 2 * len(layers)
    assert set(table["model"]) == {"reactions-albert", "reactions-bert"}
    network = AutoModel.from_pretrained(zoo.home("reactions-albert"), attn_implementation="eager").double()
    for number, text in enumerate(TEXTS):
        ids = reactions.read(text, 1024).given
        with torch.no_grad():
            states = network(torch.tensor([ids]), output_hidden_states=True).hidden_states
        for layer in layers:
            x = states[layer][0].numpy()
            unit = x / np.linalg.norm(x, axis=1, keepdims=True)
            share = ((unit @ unit.T)[~np.eye(len(x), dtype=bool)] > 0.5).mean()
            chosen = (table["model"] == "reactions-albert") & (table["text"] == number) & (table["time"] == layer)
            assert table[chosen]["similarity_share(above=0.5)"].item() == pytest.approx(share)
