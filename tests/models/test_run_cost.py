"""Deep runs: what they will take is told, or refused, before they start."""

import warnings

import pytest

from metastable.errors import InputError
from metastable.models import probe, run_cost, trajectory
from metastable.models.run_cost import free_memory
from tests.models.conftest import IDS


def test_free_memory_is_positive():
    assert 1e6 < free_memory() < 1e15


def test_too_much_memory_is_refused_at_once(models, monkeypatch):
    with pytest.raises(InputError, match=r"Statistics of 10000000 layers of .* GB of memory, and .* are free"):
        probe(models["albert"], [IDS] * 3, layers=10_000_000)
    with pytest.raises(InputError, match=r"The states of 1000000000 layers would take about .* GB"):
        trajectory(models["albert"], IDS, layers=1_000_000_000)
    monkeypatch.setattr(run_cost, "free_memory", lambda: 1e5)
    with pytest.raises(InputError, match="give fewer layers"):
        probe(models["albert"], iter([IDS]), layers=100)


def test_a_long_run_is_announced_with_numbers(models, monkeypatch):
    monkeypatch.setattr(run_cost, "_LONG", 0.0)
    with pytest.warns(UserWarning, match=r"30 layers of .* take about .* for a text of 10 tokens, all 2 texts about"):
        found = probe(models["albert"], [IDS, IDS], layers=30)
    assert found.texts == 2
    monkeypatch.setattr(run_cost, "_DAY", 1e-6)
    with pytest.raises(InputError, match="give fewer layers"):
        probe(models["albert"], [IDS], layers=30)


def test_ordinary_depths_are_not_timed_first(models, monkeypatch):
    monkeypatch.setattr(run_cost, "_LONG", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        probe(models["albert"], [IDS], layers=24)
        probe(models["bert"], [IDS])


def test_the_estimate_changes_nothing(models):
    """An iterator that was looked into gives all its texts, and the statistics are those of the whole run."""
    texts = [IDS, IDS[:4], IDS[3:]]
    listed, streamed = (probe(models["albert"], given, layers=30) for given in (texts, iter(texts)))
    assert listed.similarity.identical(streamed.similarity)
    assert streamed.texts == 3


@pytest.mark.parametrize(("name", "held"), [("bert", 1), ("mobilebert", 3)])
def test_a_text_whose_maps_do_not_fit_is_refused(models, monkeypatch, name, held):
    """One layer's maps at a time where layers are hooked, all of them where the library hands them out."""
    import transformers as tf

    from metastable.models.library import faced

    small = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4}
    small |= {"intermediate_size": 24, "intra_bottleneck_size": 16, "embedding_size": 16}
    model = (
        models["bert"]
        if name == "bert"
        else faced("m", tf.MobileBertModel(tf.MobileBertConfig(**small)).eval(), None, "encoder")
    )
    monkeypatch.setattr("metastable.models.run_cost._SMALL", 0.0)
    need = 4.0 * (held + 3) * 4 * 6**2
    monkeypatch.setattr("metastable.models.run_cost.free_memory", lambda: need)
    model.watch([1] * 6, model.depth, lambda l, x: None, lambda l, A: None)
    with pytest.raises(InputError, match="The attention maps of 7 tokens in .* of memory, and .* cut texts"):
        model.watch([1] * 7, model.depth, lambda l, x: None, lambda l, A: None)
