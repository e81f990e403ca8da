"""`metastable model` from its settings to a finished folder: the study, its pictures, its film, its page."""

import re
from pathlib import Path

from metastable.models.depth_film import film, player
from metastable.models.page import FILM, PLAYER, page
from metastable.models.study import Study, measuring, purpose, read
from metastable.models.study_figures import every_picture
from metastable.models.study_settings import Settings, check_settings
from metastable.plots import save_figure
from metastable.progress import Progress, Report, silent
from metastable.store.files import PART, disk_errors, remove, write_whole
from metastable.store.folder import check, finish

REPORT = "report.html"
_HOW = {"free": "made", "unfinished": "resumed", "finished": "already complete"}


def run(settings: Settings, folder: Path, progress: Report = silent) -> tuple[Study, str]:
    """Bring the study in ``folder`` to its end, and say whether it was made, resumed, or there already.

    Examples
    --------
    >>> from pathlib import Path
    >>> from metastable.models.study_settings import Settings
    >>> run(Settings("minilm"), Path("out/minilm"))[1]  # doctest: +SKIP
    'made'
    """
    check_settings(settings)
    if check(folder, purpose(settings)) == "finished":
        return read(folder), _HOW["finished"]
    with measuring(settings, folder, progress) as status:
        made = read(folder)
        if status != "finished":
            with disk_errors(folder, resumable=True):
                _draw(made, progress)
                progress(Progress("report", 1.0, REPORT))
                publish(made)
            finish(folder, "study")
    return made, _HOW[status]


def default_folder(name: str) -> Path:
    """Where the study of a model is left when no folder is named.

    >>> str(default_folder("albert/albert-xlarge-v2"))
    'model-albert-albert-xlarge-v2'
    """
    return Path(f"model-{slug(name)}")


def slug(name: str) -> str:
    """A model's name, or the last part of a path, as part of a folder's name."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", Path(name).name if Path(name).exists() else name).strip("-.") or "study"


def publish(made: Study) -> Path:
    """Write the page of a study from its record and its pictures."""
    write_whole(made.folder / REPORT, page(made).encode())
    return made.folder / REPORT


def _draw(made: Study, report: Report) -> None:
    """Every picture that is not there yet, the film and the player."""
    pictures, home = every_picture(made), made.folder / "figures"
    for leftover in home.glob(f".*{PART}.*"):  # of a session that was killed while it drew
        remove(leftover)
    for k, (name, picture) in enumerate(pictures.items()):
        report(Progress("pictures", k / len(pictures), name))
        if not (home / f"{name}.svg").exists():
            save_figure(picture.draw(), home / f"{name}.svg", dpi=150.0)
    if not (home / FILM).exists():
        report(Progress("film", None, FILM))
        film(made, home / FILM)
    if not (home / PLAYER).exists():
        player(made, home / PLAYER)
