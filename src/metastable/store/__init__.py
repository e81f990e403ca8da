"""What is left on disk: whole or recognisably unfinished at any moment, never overwritten, never executed.

`run` writes a record while it runs and resumes an unfinished one; `save` writes a run that is in memory; `load` reads
either. Every kind of folder follows the one protocol of `metastable.store.folder`.
"""

from metastable.store.folder import Purpose, check, claim, finish, settled_by, status
from metastable.store.reading import load
from metastable.store.recipe import Recipe
from metastable.store.recorder import run
from metastable.store.saving import save

__all__ = ["Purpose", "Recipe", "check", "claim", "finish", "load", "run", "save", "settled_by", "status"]
