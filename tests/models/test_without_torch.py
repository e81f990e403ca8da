"""The page and the papers' figures on a machine without PyTorch, as the README promises."""

from pathlib import Path

import pytest

from tests.models.test_own_model import without_library

RUN = """
from metastable.cli import main
code = main(sys.argv[1:])
assert not {"torch", "transformers"} & set(sys.modules)
sys.exit(code)
"""
SEED = 0  # of a model whose head 4 has three leading eigenvalues that make a real matrix, as Fig. 7 asks for
IDS = "3 17 5 41 17 2 8 3 29 11\n\n4 4 9 30 2 2 17\n\n44 1 6 6 12 13 14 15"


@pytest.mark.slow
def test_a_study_with_controls(folders: dict[str, Path], tmp_path: Path) -> None:
    texts, out = tmp_path / "ids.txt", tmp_path / "out"
    texts.write_text(IDS)
    control = ["--control", "init,shuffle,tokens", "--control-seeds", "2"]
    done = without_library(RUN, "model", folders["albert"], "--texts", texts, "--layers", "5", *control, "--out", out)
    assert done.returncode == 0, done.stderr
    page = (out / "report.html").read_text()
    for name in ("cosines-raw", "ranks", "correlation-0", "ov-0", "ladder-bars"):
        assert f'id="figure-{name}"' in page
    done = without_library(RUN, "compare", out, "--out", tmp_path / "compared")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_papers_figures(tmp_path: Path) -> None:
    """Figs 1, 2 and 7 of the first paper and Fig. 10 of the second are measured, none is left out."""
    import torch
    import transformers

    sizes = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 8, "intermediate_size": 24}
    config = transformers.AlbertConfig(vocab_size=50, embedding_size=8, max_position_embeddings=64, **sizes)
    torch.manual_seed(SEED)
    transformers.AlbertModel(config).save_pretrained(tmp_path / "albert")  # eight heads: Fig. 7 is of head 4
    names = ("model-similarities", "model-heads", "model-eigenvalues", "model-spectra")
    out = tmp_path / "gallery"
    done = without_library(RUN, "reproduce", "--quick", *names, "--model", tmp_path / "albert", "--out", out)
    assert done.returncode in (0, 1), done.stderr  # a verdict may fail on random weights
    for name in names:
        assert list((out / name).rglob("*.svg")) + list((out / name).rglob("*.png")), name
    assert "skipped" not in done.stdout
