"""Reading texts: every source, every odd input."""

import io

import pytest

from metastable.errors import InputError
from metastable.models import texts
from metastable.models.texts import english
from metastable.models.tokens import as_ids, is_punctuation, smiles


@pytest.fixture
def tokenizer(tmp_path):
    vocabulary = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "C",
        "Cl",
        "O",
        ">>",
        ".",
        "(",
        ")",
        "=",
        "[Na+]",
        "%10",
    ]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary))
    return smiles(tmp_path / "vocab.txt")


def test_smiles_units(tokenizer):
    ids = tokenizer.encode("CCl.[Na+] >>C%10Br")
    assert tokenizer.words(ids) == ["[CLS]", "C", "Cl", ".", "[Na+]", ">>", "C", "%10", "[UNK]", "[SEP]"]
    assert {tokenizer.pieces[i] for i in tokenizer.punctuation} == {".", ">>"}
    assert tokenizer.separators == {3}


def test_ordinary_text_is_not_a_reaction(tokenizer):
    with pytest.raises(InputError, match="SMILES strings, but 'Helloworld' holds"):
        tokenizer.encode("Hello world")


def test_ids_pass_through():
    assert as_ids([1, 2, 3], None) == [1, 2, 3]
    with pytest.raises(InputError, match="without a tokenizer"):
        as_ids("text", None)
    with pytest.raises(InputError, match="a string or a list of token ids"):
        as_ids([0.5], None)


def test_punctuation_in_any_script():
    assert all(map(is_punctuation, ["▁,", "...", "—", "。", "##-"]))
    assert not any(map(is_punctuation, ["a", "▁", "##s", "+", "it's"]))


def test_english_ships_with_the_package():
    found = english()
    assert len(found) >= 12
    assert all(40 < len(text.split()) < 120 for text in found)
    assert list(texts("english", limit=2)) == found[:2]


def test_file_with_blank_lines_and_file_without(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n\n\nthree\n")
    assert list(texts(tmp_path / "a.txt")) == ["one two", "three"]
    (tmp_path / "b.txt").write_text("one\ntwo\nthree")
    assert list(texts(tmp_path / "b.txt")) == ["one", "two", "three"]


def test_folder_in_order(tmp_path):
    for name, text in (("b.txt", "second"), ("a.md", "first"), ("c.png", "picture"), ("d.txt", "  ")):
        (tmp_path / name).write_text(text)
    assert list(texts(tmp_path)) == ["first", "second"]


def test_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n")))
    assert list(texts("-")) == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("a.txt", b"caf\xe9", r"a\.txt is not UTF-8 text \(byte 3 is 0xe9\)"),
        ("a.txt", b" \n\n", "holds no text"),
        ("a.txt", b"", "holds no text"),
        (None, b"", "There is no file or folder"),
    ],
)
def test_odd_files(tmp_path, name, data, sentence):
    if name:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=sentence):
        texts(tmp_path / "a.txt")


def test_empty_folder(tmp_path):
    with pytest.raises(InputError, match=r"holds no \.txt or \.md file"):
        texts(tmp_path)


def test_unknown_name_is_a_data_set_out_of_reach():
    with pytest.raises(InputError, match="no file, folder or corpus"):
        texts("allenai/c4")
