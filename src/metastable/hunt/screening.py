"""Run a batch to a horizon and say of every instance when it settled, or that it has not.

Two numbers of a run (see `separation`) must go to 0: the fourth cluster's separation r, and the drift, the largest
distance any point moved between T/2 and T. An instance is *open* at horizon T when one of them is larger than what
settling at T/2 would leave: r(T) > e^{-rate T/2}, or drift > e^{-rate T/8} (the drift is measured from T/2 on, so
settling at 3T/8 would leave that). Rounding ends both at `separation.NOTHING`, and tokens that run away at `_FAR`.

A third number says whether it is too early to decide: how far the leading direction is *ahead* of all others in the
unscaled tokens. Attention settles only once it leads, and a small leading component takes long to get there.
"""

import warnings
from dataclasses import dataclass

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.hunt.claims import Claim
from metastable.hunt.instances import Batch
from metastable.hunt.separation import NOTHING, separations
from metastable.solve.simulate import simulate

SHARES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])  # of the horizon, at which a run is looked at
_FAR = 1e100  # so that squares of coordinates stay finite


@dataclass(frozen=True)
class Screened:
    """For each of B instances at one horizon T.

    ``separation`` (B, 5) at the times T * SHARES, ``drift`` (B, 3) over the last half, the third quarter and the last
    quarter, ``ahead`` (B, 5) the log of the leading components of the unscaled tokens over all others, ``settling``
    (B,) the estimated settling time, ``open`` (B,) whether it has not settled, ``lost`` (B,) whether floats ended
    before T, ``valid`` (B,) the time up to which digits are certified, nan where nothing was.
    """

    horizon: float
    separation: np.ndarray
    drift: np.ndarray
    ahead: np.ndarray
    settling: np.ndarray
    open: np.ndarray
    lost: np.ndarray
    valid: np.ndarray


def dynamics(claim: Claim, batch: Batch, i: int) -> Dynamics:
    """One instance as a Dynamics: Q = I, K = G, V = L/h + E_h."""
    h, d = batch.G.shape[1], batch.a.shape[1]
    Q = np.broadcast_to(np.eye(d), (h, d, d))
    return Dynamics(Weights(Q, batch.G[i], batch.take([i]).V()[0]), geometry=claim.geometry)


def screen(claim: Claim, batch: Batch, horizon: float, size: int, finer: int = 1) -> Screened:
    """Run every instance to the horizon with steps of claim.dt / finer, ``size`` at a time (one compiled shape)."""
    found: list[np.ndarray] = []
    ahead: list[np.ndarray] = []
    lost: list[bool] = []
    valid: list[float] = []
    for first in range(0, len(batch), size):
        filled = np.minimum(np.arange(first, first + size), len(batch) - 1)  # the last instance fills up the batch
        part = batch.take(filled)
        members = [dynamics(claim, part, i) for i in range(size)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # what rounding did is part of the result
            runs = simulate(members, part.z, t=horizon, dt=claim.dt / finer, save=horizon * SHARES)
        for i, run in enumerate(runs[: len(batch) - first]):
            rows = np.minimum(np.arange(len(SHARES)), len(run.t) - 1)  # where a run ended early, its last state again
            w = claim.points(run, part, i)[rows]  # (5, n, d)
            found.append(np.clip(np.nan_to_num(w, nan=_FAR), -_FAR, _FAR))
            ahead.append(claim.ahead(run, part, i)[rows])
            lost.append(len(run.t) < len(SHARES))
            valid.append(np.nan if run.valid_until is None else float(run.valid_until))  # nan: not certified
    return judged(horizon, np.array(found), np.array(ahead), claim.rate(batch), np.array(lost), np.array(valid))


def judged(
    horizon: float, w: np.ndarray, ahead: np.ndarray, rate: np.ndarray, lost: np.ndarray, valid: np.ndarray
) -> Screened:
    """Settling times of points w (B, 5, n, d)."""
    r = np.asarray(separations(w))  # (B, 5)
    pairs = ((2, 4), (2, 3), (3, 4))  # last half, third quarter, last quarter
    moves = np.stack([np.linalg.norm(w[:, b] - w[:, a], axis=-1).max(axis=-1) for a, b in pairs], axis=1)  # (B, 3)
    drift = np.maximum(moves, NOTHING)
    telling = np.maximum(1, (r > 10.0 * NOTHING).sum(axis=1) - 1)  # the last time at which r was not rounding
    by_clusters = horizon * SHARES[telling] + np.log(r[np.arange(len(r)), telling]) / rate
    by_drift = np.where(drift[:, 0] > 10.0 * NOTHING, horizon / 2.0 + np.log(drift[:, 0]) / rate, -np.inf)
    still = (r[:, -1] > 10.0 * NOTHING) & (by_clusters > horizon / 2.0)
    moving = by_drift > 0.375 * horizon
    settling = np.maximum(by_clusters, by_drift)
    return Screened(horizon, r, drift, ahead, settling, still | moving | lost, lost, valid)
