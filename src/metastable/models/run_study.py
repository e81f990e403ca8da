"""`metastable model` from its settings to a finished folder: the study, its pictures, its page."""

from pathlib import Path

from metastable.models.study import Settings, Study, Told, study
from metastable.store.files import spoken, write_whole
from metastable.store.folder import DONE, PROVENANCE

REPORT = "report.html"


def run(settings: Settings, folder: Path, told: Told) -> tuple[Study, str]:
    """Bring the study in ``folder`` to its end, and say whether it was made, resumed, or there already.

    Examples
    --------
    >>> from pathlib import Path
    >>> from metastable.models.study import Settings
    >>> run(Settings("minilm"), Path("out/minilm"), print)[1]  # doctest: +SKIP
    'made'
    """
    begun, whole = (folder / PROVENANCE).exists(), (folder / DONE).exists() and (folder / REPORT).exists()
    made = study(settings, folder, told)
    if whole:
        return made, "already complete"
    with spoken(folder, kept=True):
        _draw(made, told)
        told("report", 1.0, REPORT)
        publish(made)
        write_whole(folder / DONE, b"This record is complete.\n")
    return made, "resumed" if begun else "made"


def publish(made: Study) -> Path:
    """Write the page of a study from its record and its pictures."""
    from metastable.models.page import report

    write_whole(made.folder / REPORT, report(made).encode())
    return made.folder / REPORT


def _draw(made: Study, told: Told) -> None:
    """Every picture that is not there yet."""
    from metastable.models.study_figures import every_picture
    from metastable.plots import save_figure

    pictures = every_picture(made)
    for k, (name, draw) in enumerate(pictures.items()):
        told("pictures", k / len(pictures), name)
        path = made.folder / "figures" / f"{name}.svg"
        if not path.exists():
            save_figure(draw(), path, dpi=150.0)
