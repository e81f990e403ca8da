"""Texts from right to left, in Chinese and in pictures, from the command to the page."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from metastable.cli import main
from metastable.models.study import read
from metastable.models.study_figures import picture
from tests.models.conftest import build

WORDS = ["שלום", "עולם", "مرحبا", "بالعالم", "你", "好", "🙂", "👩", "$", "."]
TEXTS = ["שלום עולם . مرحبا بالعالم . 你好 🙂 👩 $ .", "مرحبا 你 שלום 🙂 $ בלי ."]


@pytest.mark.slow
def test_a_study_of_texts_in_any_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No crash, no warning of a missing glyph; what the font has not is shown by its number."""
    model, texts, out = tmp_path / "model", tmp_path / "texts.txt", tmp_path / "out"
    build("bert").save_pretrained(model)
    (model / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    facts = {"tokenizer_class": "BertTokenizer", "do_lower_case": False, "strip_accents": False}
    (model / "tokenizer_config.json").write_text(json.dumps(facts))
    texts.write_text("\n\n".join(TEXTS))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*[Gg]lyph.*")
        assert main(["model", str(model), "--texts", str(texts), "--control", "tokens", "--out", str(out)]) == 0
    assert "lyph" not in capsys.readouterr().err
    study = read(out)
    assert study.heads is not None
    labels = [label.get_text() for label in picture(study, "activation-0").axes[0].get_yticklabels()]
    assert labels[:6] == ["[CLS]", "שלום", "עולם", ".", "مرحبا", "بالعالم"]
    assert labels[7:] == ["U+4F60", "U+597D", "U+1F642", "U+1F469", r"\$", ".", "[SEP]"]
    page = (out / "report.html").read_text()
    assert "U+1F642" not in page, "letters of the page are the browser's"
    assert (out / "figures" / "depth.html").exists()
    assert np.isfinite(study.similarity["mean"]).all()
