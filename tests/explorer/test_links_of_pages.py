"""The pages of sweeps and models: what a link of theirs may ask for, and what a diagram may cost."""

import pytest

from metastable.errors import InputError

pytest.importorskip("nicegui")
from metastable.explorer.computing import Cancelled, Ticket
from metastable.explorer.models_page import ENGLISH, MOST_CHARACTERS, REACTION, asked_of, probed
from metastable.explorer.page_shell import look_of
from metastable.explorer.sweep_page import FORM, axis, cells, form_of, measured, planned


def test_a_cell_of_a_sweep_is_a_mean_over_starts():

    todo = cells({"t": 1.0}, ("beta", axis("beta", 1.0, 4.0, 2)), ("n", axis("n", 4, 6, 2)))
    assert {(i, j) for i, j, _ in todo} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert todo[0][2] == {"t": 1.0, "beta": 1.0, "n": 4}
    assert 1.0 <= measured(todo[0][2], 3, "clusters", Ticket()) <= 4.0
    with pytest.raises(Cancelled):
        measured(todo[0][2], 3, "clusters", Ticket(gone=True))


def test_a_diagram_may_cost_so_much_with_all_its_heads_and_starts():
    wide = ({"n": 256, "d": 32, "heads": 8}, ("beta", [1.0, 2.0, 4.0]), ("t", [5.0, 10.0]))
    assert len(cells(*wide)) == 6
    with pytest.raises(InputError, match="starts per cell"):
        cells(*wide, runs=16)
    with pytest.raises(InputError, match="count"):
        axis("beta", 1.0, 2.0, 10**9)  # never made


def test_a_link_of_the_sweep_page_is_read_whatever_it_says():
    assert form_of({}) == FORM
    asked = {"x": "noise", "xlow": "0.1", "xhigh": "inf", "xcount": "3.0", "y": "/etc", "measure": "order", "runs": "2"}
    form = form_of(asked)
    assert form == {**FORM, "x": "noise", "xlow": 0.1, "xcount": 3, "measure": "order", "runs": 2}
    across, up, todo = planned({"d": 2}, form)
    assert (across[0], len(across[1]), up[0], len(todo)) == ("noise", 3, "n", 18)
    for wrong in ({"runs": 99}, {"xcount": 1e9}, {"xlow": None}, {"y": "noise"}):
        with pytest.raises(InputError):
            planned({}, {**form, **wrong})


def test_a_link_of_the_models_page_is_read_whatever_it_says():
    assert asked_of({})["text"] == REACTION
    assert asked_of({"model": "minilm"})["text"] == ENGLISH
    asked = asked_of({"model": "m", "text": "x" * 9999, "layers": "24", "variant": "<b>", "compare": "init"})
    assert len(asked.pop("text")) == MOST_CHARACTERS
    assert asked == {"model": "m", "layers": "24", "variant": "trained", "compare": "init"}


def test_a_look_is_read_from_a_link():
    assert look_of("look=trails.log&head=2&at=7&view=1,2,3&colour=pink")["head"] == 2
    for wrong in ("-1", "1e3", "9999", ""):
        assert "head" not in look_of(f"head={wrong}")


@pytest.mark.parametrize("name", ["way-out", "../x", "/etc", "org/model", ""])
def test_models_are_of_the_zoo_or_below_the_folder(name, tmp_path):
    folder = tmp_path / "records"
    folder.mkdir()
    (tmp_path / "config.json").write_text("{}")
    (folder / "way-out").symlink_to(tmp_path)
    with pytest.raises(InputError):
        probed({"model": name, "text": "CCO"}, folder)
