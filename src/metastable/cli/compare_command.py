"""metastable compare."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from metastable.cli.flags import JSON
from metastable.cli.interrupts import interruptible
from metastable.cli.output import answer, notes
from metastable.progress import progress_bar


def compare(
    *names: Annotated[
        str, Parameter(help="Folders of studies, FOLDER:CONTROL for a control, or models as `metastable model` takes.")
    ],
    out: Annotated[Path | None, Parameter(metavar="DIR", group="Output", show_default=False)] = None,
    json: JSON = False,
) -> int:
    """Put models side by side: one page with the same pictures drawn together, and a table of what differs.

    A model that has not been measured is measured first, as `metastable model NAME` does. One name alone is compared
    with its own controls (`metastable model NAME --control init,shuffle,tokens`).

    Parameters
    ----------
    out
        folder of compare.html; compare-A-B without it
    json
        print one JSON object and nothing else
    """
    from metastable.errors import InputError
    from metastable.models.comparison import numbers, sides
    from metastable.models.comparison_page import check_free, publish
    from metastable.models.run_study import slug

    if not names:
        raise InputError("Name two studies or models to compare, for example: metastable compare minilm smollm2.")
    folder = out if out is not None else Path("-".join(["compare", *map(slug, names)]))
    check_free(folder)
    left = "Interrupted; what is measured is not lost: run the same command again to go on from there"
    with notes() as sentences, interruptible(lambda: left), progress_bar() as progress:
        shown = sides(names, progress)
        page = publish(shown, folder, progress)
        rows = numbers(shown)
    labels = [side.label for side in shown]
    facts = {
        "page": str(page),
        "compared": labels,
        "records": [str(side.study.folder) for side in shown],
        "numbers": {words: dict(zip(labels, values)) for words, values in rows},
        "notes": sentences,
    }
    lines = [f"{words}: " + ", ".join(f"{k} {_short(v)}" for k, v in zip(labels, values)) for words, values in rows]
    answer(json, facts, [*lines, *(f"Note: {sentence}" for sentence in sentences), f"Page: {page}"])
    return 0


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
