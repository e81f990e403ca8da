"""`density`: the mean-field equation, n = infinity as one run.

    d rho/dt + div(rho v[rho]) = (sigma^2/2) Laplace rho,      v[rho](x) = P_x (pull of rho at x)

on the circle (d = 2) and on S^2 (d = 3). Spectral in space: rho is held by its moments, and the equation is tested with
every mode, so that mass is kept to rounding. Adaptive in time (DOP853), and in space: whenever the highest modes are no
longer small, or rho dips below 0, the step is taken again with twice as many. A law that falls into clusters becomes a
sum of point masses, which no number of modes can hold: the run then ends with the status "unresolved".

Noise is exact in every step: with the damping D = (sigma^2/2) k^2 of each mode, y = e^{D (s - end of the step)} c moves
by the pull alone. So the step is as long as the pull allows, not as short as the fastest decaying mode asks for.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import DOP853

from metastable.continuum.law_pull import MOST_ENTRIES, kernel_is_spectral, law_drift
from metastable.continuum.laws import Density
from metastable.continuum.surfaces import SURFACES, Moments, Surface, resized, surface
from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError, door, kind_of
from metastable.solve.checks import real, save_times

Law = str | Callable[[np.ndarray], Any] | np.ndarray | Density
_TAIL = 7 / 8  # modes above this share of the degree are the tail
_COARSEST = 1e-4  # rtol: densities of -0.1 of the largest would be accepted with it
_DEEPEST = 100.0  # a step damps no mode by more than e^-100: factors stay within floats


@door
def density(
    dynamics: Dynamics,
    rho0: Law,
    t: float = 10.0,
    *,
    d: int | None = None,
    save: Any = 101,
    rtol: float = 1e-9,
    modes: int | None = None,
    most: int | None = None,
) -> Density:
    """The law of infinitely many tokens over time.

    Parameters
    ----------
    dynamics : Dynamics
        On the sphere, full attention, softmax or unnormalised, dot scores; any Q, K, V, any number of heads, noise.
    rho0 : function, array, "uniform" or Density
        The law at time 0, divided by its mass: a function of points (m, d) that gives (m,); values at even angles of
        the circle from 0 on, (m,); or a `Density`, whose last law is taken.
    t : float
        The horizon.
    d : int, optional
        2 for the circle, 3 for S^2; needed where neither the weights nor ``rho0`` say it (then it is 2).
    save : int or array
        A number of evenly spaced times, or the times. Saving never changes a run.
    rtol : float
        Tolerance of a step, relative to the law's mass, at most 1e-4; modes above 7/8 of the degree stay below ten
        times as much, and the density above minus a thousand times as much of its largest value.
    modes, most : int, optional
        The degree to begin with, and the largest (512 on the circle, 48 on S^2).

    Returns
    -------
    Density
        With ``status`` "done", or "unresolved" where the law became too sharp at ``valid_until``.

    Examples
    --------
    >>> import numpy as np
    >>> from metastable.equation.dynamics import Dynamics
    >>> law = density(Dynamics(beta=4.0), lambda x: 1.0 + 1e-3 * x[:, 0], t=1.0, d=2, save=2)
    >>> float(law.mass_error) < 1e-12, law.status
    (True, 'done')
    >>> round(float(np.log(law.mode(1)[-1] / law.mode(1)[0])), 4)  # the rate is I_1(4)/(4 I_0(4)) = 0.2159
    0.2159
    """
    t, rtol = real("t", t, least=0.0), real("rtol", rtol, above=0.0)
    dim = _dimension(dynamics, rho0, d)
    _check_parts(dynamics)
    times = save_times(save, t, None)
    run = _Run(dynamics, rtol, _largest(dynamics, dim, most))
    if rtol > _COARSEST:
        raise InputError(f"rtol must be at most {_COARSEST:g}, not {rtol:g}: a law could become negative unnoticed.")
    first = SURFACES[dim].smallest if modes is None else int(real("modes", modes, least=4.0))
    return run.through(*_started(run, rho0, surface(dim, min(first, run.most))), times, t)


class _Run:
    """One solution, step by step."""

    def __init__(self, dyn: Dynamics, rtol: float, most: int) -> None:
        self.dyn, self.rtol, self.most = dyn, rtol, most
        self.tail = max(10.0 * rtol, 1e-13)
        self.steps = 0

    def resolved(self, c: Moments, on: Surface) -> bool:
        """Whether the highest modes are small and the law is nowhere negative, both relative to what is largest."""
        rho = on.values(c)
        high = np.abs(c[on.degrees > _TAIL * on.degree]).max() / np.abs(c.flat[0])
        return bool(high <= self.tail and rho.min() >= -100.0 * self.tail * rho.max())

    def through(self, c: Moments, on: Surface, times: np.ndarray, end: float) -> Density:
        """The laws at the saved times, as many as could be resolved."""
        times = np.minimum(times, end)
        saved: list[Moments] = [c] * int(np.count_nonzero(times <= 0.0))
        steps, now = _Steps(self.dyn, on, self.rtol, end), 0.0
        steps.start(c, now)
        while len(saved) < len(times):
            after = steps.take()
            if after is None or not self.resolved(after, on):
                if 2 * on.degree > self.most:
                    break
                on = surface(on.dimension, 2 * on.degree)
                c, steps = resized(c, on), _Steps(self.dyn, on, self.rtol, end, steps.solver.step_size)
                steps.start(c, now)
                continue
            reached = int(np.count_nonzero(times <= steps.solver.t))
            if reached > len(saved):
                saved += steps.between(times[len(saved) : reached])
            c, now, self.steps = after, float(steps.solver.t), self.steps + 1
            steps.go_on(c, now)
        return self._density(saved, on, times, now)

    def _density(self, saved: list[Moments], on: Surface, times: np.ndarray, now: float) -> Density:
        done = len(saved) == len(times)
        message = ""
        if not done:
            message = (
                f"After t = {now:.4g} the law is too sharp for {on.degree} modes (the largest allowed); the times up "
                "to there are kept. Raise `most`, or add noise."
            )
            if not saved:
                raise InputError(f"{message} There is none: save an earlier time.")
            warnings.warn(message, RuntimeWarning, stacklevel=4)
        status = "done" if done else "unresolved"
        whole = np.stack([resized(c, on) for c in saved])
        return Density(times[: len(saved)], whole, on, self.dyn, status, float(now), message, self.steps)


class _Steps:
    """Steps on one surface, in coordinates y = e^{D (s - end)} c that noise leaves alone; c itself without noise."""

    def __init__(self, dyn: Dynamics, on: Surface, rtol: float, end: float, step: float | None = None) -> None:
        self.on, self.rtol, self.end, self.step = on, rtol, end, step
        self.drift = law_drift(dyn, on)
        self.damping = 0.5 * float(dyn.noise) ** 2 * on.laplacian
        self.longest = _DEEPEST / float(self.damping.max()) if dyn.noisy else np.inf
        self.solver: DOP853

    def start(self, c: Moments, now: float) -> None:
        """A solver from c at time ``now``; its coordinates are c at the end of the step it will try first."""
        first = None if self.step is None else min(self.step, self.end - now, self.longest)
        self.ahead, self.shape = now + (first or 0.0), c.shape
        self.solver = DOP853(
            self._rate,
            now,
            (self._factor(now) * c).ravel().astype(complex),
            self.end,
            rtol=max(self.rtol, 3e-14),
            atol=self.rtol * 1e-4 * float(np.abs(c.flat[0])),
            first_step=first,
            max_step=self.longest,
        )

    def take(self) -> Moments | None:
        """The moments after one more step; None where no step is short enough."""
        return self._moments(self.solver.t, self.solver.y) if self.solver.step() is None else None

    def between(self, times: np.ndarray) -> list[Moments]:
        """The moments at times inside the last step."""
        inside = self.solver.dense_output()
        return [self._moments(s, inside(s)) for s in times]

    def go_on(self, c: Moments, now: float) -> None:
        """With noise every step has coordinates of its own."""
        if np.isfinite(self.longest) and now < self.end:
            self.step = float(self.solver.h_abs)
            self.start(c, now)

    def _factor(self, s: float) -> np.ndarray:
        return np.asarray(np.exp(self.damping * (s - self.ahead)))

    def _moments(self, s: float, y: np.ndarray) -> Moments:
        return np.asarray(y.reshape(self.shape) / self._factor(s))

    def _rate(self, s: float, y: np.ndarray) -> np.ndarray:
        return np.asarray(self._factor(s) * self.drift(self._moments(s, y))).ravel()


# --- what is given ------------------------------------------------------------------------------------------------


def _started(run: _Run, rho0: Law, on: Surface) -> tuple[Moments, Surface]:
    """The moments of the first law, in a basis that resolves it."""
    while True:
        c = _moments(rho0, on)
        if run.resolved(c, on):
            return c, on
        if 2 * on.degree > run.most:
            raise InputError(
                f"rho0 is not smooth enough for {on.degree} modes, or negative somewhere; give a smoother law."
            )
        on = surface(on.dimension, 2 * on.degree)


def _moments(rho0: Law, on: Surface) -> Moments:
    if isinstance(rho0, Density):
        return resized(rho0.moments[-1], on)
    if isinstance(rho0, str):
        if rho0 != "uniform":
            raise InputError(f"rho0 must be a function of points, values at even angles or 'uniform', not {rho0!r}.")
        values = np.ones(len(on.points))
    elif callable(rho0):
        values = _numbers(rho0(on.points))
        if values.shape != (len(on.points),):
            raise InputError(f"rho0 must give one number per point, ({len(on.points)},), not shape {values.shape}.")
    else:
        return _from_even_angles(_numbers(rho0), on)
    _check_law(values)
    c = on.moments(values)
    return c / float(on.weights @ values)


def _numbers(given: Any) -> np.ndarray:
    try:
        if np.iscomplexobj(given):
            raise TypeError
        return np.asarray(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"rho0 must be real numbers, or a function that gives them, not {kind_of(given)}.") from error


def _from_even_angles(values: np.ndarray, on: Surface) -> Moments:
    if values.ndim != 1 or len(values) < 2:
        raise InputError(f"Values of rho0 are those at even angles of the circle, (m,), not shape {values.shape}.")
    _check_law(values)
    c = np.fft.rfft(values)[: (len(values) + 1) // 2] / values.sum()
    out = np.zeros(on.degrees.shape, complex)
    out[: min(len(c), len(out))] = c[: len(out)]
    return out


def _check_law(values: np.ndarray) -> None:
    if not np.isfinite(values).all() or values.min() < -1e-12 * values.max() or values.max() <= 0.0:
        raise InputError(f"rho0 must be finite and nowhere negative; its least value is {values.min():.3g}.")


def _dimension(dyn: Dynamics, rho0: Law, d: int | None) -> int:
    if not isinstance(dyn, Dynamics):
        raise InputError(f"density needs a Dynamics object, not {type(dyn).__name__}.")
    anywhere = isinstance(rho0, str) or callable(rho0)
    own = rho0.surface.dimension if isinstance(rho0, Density) else None if anywhere else 2
    asked = None if d is None else real("d", d, least=1.0)
    found = {each for each in (asked, own, dyn.weights.dimension) if each is not None} or {2}
    if len(found) > 1 or not found <= set(SURFACES):
        raise InputError(f"A density lives on the circle (d = 2) or on S^2 (d = 3), not in d = {sorted(found)}.")
    return int(found.pop())


def _check_parts(dyn: Dynamics) -> None:
    """One sentence for every part that has no law of infinitely many tokens here."""
    why = None
    if not dyn.geometry.fixed_norm or dyn.geometry.gained is not None:
        why = f"geometry='sphere', not {dyn.geometry.name!r}"
    elif dyn.normalise.stream not in ("softmax", "unnormalised") or not dyn.score.is_dot:
        why = "dot scores with normalise='softmax' or 'unnormalised'"
    elif dyn.mask.visible is not None or dyn.position is not None:
        why = "full attention without positions (infinitely many tokens have no order)"
    elif dyn.block is not None or dyn.time_dependent:
        why = "no block, and weights that do not depend on time"
    elif dyn.weights.biased or not dyn.weights.bilinear:
        why = "weights without biases and norms"
    elif dyn.noisy and not dyn.noise_kind.independent:
        why = "independent noise (a common noise moves the density by chance)"
    elif np.ndim(dyn.beta) or np.ndim(dyn.noise):
        why = "one beta and one noise, not arrays of them"
    if why:
        raise InputError(f"A density needs {why}.")


def _largest(dyn: Dynamics, dim: int, most: int | None) -> int:
    if most is not None:
        return int(real("most", most, least=4.0))
    if dim == 2 or all(kernel_is_spectral(form) for form in dyn.weights.score_map(d=dim)):
        return SURFACES[dim].largest
    return int(np.sqrt(np.sqrt(MOST_ENTRIES) / 4.5)) - 2  # N is about 4.5 degree^2
