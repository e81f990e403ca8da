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
    with pytest.warns(
        UserWarning, match=r"30 layers of .* take about .* for a text of 10 tokens, at most .* for 2 texts,"
    ):
        found = probe(models["albert"], [IDS, IDS], layers=30)
    assert found.texts == 2
    monkeypatch.setattr(run_cost, "_DAY", 1e-6)
    with pytest.raises(InputError, match="give fewer layers"):
        probe(models["albert"], [IDS], layers=30)


def test_the_estimate_counts_texts_passes_and_what_comes_after_them(models, monkeypatch):
    """Every pass reads all texts and reduces what it saw; the first text runs through the network once more."""
    from metastable.models.one_pass import Pass
    from metastable.models.stream import Shown

    monkeypatch.setattr(run_cost, "show", lambda *_: Shown(10, 1.0, 2.0))
    monkeypatch.setattr(run_cost.time, "perf_counter", iter([0.0, 5.0] * 3).__next__)
    plan = Pass(300, 64, ("similarity",), True, 10)
    monkeypatch.setattr(Pass, "results", lambda *_: {})
    hours = (3 * (100 * 300.0 + 500.0) + 100.0) / 3600.0  # 100 times the three trained layers
    told = rf"about 5\.0 minutes for a text of 10 tokens, at most {hours:.1f} hours for 100 texts in 3 passes"
    with pytest.warns(UserWarning, match=told):
        run_cost.check_cost(models["albert"], IDS, plan, 100, 3)
    with pytest.warns(UserWarning, match="how many there are is not known"):
        run_cost.check_cost(models["albert"], IDS, plan, 0, 1)


def test_the_command_says_it_before_it_starts(folders, tmp_path, monkeypatch, capsys):
    """Texts come one by one, so the sentence has their limit; nothing has been read when it is written."""
    from metastable.cli import main
    from metastable.models.one_pass import Pass

    told = []

    def started(*_):
        told.append(capsys.readouterr().err)
        raise InputError("enough")

    texts = tmp_path / "ids.txt"
    texts.write_text("3 17 5\n\n4 4 9 30")
    monkeypatch.setattr(run_cost, "_LONG", 0.0)
    monkeypatch.setattr(Pass, "run", started)
    words = ["model", str(folders["albert"]), "--layers", "30", "--limit", "7", "--texts", str(texts)]
    assert main([*words, "--out", str(tmp_path / "out")]) == 2
    assert "30 layers of" in told[0]
    assert "for 7 texts" in told[0]


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
