"""The page, its sentences, pictures and film, from made-up records whose numbers are known."""

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from metastable.cli import main
from metastable.errors import InputError
from metastable.models.conclusions import findings, sentences
from metastable.models.control_sentences import control_table
from metastable.models.depth_film import film, player
from metastable.models.html_parts import figures, sayings, table
from metastable.models.page import command, page
from metastable.models.study import Settings, read
from metastable.models.study_figures import every_picture, picture
from metastable.models.study_numbers import key_numbers
from metastable.models.study_tables import group_table
from metastable.models.substitution import substitution
from metastable.models.token_distances import over_texts
from metastable.report.sections import Media
from tests.models.study_records import DEPTH, HEADS, TEXTS, made_study


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return made_study(tmp_path_factory.mktemp("made") / "whole", written=True)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model without maps and without known weights, and no controls."""
    return made_study(tmp_path_factory.mktemp("made") / "bare", control=(), maps=False, parts=False, written=True)


def said(study: Any, name: str) -> tuple[str, str]:
    found = next(one for one in findings(study) if one.name == name)
    return found.headline, " ".join(found.sentences)


# --- sentences ----------------------------------------------------------------------------------------------------


def test_what_tokens_form_is_judged_by_the_printed_rule(tmp_path: Path) -> None:
    cases = {
        "many small clusters": {},
        "one point": {"largest": 0.95},
        "no clusters": {"mixed_share": 0.01, "mixed_clusters": 0.5},
        "neither one point nor many small": {"largest": 0.5},
        "No text has two tokens": {"mean": float("nan")},
    }
    for k, (words, given) in enumerate(cases.items()):
        assert words in said(made_study(tmp_path / str(k), control=(), **given), "similarity")[0]


def test_controls_are_judged_by_the_same_rule(whole: Any) -> None:
    text = said(whole, "similarity")[1]
    assert "have one point with fresh weights and many small clusters with random tokens" in text
    _, columns, rows = control_table(whole)
    assert [row[1] for row in rows] == ["trained", "fresh weights", "random tokens"] * 2
    assert rows[1][columns.index("largest cluster")] == "1.00"


def test_groups_are_announced_only_where_there_are_any(whole: Any, tmp_path: Path) -> None:
    assert said(whole, "heads")[0] == f"Heads form groups in {DEPTH} of {DEPTH} layers."
    none = made_study(tmp_path / "none", grouped=False)
    assert said(none, "heads")[0] == f"Heads form groups in none of the {DEPTH} layers."
    assert key_numbers(none)["groups"] is None
    assert "layer 0: no groups" in picture(none, "correlation-0").axes[0].get_title()
    assert "2 groups" in picture(whole, "correlation-0").axes[0].get_title()


def test_a_lone_head_is_told_from_groups(whole: Any, tmp_path: Path) -> None:
    """minilm's "2 groups" were one head and eleven others in three of five layers, and the page did not say so."""
    assert said(whole, "heads")[1].startswith("Most clearly in layer 0: 2 groups, of 2 and 2 heads (silhouette 0.60")
    assert "one head" not in said(whole, "heads")[1]
    lone = made_study(tmp_path)
    assert lone.heads is not None
    lone.heads["group"][1] = [0, 0, 1, 0]
    assert "In 1 of these layers the groups are one head and all the others." in said(lone, "heads")[1]
    lone.heads["group"][:] = [0, 0, 1, 0]
    assert "of 3 and 1 heads" in said(lone, "heads")[1]
    assert "In all of these layers the groups are one head and all the others." in said(lone, "heads")[1]
    _, columns, rows = group_table(lone)
    assert {row[columns.index("their heads")] for row in rows} == {"3, 1"}
    json.dumps(key_numbers(lone))


def test_the_ladder_says_what_it_was_climbed_on(whole: Any, tmp_path: Path) -> None:
    given = next(one for one in findings(whole) if one.name == "ladder")
    assert f"climbed on {TEXTS} texts of 6 tokens" in given.rule
    assert f"two standard errors over the {TEXTS} texts" in given.rule
    three = {name: getattr(made_study(tmp_path), name) for name in ("ladder", "baselines", "parts")}
    one = replace(whole, **{name: data.isel(text=[0]) for name, data in three.items()})
    found = next(f for f in findings(one) if f.name == "ladder")
    assert "climbed on 1 text of" in found.rule
    assert "standard errors" not in " ".join((found.rule, *found.sentences))


def test_the_map_shown_is_of_the_layer_spoken_of(tmp_path: Path) -> None:
    study = made_study(tmp_path, grouped=False)
    study.heads["silhouette"][1] = 0.2  # layer 1 comes nearest, though it has no groups
    found = next(one for one in findings(study) if one.name == "heads")
    assert found.sentences[0].startswith("Layer 1 comes nearest")
    assert "correlation-1" in found.pictures
    assert "correlation-1" in every_picture(study)


def test_many_sentences_are_a_list() -> None:
    assert sayings(["One.", "Two."]) == "<p>One. Two.</p>\n"
    assert sayings([f"{k} < 9." for k in range(6)]).count("<li>") == 6


def test_a_page_does_not_jump_when_its_pictures_are_drawn(tmp_path: Path) -> None:
    """A picture that is drawn late has its place from the beginning; a name of a row is not squeezed on a phone."""
    (tmp_path / "one.svg").write_text('<svg width="100pt" height="250.5pt" viewBox="0 0 100 250.5"/>')
    assert 'width="136" height="341"' in figures(tmp_path, {"one": "One."}, Media())
    assert "scroll named" in table("", ["measure", "a"], [["tokens in the largest cluster", 0.1]])
    assert "scroll named" not in table("", ["layer", "a"], [[3, 0.1]])
    assert 'class="scroll wordy"' in table(
        "", ["", "a"], [["Tokens", "A sentence of more than forty letters in a cell."]]
    )


def test_layers_and_heads_are_counted_from_0(whole: Any) -> None:
    headline, text = said(whole, "sinks")
    assert headline == f"The first token is a sink of 1 of {DEPTH * HEADS} heads."
    assert "(layer 1, head 2) pays it 50%" in text
    numbers = key_numbers(whole)
    assert (numbers["sink_layer"], numbers["sink_head"]) == (1, 2)


def test_no_sink(tmp_path: Path) -> None:
    assert "is no sink" in said(made_study(tmp_path / "none", sink=0.2), "sinks")[0]
    headline, text = said(made_study(tmp_path / "nearly", sink=0.296), "sinks")
    assert headline.endswith("none of 12 heads pays it 30% of its attention.")
    assert "pays it 29.6% of its attention" in text, "what is below the limit does not read like it"


def test_short_texts_have_no_sinks(tmp_path: Path) -> None:
    """Seven causal tokens: even attention pays the first of them 37%, more than the 30% that make a sink."""
    study = made_study(tmp_path / "short")
    study.sinks["position"][:] = 0.37
    assert said(study, "sinks")[0].startswith("These texts are too short to tell a sink")
    assert "37%" in said(study, "sinks")[0]


@pytest.mark.parametrize(
    ("frozen", "rungs", "words"),
    [
        (0.4, (1.8, 1.7, 1.6, 1.5), "farther from the model than tokens that do not move"),
        (1.7, (0.5, 1.8, 1.8, 1.8), "Rung 0 of the ladder beats every baseline"),
        (1.7, (1.75, 1.65, 1.75, 1.65), "Rungs 1 and 3 of the ladder beat every baseline"),
    ],
)
def test_the_headline_says_who_wins(tmp_path: Path, frozen: float, rungs: tuple[float, ...], words: str) -> None:
    study = made_study(tmp_path / "study", frozen=frozen, rungs=rungs, control=())
    assert words in said(study, "ladder")[0]


def test_one_averaging_rule(whole: Any) -> None:
    """Summary, table and bars show one and the same mean."""
    from metastable.models.study_tables import ladder_table

    mean, spread = over_texts(whole.ladder["gram_distance"].sel(rung=1))
    numbers = key_numbers(whole)["rungs"]["1"]["gram_distance"]
    assert numbers == [pytest.approx(float(mean)), pytest.approx(float(spread))]
    assert f"{float(mean):.3g} ± {float(spread):.2g}" in ladder_table(whole)[2][1]
    widths = [bar.get_width() for bar in picture(whole, "ladder-bars").axes[0].patches]
    assert widths[1] == pytest.approx(float(mean))
    assert len(widths) == 4 + 3  # rungs below the exact network, baselines


def test_left_out_steps_say_why(bare: Any) -> None:
    assert "Its weights are not known here." in said(bare, "spectra")[1]
    assert said(bare, "ladder") == ("There is no ladder.", "For the same reason.")
    for name in ("heads", "sinks"):
        assert "does not show attention maps of every layer" in said(bare, name)[0]
    assert not {"groups", "sinks", "beta", "ladder-bars"} & set(every_picture(bare))
    assert key_numbers(bare)["good_triples"] is None
    assert "in many models the last of them comes after a final norm" in page(bare)


def test_the_summary_is_short(whole: Any) -> None:
    assert len(sentences(whole)) == 5
    assert max(len(sentence) for sentence in sentences(whole)) < 400


def test_substitutions_name_the_papers_model() -> None:
    zoo = substitution({"name": "reactions-albert", "family": "albert"}, "reactions")
    assert "stands in for the papers' ALBERT-xlarge-v2" in zoo
    assert "package index" in zoo
    assert "T5-large" in substitution({"name": "./mine", "family": "t5"}, "english")


# --- page ---------------------------------------------------------------------------------------------------------


def test_the_page_is_offline_and_escaped(whole: Any) -> None:
    text = page(whole)
    for name in ("measured", "short", "similarity", "heads", "sinks", "spectra", "ladder", "details", "making"):
        assert f'id="{name}"' in text
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text)
    assert "<script" not in text
    assert "&lt;b&gt;" in text
    assert text.count("<h2") == 9
    for found in findings(whole):
        assert found.headline in text


def test_the_command_of_a_study() -> None:
    settings = Settings("minilm", control=("init", "tokens"), control_seeds=5, special=False)
    assert command(settings) == "metastable model minilm --control init,tokens --control-seeds 5 --no-special"


# --- pictures and film --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_picture_fits_a_phone_and_has_a_caption(whole: Any) -> None:
    for name, (draw, caption) in every_picture(whole).items():
        figure = draw()
        assert figure.get_size_inches()[0] <= 4.0, name
        assert caption.endswith(".")


def test_the_dots_of_beta_are_explained_where_they_are_drawn(whole: Any) -> None:
    """One layer is drawn as bars with dots, several as a map without."""
    for layers in (1, 2):
        spectra = whole.spectra.isel(layer=[0] * layers)
        shown = every_picture(replace(whole, spectra=spectra))["beta"]
        dotted = any(line.get_label() == "published definition" for line in shown.draw().axes[0].lines)
        assert dotted == (layers == 1) == ("Dots: the published definition" in shown.caption)


def test_a_picture_by_its_name(whole: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "fig.pdf"
    assert main(["plot", str(whole.folder), "--kind", "sinks", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"%PDF")
    assert main(["plot", str(whole.folder), "--kind", "sink", "--out", str(out)]) == 2
    assert "did you mean 'sinks'" in capsys.readouterr().err
    assert main(["plot", str(whole.folder), "--kind", "sinks", "--head", "1"]) == 2
    assert "no option 'head'" in capsys.readouterr().err


def test_labels_are_letters_of_the_font_or_numbers(whole: Any, tmp_path: Path) -> None:
    """No warning of a missing glyph for Hebrew, Arabic, Chinese, emoji, joiners and dollars."""
    words = ["שלום", "مرحبا", "中文", "👩\u200d👧", "🙂", "$x$"]
    study = replace(whole, heads=whole.heads.assign_coords(word=("token", words)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = picture(study, "activation-0")
        figure.savefig(tmp_path / "words.png", dpi=40)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["שלום", "مرحبا", "U+4E2DU+6587", "U+1F469U+20…", "U+1F642", r"\$x\$"]


@pytest.mark.slow
def test_the_film_shows_every_state(whole: Any, tmp_path: Path) -> None:
    path = film(whole, tmp_path / "depth.mp4")
    assert path.stat().st_size > 5000
    assert main(["animate", str(whole.folder), "--out", str(tmp_path / "depth.gif")]) == 0
    assert (tmp_path / "depth.gif").read_bytes().startswith(b"GIF")


def test_the_player_is_reached_from_the_page(tmp_path: Path) -> None:
    made = made_study(tmp_path / "study", control=(), parts=False, maps=False, written=True)
    assert "depth.html" not in page(made)
    (made.folder / "figures").mkdir(parents=True, exist_ok=True)
    (made.folder / "figures" / "depth.mp4").write_bytes(b"film")
    text = player(made, made.folder / "figures" / "depth.html").read_text()
    assert "beside their mean direction" in text
    assert 'href="figures/depth.html"' in page(made)


def test_a_damaged_study_is_named(tmp_path: Path) -> None:
    import shutil

    made_study(tmp_path / "study", control=(), parts=False, maps=False, written=True)
    shutil.rmtree(tmp_path / "study" / "similarity.zarr")
    with pytest.raises(InputError, match=r"damaged \(similarity.zarr"):
        read(tmp_path / "study")
