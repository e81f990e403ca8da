"""What a fit is to do, checked before it starts: every problem is one sentence."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.backend import Tokens, is_traced, jax, jnp, ready
from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError, kind_of
from metastable.learning import learnt_numbers, losses
from metastable.learning.learnt_numbers import TOKENS, Numbers
from metastable.learning.losses import Loss
from metastable.solve import methods
from metastable.solve.checks import check_method, check_shapes, checked_seed, checked_tokens, real
from metastable.solve.flow import flow
from metastable.solve.methods import METHODS, Method
from metastable.store.describe import Parts, take_apart

Data = tuple[Tokens, Tokens]  # first tokens and targets


@dataclass(frozen=True)
class Problem:
    """A checked fit; ``dynamics`` holds its learned maps written out, in pieces where asked for."""

    dynamics: Dynamics
    x0: np.ndarray  # (..., n, d)
    targets: np.ndarray  # (T, ..., m, d)
    names: tuple[str, ...]
    times: np.ndarray
    method: Method
    dt: float | None
    loss: Loss
    effort: float
    pieces: int
    steps: int
    rate: float
    optimiser: Any
    seed: int
    held_out: Data | None

    def numbers(self) -> Numbers:
        """What is learned, as it is at the start."""
        return learnt_numbers.numbers_of(self.dynamics, self.x0, self.names)

    def objective(self, numbers: Any, data: Data) -> tuple[Any, dict[str, Any]]:
        """error + effort_weight * effort, and both of them."""
        error = self.error(numbers, data)
        cost = learnt_numbers.effort_of(self.dynamics, self.names, numbers, float(self.times[-1]))
        return error + self.effort * cost, {"error": error, "effort": jnp.asarray(cost, float)}

    def error(self, numbers: Any, data: Data) -> Any:
        """The loss of the tokens at the given times."""
        dynamics, x0 = learnt_numbers.with_numbers(self.dynamics, data[0], numbers)
        x = flow(dynamics, x0, self.times, self.method, self.dt, seed=self.seed)
        return self.loss(x, jnp.asarray(data[1]))

    def settings(self) -> dict[str, Any]:
        """What a user chose, as plain data."""
        return {
            "over": list(self.names),
            "times": self.times.tolist(),
            "method": self.method.name,
            "dt": self.dt,
            "loss": getattr(self.loss, "__name__", type(self.loss).__name__),
            "effort": self.effort,
            "pieces": self.pieces,
            "steps": self.steps,
            "rate": self.rate,
            "optimiser": self.optimiser if isinstance(self.optimiser, str) else type(self.optimiser).__name__,
            "seed": self.seed,
            "tokens": list(self.x0.shape),
        }

    def fingerprint(self, parts: Parts) -> str | None:
        """A digest of everything that decides the digits; None when functions of one's own are among it."""
        known = self.loss in losses.LOSSES.values() and isinstance(self.optimiser, str)
        if parts.custom or not known or METHODS.get(self.method.name) != self.method:
            return None
        digest = hashlib.sha256(json.dumps([parts.tree, self.settings()], sort_keys=True).encode())
        held = {} if self.held_out is None else {"held_out x0": self.held_out[0], "held_out targets": self.held_out[1]}
        for name, array in {"x0": self.x0, "targets": self.targets, **held, **parts.arrays}.items():
            digest.update(f"{name} {np.shape(array)}".encode() + np.ascontiguousarray(array, float).tobytes())
        return digest.hexdigest()

    def parts(self) -> Parts:
        """The dynamics as plain data."""
        return take_apart(self.dynamics)


def make_problem(dynamics: Any, x0: Any, targets: Any, over: Any, chosen: Mapping[str, Any]) -> Problem:
    """A problem from what `fit` was given."""
    ready()
    if not isinstance(dynamics, Dynamics):
        raise InputError(f"dynamics must be a Dynamics object, not {type(dynamics).__name__}.")
    if any(is_traced(value) for value in (x0, targets, dynamics.beta)):
        raise InputError("fit looks at numbers and cannot be traced; differentiate flow instead.")
    method, loss = methods.resolve(chosen["method"]), losses.loss_of(chosen["loss"])
    check_method(dynamics, method)
    x, pieces = checked_tokens(dynamics, x0), whole("pieces", chosen["pieces"])
    check_shapes(dynamics, x.shape, method)
    times = _times(chosen["times"])
    names = learnt_numbers.expanded(dynamics, over)
    if chosen["held_out"] is not None and TOKENS in names:
        raise InputError("Tokens that are learned say nothing of others: leave out held_out, or 'tokens' from over.")
    written = learnt_numbers.in_pieces(dynamics, names, x.shape[-1], pieces, float(times[-1]))
    check_shapes(written, x.shape, method)
    y = _targets(written, x, targets, times, chosen["times"], loss, "targets")
    _check_loss(loss, (len(times), *x.shape), y.shape)
    return Problem(
        written,
        x,
        y,
        names,
        times,
        method,
        None if chosen["dt"] is None else real("dt", chosen["dt"], above=0.0),
        loss,
        real("effort", chosen["effort"], least=0.0),
        pieces,
        whole("steps", chosen["steps"]),
        real("rate", chosen["rate"], above=0.0),
        chosen["optimiser"],
        checked_seed(chosen["seed"]),
        _held_out(written, x, chosen["held_out"], times, chosen["times"], loss, method),
    )


def _check_loss(loss: Loss, x: tuple[int, ...], y: tuple[int, ...]) -> None:
    """A loss of one's own must give one number, by functions that have slopes."""
    name = getattr(loss, "__name__", type(loss).__name__)
    try:
        found = jax.eval_shape(loss, *(jax.ShapeDtypeStruct(shape, float) for shape in (x, y)))
    except Exception as error:
        said = str(error).strip().split("\n")[0]
        raise InputError(
            f"The loss {name} cannot be followed by slopes, from tokens {x} and targets {y}; write it with jax.numpy. "
            f"It said: {type(error).__name__}: {said}"
        ) from error
    if getattr(found, "shape", None) != () or not jnp.issubdtype(found.dtype, jnp.floating):
        given = f"shape {found.shape} of {found.dtype}" if hasattr(found, "shape") else kind_of(found)
        raise InputError(f"The loss {name} must give one real number for tokens and targets, not {given}.")


def whole(name: str, value: Any) -> int:
    """A number of steps or pieces."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InputError(f"{name} must be a whole number >= 1, not {value!r}.")
    return int(value)


def _times(given: Any) -> np.ndarray:
    try:
        times = np.atleast_1d(np.asarray(given, float))
    except (TypeError, ValueError) as error:
        raise InputError(f"times must be a number, or numbers that increase, not {kind_of(given)}.") from error
    plain = times.ndim == 1 and times.size and np.isfinite(times).all() and not isinstance(given, (bool, str, bytes))
    if not plain or times[0] < 0 or (np.diff(times) <= 0).any() or times[-1] <= 0:
        raise InputError(f"times must be a positive number, or numbers that increase, not {given!r}.")
    return times


def _targets(
    dynamics: Dynamics, x: np.ndarray, given: Any, times: np.ndarray, asked: Any, loss: Loss, name: str
) -> np.ndarray:
    """Targets (T, ..., m, d): on the sphere where tokens are."""
    try:
        y = checked_tokens(dynamics, given)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    y = y[None] if np.ndim(asked) == 0 else y
    want = (len(times), *x.shape)
    free = loss in losses.UNPAIRED
    fits = y.ndim == len(want) and y.shape[:-2] == want[:-2] and y.shape[-1] == want[-1]
    if not fits or (y.shape[-2] != want[-2] and not free):
        shape = want if np.ndim(asked) else want[1:]
        raise InputError(
            f"{name} must have shape {shape}{' (any number of tokens)' if free else ''}, one place for every token"
            f"{' and time' if np.ndim(asked) else ''}; their shape is {np.shape(given)}."
        )
    return y


def _held_out(
    dynamics: Dynamics, x: np.ndarray, given: Any, times: np.ndarray, asked: Any, loss: Loss, method: Method
) -> Data | None:
    if given is None:
        return None
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise InputError("held_out must be a pair: other first tokens, and their targets.")
    try:
        other = checked_tokens(dynamics, given[0])
        if other.shape[-1] != x.shape[-1]:
            raise InputError(f"its tokens have dimension {other.shape[-1]}, but those of the fit have {x.shape[-1]}.")
        check_shapes(dynamics, other.shape, method)
    except InputError as error:
        raise InputError(f"held_out: {error}") from error
    return jnp.asarray(other), jnp.asarray(_targets(dynamics, other, given[1], times, asked, loss, "held_out"))
