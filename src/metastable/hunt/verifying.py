"""Is an open instance a violation, or merely slow, or an accident of its tokens?

Criterion, fixed beforehand. Distances are relative to the size of the tokens; ``RESOLUTION`` is what counts as arrived.
With T0 = 2 ln(1/RESOLUTION)/rate, a token whose attention has settled by T0/2 has arrived at T0. With steps half as
long as in the search:

1. *settled*: the fourth cluster's separation and the drift over the last half are within RESOLUTION at T0, 4 T0 or
   16 T0 (attention settles when e^{2t} times a gap of scores is large: a gap smaller by e^{-2 T0} costs one more T0).
2. *undecided*: the range of floats ended the run first.
3. Otherwise separation or drift is above RESOLUTION at 4 T0. It has *stayed* when it is at least 0.9 of what it was at
   three quarters of the horizon, where settled attention would have left RESOLUTION^2 of it, and the race is run: the
   leading direction of the unscaled tokens is not behind at half the horizon and gaining at its end. (Where a small
   leading component has to catch up with a plane in which tokens chase each other, separation grows until it has, and
   falls only then.) What has not stayed at 4 T0 is looked at again at 16 T0, and is undecided if it has not stayed
   there either, or not also with steps halved again.
4. What stayed is tried again with tokens, then weights, moved by `SHAKE`: if at least 0.9 of the copies stay too, by
   the same criterion, it is robust. Otherwise it is *non-generic*: an accident of its tokens, or of its weights.
5. Where rounding may have changed the tokens before the end (`valid_until`), it is one more small change: all copies,
   moved by far more than rounding, must then stay, else the instance is undecided. (Tokens that slide along
   the border between two leaders look at one or the other by turns, and rounding decides when; where they go is decided
   by neither.) An instance that settles is called settled whatever rounding did, with a note: tokens that only rounding
   moves off an invariant line were an accident.
6. Where the search works in rescaled coordinates, eq. (1) is also integrated itself, up to t = `PLAIN` (its
   digits suffice to tell clusters apart), by code that shares nothing with the rescaled run; it must stay open there
   too.

Only a robust one is called a *violation*, or a *known exception* when its weights are one.
"""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from metastable.equation.geometry import GEOMETRIES
from metastable.hunt.claims import Claim
from metastable.hunt.instances import Batch, exception, shaken
from metastable.hunt.rules import Rules
from metastable.hunt.screening import SHARES, Screened, dynamics, judged, screen
from metastable.solve.simulate import simulate

RESOLUTION = 1e-2
SHAKE = 0.01
PLAIN = 40.0
SIZE = 8  # instances verified together
OUTCOMES = ("violation", "known exception", "non-generic", "undecided", "settled")
_STAYED = 0.9
_LONGEST = {"rescaled": np.inf, "euclidean": 150.0}  # e^{2 t |V|} must stay within floats where nothing is rescaled


@dataclass(frozen=True)
class Checked:
    """What became of one instance: a name of `OUTCOMES`, a sentence, and the numbers behind them."""

    outcome: str
    note: str
    horizon: float
    separation: float
    drift: float
    numbers: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def verify(claim: Claim, batch: Batch, rules: Rules) -> list[Checked]:
    """Put every instance of a batch through the steps of the module's docstring.

    Instances of similar rates are run together, to the horizon that the slowest of them needs.
    """
    needed = 2.0 * np.log(1.0 / RESOLUTION) / claim.rate(batch)
    found: dict[int, Checked] = {}
    order = np.argsort(needed)
    for first in range(0, len(batch), SIZE):
        rows = order[first : first + SIZE]
        for i, checked in zip(rows, _together(claim, batch.take(rows), rules, float(needed[rows].max()))):
            found[int(i)] = checked
    return [found[i] for i in range(len(batch))]


def _together(claim: Claim, group: Batch, rules: Rules, needed: float) -> list[Checked]:
    longest = _LONGEST[claim.geometry]
    first, *later = sorted({min(needed, longest / 2.0), *(min(c * needed, longest) for c in (4.0, 16.0))})
    results: dict[int, Checked] = {}
    candidates: dict[float, list[int]] = {}  # what stays, by the horizon at which it does
    rest = list(range(len(group)))
    for horizon in (first, *later):
        seen = screen(claim, group.take(rest), horizon, SIZE, finer=2)
        staying, going = stayed(seen), []
        for j, i in enumerate(rest):
            if (clear := _early(seen, j)) is not None:
                results[i] = clear
            elif horizon > first and staying[j]:
                candidates.setdefault(horizon, []).append(i)
            elif horizon == later[-1]:
                results[i] = _falling(seen, j, "")
            else:
                going.append(i)
        rest = going
        if not rest:
            break
    for horizon, places in candidates.items():
        finest = screen(claim, group.take(places), horizon, SIZE, finer=4)
        staying = stayed(finest)
        for j, i in enumerate(places):
            refined = None if staying[j] else _falling(finest, j, "with steps halved again ")
            results[i] = _early(finest, j) or refined or _robust(claim, group.take([i]), rules, finest, j)
    return [results[i] for i in range(len(group))]


def _early(seen: Screened, i: int) -> Checked | None:
    """Settled or undecided, where that is already clear."""
    if seen.lost[i]:
        return _result("undecided", f"tokens leave the range of floats before t = {seen.horizon:.4g}", seen, i)
    if max(seen.separation[i, -1], seen.drift[i, 0]) <= RESOLUTION:
        late = seen.valid[i] < seen.horizon
        rounded = f" (rounding may have decided where, after t = {seen.valid[i]:.4g})" if late else ""
        return _result("settled", f"all tokens have arrived by t = {seen.horizon:.4g}{rounded}", seen, i)
    return None


def _falling(seen: Screened, i: int, how: str) -> Checked:
    """Undecided: neither arrived nor staying."""
    doing = "the leading direction is still catching up" if racing(seen)[i] else "still closing in"
    return _result("undecided", f"{how}{doing} at t = {seen.horizon:.4g}", seen, i)


def racing(seen: Screened) -> np.ndarray:
    """Whether the leading direction was behind at half the horizon and is gaining at its end, (B,)."""
    half, late, end = seen.ahead[:, 2], seen.ahead[:, 3], seen.ahead[:, 4]
    return np.asarray((half < 0.0) & (end > late))


def stayed(seen: Screened) -> np.ndarray:
    """Whether separation or drift is above RESOLUTION, at least 0.9 of what it was a quarter before, and the race is
    run, (B,)."""
    r, drift = seen.separation, seen.drift
    apart = (r[:, 4] > RESOLUTION) & (r[:, 4] >= _STAYED * r[:, 3])
    moving = (drift[:, 2] > RESOLUTION) & (drift[:, 2] >= _STAYED * drift[:, 1])
    return np.asarray((apart | moving) & ~racing(seen))


def _robust(claim: Claim, one: Batch, rules: Rules, seen: Screened, i: int) -> Checked:
    copies, moved = shaken(one, rules, 2 * SIZE, SHAKE, rules.seed)
    again = screen(claim, copies, seen.horizon, SIZE)
    still = stayed(again) & ~again.lost
    shares = {"other tokens": float(still[moved].mean()), "other weights": float(still[~moved].mean())}
    weak = [name for name, share in shares.items() if share < _STAYED]
    if weak:
        note = f"stays up to t = {seen.horizon:.4g}, but goes with {' or '.join(weak)} within {SHAKE:g}"
        return _result("non-generic", note, seen, i, shares)
    rounded = f"rounding decides details after t = {seen.valid[i]:.4g}" if seen.valid[i] < seen.horizon else ""
    if rounded and min(shares.values()) < 1.0:
        return _result(
            "undecided", f"stays up to t = {seen.horizon:.4g}, but {rounded}, and not all copies stay", seen, i, shares
        )
    if GEOMETRIES[claim.geometry].rescales and not stayed(_plain(claim, one))[0]:
        note = f"stays up to t = {seen.horizon:.4g}, but not where eq. (1) is integrated itself"
        return _result("undecided", note, seen, i, shares)
    known = exception(one, 0)
    note = known or f"stays up to t = {seen.horizon:.4g}, whatever small change is made"
    note += f"; {rounded}, but all {len(copies)} changed copies stay" if rounded else ""
    return _result("known exception" if known else "violation", note, seen, i, shares)


def _plain(claim: Claim, one: Batch) -> Screened:
    """The same measures from eq. (1) itself: zeta = e^{-tL} x, with L in blocks so that no direction drowns another."""
    dyn = replace(dynamics(claim, one, 0), geometry="euclidean")
    run = simulate(dyn, one.z[0], t=PLAIN, dt=claim.dt / 2.0, save=PLAIN * SHARES)
    t = run.t[:, None, None]
    x = run.x  # (T, n, d)
    zeta = np.exp(-one.a[0] * t) * (np.cos(one.b[0] * t) * x - np.sin(one.b[0] * t) * x[..., one.partner[0]])
    start = np.where(one.grows[0], one.z[0], 0.0)
    w = np.where(one.grows[0], zeta, 0.0) / np.sqrt((start**2).sum(axis=-1).mean())
    raced = np.full((1, len(SHARES)), np.inf)  # the rescaled run has seen to that
    return judged(PLAIN, w[None], raced, claim.rate(one), np.zeros(1, dtype=bool), np.full(1, np.nan))


def _result(outcome: str, note: str, seen: Screened, i: int, shares: dict[str, float] | None = None) -> Checked:
    numbers = {"share that stays": shares} if shares else {}
    r, drift = float(seen.separation[i, -1]), float(seen.drift[i, 0])
    return Checked(outcome, note, seen.horizon, r, drift, numbers)
