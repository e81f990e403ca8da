"""The page of a comparison, and the folder that it is left in."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metastable.errors import InputError
from metastable.models.comparison import RECORD, Row, Side, as_csv, numbers, remember
from metastable.models.comparison_figures import every_picture
from metastable.models.conclusions import findings
from metastable.models.control_sentences import in_short, what_they_are
from metastable.models.depth_axis import COUNTING
from metastable.models.html_parts import figures, model_page, paragraphs, table
from metastable.models.phrases import listed
from metastable.plots import save_figure
from metastable.progress import Progress, Report, silent
from metastable.report.sections import Media, escaped
from metastable.store.files import disk_errors, write_whole

PAGE, NUMBERS = "compare.html", "numbers.csv"
_FINDINGS = ("Tokens", "Heads", "Sinks", "Weights", "Theory")


def publish(shown: Sequence[Side], folder: Path, progress: Report = silent) -> Path:
    """Draw a comparison and write its page into a folder; an earlier comparison there is replaced."""
    check_free(folder)
    rows, home = numbers(shown), folder / "figures"
    pictures = every_picture(shown)
    with disk_errors(folder):
        home.mkdir(parents=True, exist_ok=True)
        for k, (name, picture) in enumerate(pictures.items()):
            progress(Progress("pictures", k / len(pictures), name))
            save_figure(picture.draw(), home / f"{name}.svg", dpi=150.0)
        write_whole(folder / NUMBERS, as_csv(shown, rows))
        remember(shown, folder)
        captions = {name: picture.caption for name, picture in pictures.items()}
        write_whole(folder / PAGE, _page(shown, rows, captions, folder).encode())
    return folder / PAGE


def check_free(folder: Path) -> None:
    """Refuse a folder with anything but an earlier comparison."""
    if folder.is_file():
        raise InputError(f"{str(folder)!r} is a file; give a folder for the comparison.")
    inside = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    other = {name for name in inside - {PAGE, NUMBERS, RECORD, "figures"} if not name.endswith(".part")}
    if other:
        raise InputError(
            f"{str(folder)!r} is not empty and holds no comparison ({', '.join(sorted(other)[:3])}); choose an empty "
            "or new folder."
        )


def _page(shown: Sequence[Side], rows: Sequence[Row], captions: dict[str, str], folder: Path) -> str:
    title, again = _title(shown), f"metastable plot {shlex.quote(str(folder))} --kind similarity --out similarity.pdf"
    parts = [
        f"<h1>{escaped(title)}</h1>\n",
        '<h2 id="measured">What is compared</h2>\n',
        _models(shown),
        paragraphs([_texts(shown), _depths(shown), COUNTING]),
        paragraphs([sentence for made in _studies(shown) for sentence in what_they_are(made)][:4]),
        '<h2 id="short">In short</h2>\n',
        table(
            "What each finds by itself, by the rules on the page of its study; ranges are over seeds of a control.",
            ["", *(side.label for side in shown)],
            _found(shown),
        ),
        '<h2 id="differences">In numbers</h2>\n',
        _differences(shown, rows),
        '<h2 id="figures">In pictures</h2>\n',
        figures(folder / "figures", captions, Media()),
        '<h2 id="making">How it was made</h2>\n',
        f'<p class="soft">From the records {escaped(listed(sorted({str(s.study.folder) for s in shown})))}, and from '
        f"nothing else. The numbers of the table are in <code>{NUMBERS}</code>. Every picture is in "
        "<code>figures/</code> as SVG, by the name in its caption; as PDF, SVG or PNG of its own:</p>\n"
        f"<pre>{escaped(again)}</pre>\n",
    ]
    return model_page(f"{title}, compared", parts)


def _title(shown: Sequence[Side]) -> str:
    """The names; where they are "trained" and controls, the model's."""
    if _one_model(shown):
        return f"{Path(shown[0].study.settings.model).name} and its controls"
    return listed([side.label for side in shown])


def _one_model(shown: Sequence[Side]) -> bool:
    return len({side.study.folder for side in shown}) == 1


def _models(shown: Sequence[Side]) -> str:
    """What the models are: a column for each, one for a model that is compared with its controls."""
    one = _one_model(shown)
    each = shown[:1] if one else shown
    return table("What was measured.", ["", *("" if one else side.label for side in each)], _facts(each))


def _studies(shown: Sequence[Side]) -> list[Any]:
    return list({side.study.folder: side.study for side in shown if side.source.control}.values())


def _facts(shown: Sequence[Side]) -> list[list[Any]]:
    """What each side is, a row for each fact."""
    rows: list[list[Any]] = [["model", *(side.study.settings.model for side in shown)]]
    for words, key in (("family", "family"), ("layers", "depth"), ("heads", "heads"), ("dimension", "dimension")):
        rows.append([words, *(side.study.model[key] for side in shown)])
    rows.append(["layers share one block", *("yes" if side.study.model["shared"] else "no" for side in shown)])
    rows.append(["weights", *(f"{side.study.model['parameters']:,}" for side in shown)])
    rows.append(["texts", *(_read(side) for side in shown)])
    if any(side.study.model["stored"] for side in shown):
        rows.append(["stored weights", *(side.study.model["stored"] or "float32" for side in shown)])
    return rows


def _read(side: Side) -> str:
    about = side.study.about["probe"]
    source = "random tokens" if _drawn(side) else about["source"]
    return f"{about['texts']:,} ({source}), {about['tokens']:,} tokens"


def _drawn(side: Side) -> bool:
    return side.source.control == "tokens"


def _texts(shown: Sequence[Side]) -> str:
    """Who read what."""
    given = [side.study.about["probe"] for side in shown]
    if len({(about["texts"], about["source"], about["tokens"]) for about in given}) > 1:
        return "They read different texts, so a difference below is one of models and texts together."
    drawn = [side.label for side in shown if _drawn(side)]
    if not drawn:
        return "All read the same texts." if len(shown) > 2 else "Both read the same texts."
    start = "All read the same texts, but for" if len(shown) - len(drawn) > 1 else "The texts are the same, but for"
    return f"{start} {listed(drawn)} (texts of as many tokens, drawn at random)."


def _depths(shown: Sequence[Side]) -> str:
    depths = {side.study.model["depth"] for side in shown}
    if len(depths) == 1:
        return "Numbers are those after the last trained layer."
    return (
        "Numbers are those after the last trained layer of each; depths differ, so pictures show shares of the trained "
        "depth."
    )


def _found(shown: Sequence[Side]) -> list[list[Any]]:
    columns = [
        in_short(side.source, side.study.trained)
        if side.source.control
        else [found.headline for found in findings(side.study)]
        for side in shown
    ]
    return [[word, *row] for word, row in zip(_FINDINGS, zip(*columns))]


def _differences(shown: Sequence[Side], rows: Sequence[Row]) -> str:
    """The numbers, and for two sides what the second has more."""
    names = ["measure", *(side.label for side in shown)]
    body: list[list[Any]] = [[words, *values] for words, values in rows]
    caption = "After the last trained layer; seeds of a control are averaged, a dash is what was not measured."
    if len(shown) == 2:
        names.append("difference")
        for row in body:
            row.append(None if None in row[1:3] else row[2] - row[1])
        caption += " The difference is the second less the first."
    return table(caption, names, body)
