"""The pictures, imported in less time."""

from types import ModuleType


def plots() -> ModuleType:
    """`metastable.plots`.

    While it is imported, matplotlib lists the properties of everything that can be drawn in its docstrings. Nobody
    reads those in a command, and they take a tenth of a second: they are left out.
    """
    from matplotlib import artist

    listed = artist.kwdoc
    artist.kwdoc = lambda artist: ""
    try:
        from metastable import plots
    finally:
        artist.kwdoc = listed
    return plots
