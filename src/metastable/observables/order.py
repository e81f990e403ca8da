"""The order parameter: how much the tokens agree."""

import numpy as np
from numpy.typing import ArrayLike

from metastable.observables import arrays
from metastable.observables.arrays import Floats


def order_parameter(x: ArrayLike) -> Floats:
    """|mean of the tokens|, (...): on the sphere 1 for consensus, about 1/sqrt(n) for uniform tokens.

    >>> float(order_parameter([[1.0, 0.0], [-1.0, 0.0]]))
    0.0
    """
    x = arrays.tokens(x)
    scale = arrays.safe_scale(x)
    return np.asarray(np.linalg.norm((x * scale).mean(axis=-2), axis=-1) / scale)
