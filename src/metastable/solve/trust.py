"""How far the digits of a run can be trusted: a copy of it, shaken by little more than rounding, tells.

The copy differs from the run in its tokens (by 1e-11 where they are not rescaled) and, by some tens of roundings, in
everything that both would otherwise share: V, Q, K, and with them the basis and the flow of a rescaled run. As long as
both agree to `TRUSTED`, rounding has not decided anything. The copy is one more member of the ensemble; engines with a
chart shake its state again at every change of references.
"""

import warnings
from dataclasses import replace

import numpy as np

from metastable.backend import jax
from metastable.engines.chart.basis import rounding_of_rates
from metastable.engines.interface import Saved
from metastable.engines.simd.compare import largest_gaps
from metastable.equation.dynamics import Dynamics
from metastable.solve.plan import Plan, with_numbers

TRUSTED = 1e-6  # relative difference up to which a run and its copy agree (1e4 roundings at least)
_ROUNDINGS = 32  # by which tokens and weights are shaken at the start: one alone may cancel by chance
_START = 1e-5  # of `limit`: by how much tokens are shaken where they are not rescaled
_AGAIN = 2  # by which the state of a chart is shaken at every change of references


def with_copies(plan: Plan) -> Plan:
    """The plan with shaken copies of every run behind the runs themselves, where trust is to be measured."""
    if not plan.certified:
        return plan
    eps = float(np.finfo(plan.dtype).eps)
    copies = 2 if plan.model.geometry.rescales and _fragile(plan, eps) else 1
    rng = np.random.default_rng([20231, plan.n, plan.d])
    dynamics, which = list(plan.dynamics), [plan.which]
    for _ in range(copies):
        which.append(plan.which + len(dynamics))
        dynamics += [shaken_dynamics(dyn, plan.d, rng, eps) for dyn in plan.dynamics]
    shakes = np.zeros(plan.runs * (copies + 1))
    shakes[plan.runs :] = _AGAIN * eps
    return replace(plan, dynamics=tuple(dynamics), which=np.concatenate(which), shakes=shakes)


def _fragile(plan: Plan, eps: float) -> bool:
    """Whether one copy could agree with its run by chance where both are wrong.

    The errors of a matrix exponential, and of eigenvalues of nearly dependent eigenvectors, are few and large: one
    number decides, and one copy in thirty happens to be as near to the run as the run is to the truth.
    """
    drift = max(rounding_of_rates(dyn, plan.d) for dyn in plan.dynamics) * plan.t
    return bool(eps * drift > 1e-3 * limit(plan.dtype))


def tokens_of_members(plan: Plan, x: np.ndarray) -> np.ndarray:
    """Tokens (B, n, d) of the runs, and behind them those of the copies that a plan has."""
    if plan.shakes is None:
        return x
    eps = float(np.finfo(plan.dtype).eps)
    rng = np.random.default_rng([20232, plan.n, plan.d])
    copies = plan.runs // plan.originals - 1
    moved = np.concatenate([x, *(_shaken_tokens(plan, x, rng, eps) for _ in range(copies))])
    if plan.model.geometry.fixed_norm:
        moved[len(x) :] /= np.linalg.norm(moved[len(x) :], axis=-1, keepdims=True)
    return moved


def _shaken_tokens(plan: Plan, x: np.ndarray, rng: np.random.Generator, eps: float) -> np.ndarray:
    """Tokens moved by some tens of roundings of each coordinate where directions grow apart, else by 1e-11 of a length.

    Near an unstable equilibrium a step h adds h mu times the displacement: if that is less than half a rounding of the
    tokens, nothing. A displacement of some roundings then never grows, though that of the data does.
    """
    if plan.model.geometry.rescales:
        return _shaken(x, rng, eps)
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    length = np.where(length > 0, length, length.max(axis=-2, keepdims=True))  # a token at 0 is shaken like the others
    return np.asarray(x + length * _noise(x.shape, rng, max(eps, _START * limit(plan.dtype) / _ROUNDINGS)))


def _shaken(a: np.ndarray, rng: np.random.Generator, eps: float) -> np.ndarray:
    return a * (1.0 + _noise(np.shape(a), rng, eps))


def _noise(shape: tuple[int, ...], rng: np.random.Generator, eps: float) -> np.ndarray:
    """Random signs and sizes: signs alone may keep a symmetry of the start by chance."""
    size = rng.uniform(-0.5, 0.5, size=shape)
    return (size + np.copysign(0.5, size)) * (_ROUNDINGS * eps)


def shaken_dynamics(dyn: Dynamics, d: int, rng: np.random.Generator, eps: float) -> Dynamics:
    """The same parts, every number changed by some tens of roundings; symmetric maps stay symmetric."""

    def shaken(leaf: np.ndarray | float) -> np.ndarray:
        a = np.asarray(leaf, np.float64)
        if a.ndim == 3 and np.array_equal(a, np.swapaxes(a, -1, -2)):
            lower = np.tril(_shaken(a, rng, eps))
            return np.asarray(lower + np.swapaxes(np.tril(lower, -1), -1, -2))
        return _shaken(a, rng, eps)

    w, block, position, beta = jax.tree_util.tree_map(shaken, (dyn.weights, dyn.block, dyn.position, dyn.beta))
    if w.V is None and dyn.geometry.rescales:  # e^{tV} is shared by run and copy even where V is the identity
        w = replace(w, V=np.diag(_shaken(np.ones(d), rng, eps)))
    return with_numbers(dyn, weights=w, block=block, position=position, beta=float(beta))


def apart(plan: Plan, saved: Saved) -> np.ndarray:
    """How far each run is from its copies at every stop, (m, runs): relative to the size of each direction.

    At least as far as the engine says that a run may be wrong, which its copies cannot tell.

    Where x holds no copies, its coordinates are orthogonal, and a token is off by at most sqrt(d) times as much as the
    worst of them.
    """
    own = plan.originals
    found = np.zeros((len(saved.x), own))
    alone = saved.x.shape[1] == own
    for first in range(own, plan.runs, own):
        copies = slice(first, first + own)
        if not alone:
            found = np.maximum(found, largest_gaps(saved.x[:, :own], saved.x[:, copies], along=False))
        if saved.compared is not None:
            by_direction = largest_gaps(saved.compared[:, :own], saved.compared[:, copies], along=True)
            found = np.maximum(found, by_direction * (np.sqrt(plan.d) if alone else 1.0))
    return found if saved.hidden is None else np.maximum(found, saved.hidden)


def limit(dtype: str) -> float:
    """The difference up to which a run and its copy agree."""
    return max(TRUSTED, 1e4 * float(np.finfo(dtype).eps))


def valid_until(times: np.ndarray, parted: np.ndarray, dtype: str) -> float:
    """The last saved time before a run and its copies parted; ``parted`` (T,) is the worst difference so far."""
    lost = np.flatnonzero(~(parted <= limit(dtype)))
    good = len(times) if lost.size == 0 else int(lost[0])
    return float(times[good - 1]) if good else 0.0


def warn_untrusted(valid: np.ndarray, ends: np.ndarray, stacklevel: int) -> str:
    """Warn of runs that go on beyond what is certified; returns the sentence, "" where there is none."""
    lost = np.flatnonzero(valid < ends)
    if not lost.size:
        return ""
    where = f"t = {valid[lost].min():g}"
    if len(valid) == 1:
        text = f"Rounding may have changed the tokens after {where}: do not trust later ones."
    else:
        text = (
            f"Rounding may have changed the tokens of {lost.size} of {len(valid)} runs, the first after {where}: "
            "do not trust later ones (see valid_until)."
        )
    warnings.warn(text, RuntimeWarning, stacklevel=stacklevel + 1)
    return text
