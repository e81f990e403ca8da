"""The player (in pages of their own and in notebooks) and the laboratory in the browser.

`export` and `view` need nothing but the package; ``server`` needs the extra ``explore``.
"""

from metastable.explorer.offline_page import View, export, view
from metastable.explorer.payload import pack

__all__ = ["View", "export", "pack", "view"]
