"""The self-check of experiments on the sphere: their tokens beside those of the plain formulas.

The experiment makes a chunk of its own runs, in steps of `DT`, with the function that its `run` calls; so the check
goes through the engine that the experiment goes through. The plain formulas move one of them in steps half as long.
Both methods are of fourth order, so what is left is far below `ALLOWED` for the weights of these experiments, while a
halved beta, a dropped mask, a transposed attention or another V change tokens by more than a hundredth within `UNTIL`.
"""

import numpy as np

from metastable.experiments import plain_formulas as plain

UNTIL = 1.0
DT = 0.01
ALLOWED = 1e-5


def tokens(
    x: np.ndarray,
    V: np.ndarray,
    beta: float,
    t: float = UNTIL,
    Q: np.ndarray | None = None,
    K: np.ndarray | None = None,
    causal: bool = True,
) -> np.ndarray:
    """Tokens (n, d) at time t, from unit vectors x, by `plain_formulas`; Q and K are the identity unless given."""
    eye = np.eye(x.shape[-1])
    Q, K = eye if Q is None else Q, eye if K is None else K
    return plain.moved(
        lambda _, y: plain.projected(y, plain.pull(y, Q, K, V, beta, causal)), np.asarray(x), t, round(2.0 * t / DT)
    )
