"""What a run leaves on disk: whole or recognisably unfinished at any moment, never overwritten, never executed.

`run` leaves a record while it runs and takes up an unfinished one; `save` writes a run that is in memory; `load`
reads either. The folder's files are listed in `metastable.record.folder`.
"""

from metastable.record.folder import standing
from metastable.record.reading import load
from metastable.record.recipe import Recipe
from metastable.record.running import run
from metastable.record.saving import save

__all__ = ["Recipe", "load", "run", "save", "standing"]
