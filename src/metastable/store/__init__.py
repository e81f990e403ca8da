"""What a run leaves on disk: whole or recognisably unfinished at any moment, never overwritten, never executed.

`run` leaves a record while it runs and takes up an unfinished one; `save` writes a run that is in memory; `load`
reads either. The folder's files are listed in `metastable.store.folder`.
"""

from metastable.store.folder import standing
from metastable.store.reading import load
from metastable.store.recipe import Recipe
from metastable.store.recorder import run
from metastable.store.saving import save

__all__ = ["Recipe", "load", "run", "save", "standing"]
