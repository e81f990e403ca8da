"""A table as a picture."""

import pytest

from metastable.errors import InputError
from metastable.plots import table


def test_every_cell_is_written_once() -> None:
    figure = table(["one", "two\nlines"], ["a", "b"], [["1", "2"], ["3", "4"]])
    assert sorted(text.get_text() for text in figure.axes[0].texts) == [
        "1",
        "2",
        "3",
        "4",
        "a",
        "b",
        "one",
        "two\nlines",
    ]


def test_cells_fit() -> None:
    with pytest.raises(InputError, match="2 rows and 1 columns"):
        table(["one"], ["a", "b"], [["1"], ["2", "3"]])
