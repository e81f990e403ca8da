"""Measure a model, and leave a record that can be stopped at any moment and resumed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from metastable.models.load import load
from metastable.models.model import Model
from metastable.models.study_record import Study, measured, purpose, read
from metastable.models.study_settings import Settings, check_head, check_settings
from metastable.models.study_steps import take_steps
from metastable.progress import Progress, Report, silent
from metastable.store.files import disk_errors
from metastable.store.folder import Status, check, claim

__all__ = ["Settings", "Study", "measuring", "purpose", "read", "study"]

_PACKAGES = ("torch", "transformers")


def study(settings: Settings, folder: str | os.PathLike[str], progress: Report = silent) -> Study:
    """Measure a model, or go on with a study that was interrupted; what is finished is never done again.

    Examples
    --------
    >>> from metastable.models.study import Settings, study
    >>> made = study(Settings("reactions-albert", layers=96), "out/albert")  # doctest: +SKIP
    >>> float(made.similarity["share_above"].sel(layer=96, kind="raw", threshold=0.99)) > 0.01  # doctest: +SKIP
    True
    """
    home = Path(folder)
    check_settings(settings)
    check(home, purpose(settings))
    if measured(home):
        return read(home)
    with measuring(settings, home, progress):
        return read(home)


@contextmanager
def measuring(settings: Settings, folder: Path, progress: Report) -> Iterator[Status]:
    """Claim a folder and bring the measurements in it to their end; gives the status the folder had."""
    model = None if measured(folder) else _loaded(settings, progress)  # before the folder is made
    with claim(folder, purpose(settings), packages=_PACKAGES) as status:
        if model is not None:
            with disk_errors(folder, resumable=True):
                take_steps(folder, settings, model, progress)
        yield status


def _loaded(settings: Settings, report: Report) -> Model:
    report(Progress("loading", None, settings.model))
    model = load(settings.model, part=settings.part)
    check_head(settings, model)
    return model
