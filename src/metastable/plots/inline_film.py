"""Films that play inside a notebook."""

import base64
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metastable.errors import InputError
from metastable.plots.encoder import SUFFIXES
from metastable.plots.figure_files import whole_file
from metastable.plots.film import animate
from metastable.plots.motion import Movable


@dataclass(frozen=True, repr=False)
class Film:
    """A film in memory: it plays where a notebook shows it, and `save` writes it.

    Attributes
    ----------
    data : bytes
        The file.
    suffix : {".mp4", ".gif"}
    """

    data: bytes
    suffix: str = ".mp4"

    def __repr__(self) -> str:
        return f"Film({self.suffix[1:]}, {len(self.data) / 1e6:.2g} MB)"

    def _repr_html_(self) -> str:
        text = base64.b64encode(self.data).decode()
        if self.suffix == ".gif":
            return f"<img alt='tokens moving' src='data:image/gif;base64,{text}'>"
        return (
            "<video controls loop autoplay muted playsinline style='max-width:100%;height:auto' "
            f"src='data:video/mp4;base64,{text}'></video>"
        )

    def save(self, path: str | Path) -> Path:
        """Write the film; the name ends as its format does."""
        with whole_file(path, (self.suffix,)) as part:
            part.write_bytes(self.data)
        return Path(path)


def film(tokens: Movable, format: str = "mp4", **options: Any) -> Film:
    """A film of a run, for a notebook; options are those of `animate`.

    Examples
    --------
    >>> import numpy as np
    >>> angle = np.linspace(0, 1, 12)[:, None] + np.arange(5)
    >>> circle = np.stack([np.cos(angle), np.sin(angle)], -1)
    >>> film(circle, "gif", frames=4, size=(64, 64)).suffix
    '.gif'
    """
    suffix = f".{str(format).lstrip('.')}"
    if suffix not in SUFFIXES:
        raise InputError(f"A film is mp4 or gif, not {format!r}.")
    with tempfile.TemporaryDirectory() as place:
        return Film(animate(tokens, Path(place) / f"film{suffix}", **options).read_bytes(), suffix)
