"""Learning in the flow: numbers of a Dynamics, or its first tokens, changed by gradients until the tokens do as asked.

`fit` is the door (also `metastable.fit`); `read_fit` reads what it left in a folder. See docs/learning.md.
"""

from metastable.errors import doors
from metastable.learning.descent import OPTIMISERS, Descent, descend
from metastable.learning.fit_record import read_fit
from metastable.learning.fit_result import Fit
from metastable.learning.fitting import fit
from metastable.learning.losses import LOSSES

__all__ = ["LOSSES", "OPTIMISERS", "Descent", "Fit", "descend", "fit", "read_fit"]

doors(globals())
