"""Notebooks that need the package registry: where it cannot be reached the build goes on without running them."""

from collections.abc import Callable

from metastable.errors import InputError

MODELS = {"notebooks/a-real-model.ipynb": "reactions-albert"}


def unreachable(fetch: Callable[[str], object]) -> dict[str, str]:
    """Notebooks that cannot run here, each with the reason: its model is not in the cache and pip finds no registry.

    Any other failure (a file that is not the pinned one, say) is an error of the build.
    """
    found = {}
    for notebook, model in MODELS.items():
        try:
            fetch(model)
        except InputError as error:
            if "could not download" not in str(error):
                raise
            found[notebook] = str(error)
    return found
