"""Shared against unshared weights: a comparison text by text, with criteria that were there before the numbers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.experiments import model_access, model_sharing
from metastable.experiments.base import Data, Work
from metastable.experiments.model_sharing import MODELS, OWN, SHARED, TUNED, Params
from metastable.models import load

TEXTS = [[3, 17, 5, 41, 17, 2, 8, 3], [4, 4, 9, 30, 2, 2, 17, 1]]


@pytest.mark.slow
def test_run_judge_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers as tf

    sizes = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
    tf.BertModel(tf.BertConfig(**sizes, intermediate_size=16)).save_pretrained(tmp_path / "saved")
    model = load(tmp_path / "saved", library="own")
    monkeypatch.setattr(model_access, "model_of", lambda name: replace(model, name=name))
    monkeypatch.setattr(model_access, "texts_of", lambda model, first, count: TEXTS[first : first + count])
    data = model_sharing.run(Params(instances=2), Work(tmp_path / "work"))
    assert data[f"{OWN}/mean"].shape == (2, 4, 2)
    assert data[f"{SHARED}/sinks"].shape == (2, 3, 3)
    verdicts = model_sharing.judge(Params(), data)
    assert len(verdicts) == 11
    assert all(v.kind == "observation" and v.status != "holds" for v in verdicts), "four times the same model"
    figures = model_sharing.draw(Params(), data)
    assert len(figures) == 6
    assert all(figure.axes for figure in figures.values())


def planted(sharing: float, tuning: float) -> Data:
    """24 texts in which ALBERT's tokens are more alike by ``sharing``, and those of tuned models by ``tuning``."""
    rng, data = np.random.default_rng(0), {}
    for name in MODELS:
        more = sharing if name == SHARED else tuning if name in TUNED else 0.0
        alike = np.linspace(0.0, more, 13)[None, :, None] + 0.001 * rng.standard_normal((24, 13, 2))
        data[f"{name}/mean"] = 0.2 + alike
        data[f"{name}/share"] = 0.01 + alike
        data[f"{name}/clusters"] = 0.8 - alike
        data[f"{name}/sinks"] = (0.1 + alike[:, 1:, :1]).repeat(3, axis=2)
        data[f"{name}/good"] = np.zeros((12, 4))
        data[f"{name}/trained"] = np.array(12)
    return data


def test_planted_differences_are_found() -> None:
    assert [v.status for v in model_sharing.judge(Params(), planted(0.2, 0.2))] == ["holds"] * 11
    assert [v.status for v in model_sharing.judge(Params(), planted(-0.2, -0.2))][:5] == ["fails"] * 5
    first, *rest = (v.status for v in model_sharing.judge(Params(), planted(0.0, 0.3)))
    assert first == "fails"
    assert rest[2:] == ["holds"] * 8


def test_a_quick_look_does_not_download() -> None:
    with pytest.raises(InputError, match="75 MB; run it without --quick"):
        model_sharing.run(Params(**model_sharing.EXPERIMENT.quick), Work(Path("unused")))
