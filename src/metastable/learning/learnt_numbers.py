"""Which numbers of a Dynamics are learned: names to arrays, and back into a Dynamics.

| name                                          | what is learned                                                    |
|-----------------------------------------------|--------------------------------------------------------------------|
| Q, K, V, O, q_bias, ...                       | a map of the weights; an identity that was left out is written out |
| beta                                          | the inverse temperature, one number or one per run                 |
| tokens                                        | the first tokens; on the sphere they stay there                    |
| mlp.W_in, attention_norm.gain, residual, ...  | a number or array of the block                                     |
| position.table, ...                           | one of the positions                                               |
| weights, mlp, block, position                 | all arrays of that part                                            |

A map that is a `Stack` (one entry per layer) is learned entry by entry. With ``pieces`` every map that is constant in
time becomes one: constant on that many equal stretches of time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from metastable.backend import Array, Tokens
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Stack, Timed
from metastable.errors import InputError, unknown

Numbers = dict[str, Array]
TOKENS, BETA = "tokens", "beta"
_MAPS = ("Q", "K", "V", "O", "q_bias", "k_bias", "v_bias", "o_bias")
_PARTS = ("weights", "block", "position")


def expanded(dynamics: Dynamics, over: Any) -> tuple[str, ...]:
    """The names of single arrays behind ``over``, each once.

    >>> from metastable.equation.blocks import MLP, Block
    >>> dyn = Dynamics(block=Block(mlp=MLP(np.ones((4, 2)), np.ones((2, 4)))))
    >>> expanded(dyn, ["mlp", "V"])
    ('mlp.W_in', 'mlp.W_out', 'V')
    """
    given = [over] if isinstance(over, str) else list(over) if isinstance(over, Iterable) else None
    if not given or not all(isinstance(name, str) for name in given):
        raise InputError(f"over must name what is learned, such as ['V', 'beta'], not {over!r}.")
    found: list[str] = []
    for name in given:
        found += [one for one in _leaves(dynamics, name) if one not in found]
    return tuple(found)


def _leaves(dynamics: Dynamics, name: str) -> list[str]:
    if name in (TOKENS, BETA, *_MAPS):
        return [name]
    home, value = _found(dynamics, name)
    if home is None:
        raise unknown("name of something to learn", name, _known(dynamics))
    if is_dataclass(value) and not isinstance(value, (Stack, Timed)):
        inside = [f.name for f in fields(value) if _holds_numbers(getattr(value, f.name))]
        if not inside:
            raise InputError(f"{name} holds no numbers yet; choose from: {', '.join(_known(dynamics))}.")
        prefix = "" if name in ("weights", "block") else f"{name}."
        return [leaf for own in inside for leaf in _leaves(dynamics, prefix + own)]
    if not _holds_numbers(value):
        raise InputError(f"{name} holds no numbers that could be learned; choose from: {', '.join(_known(dynamics))}.")
    return [_shortest(name)]


def _shortest(name: str) -> str:
    """One name for one array: ``weights.V`` is V, ``block.residual`` is residual.

    >>> _shortest("weights.V"), _shortest("block.mlp.W_in"), _shortest("position.slopes")
    ('V', 'mlp.W_in', 'position.slopes')
    """
    return name.removeprefix("weights.").removeprefix("block.")


def _found(dynamics: Dynamics, name: str) -> tuple[tuple[str, ...] | None, Any]:
    """The path of a dotted name from the Dynamics on, and what is there; None where there is nothing of that name."""
    path = tuple(name.split("."))
    for start in ((), ("block",), ("weights",)):
        if not start and path[0] not in _PARTS:
            continue
        value: Any = dynamics
        for step in (*start, *path):
            value = getattr(value, step, None) if is_dataclass(value) else None
        if value is not None:
            return (*start, *path), value
    return None, None


def _holds_numbers(value: Any) -> bool:
    if isinstance(value, Stack) or (is_dataclass(value) and not isinstance(value, (Timed, type))):
        return True
    return isinstance(value, float) or (hasattr(value, "ndim") and np.issubdtype(value.dtype, np.floating))


def _known(dynamics: Dynamics) -> list[str]:
    names = [TOKENS, BETA, *_MAPS]
    for part in ("block", "position"):
        value = getattr(dynamics, part)
        if is_dataclass(value):
            own = [f.name for f in fields(value) if _holds_numbers(getattr(value, f.name))]
            names += own if part == "block" else [f"{part}.{name}" for name in own]
    return names


# --- reading and putting back -----------------------------------------------------------------------------------------


def in_pieces(dynamics: Dynamics, names: Iterable[str], d: int, pieces: int, t: float) -> Dynamics:
    """The dynamics with its learned maps written out, as `Stack`s of equal stretches of [0, t] where pieces > 1."""
    for name in names:
        if name in (TOKENS, BETA):
            continue
        value = _value(dynamics, name, d)
        if pieces > 1 and not isinstance(value, Stack):
            value = Stack(np.repeat(np.asarray(value, float)[None], pieces, axis=0), t / pieces)
        dynamics = _put(dynamics, _path(dynamics, name), value)
    return dynamics


def numbers_of(dynamics: Dynamics, x0: Any, names: Iterable[str]) -> Numbers:
    """The learned arrays as they are, by name."""
    found: dict[str, Any] = {}
    for name in names:
        value = x0 if name == TOKENS else _value(dynamics, name, x0.shape[-1])
        found[name] = np.asarray(value.values if isinstance(value, Stack) else value, float)
    return found


def with_numbers(dynamics: Dynamics, x0: Tokens, numbers: Mapping[str, Any]) -> tuple[Dynamics, Tokens]:
    """The dynamics and first tokens with these numbers in them; traced ones too."""
    for name, value in numbers.items():
        if name == TOKENS:
            x0 = dynamics.geometry.retract(value) if dynamics.geometry.fixed_norm else value
            continue
        path = _path(dynamics, name)
        old = _found(dynamics, ".".join(path))[1] if path[0] in _PARTS else None
        dynamics = _put(dynamics, path, replace(old, values=value) if isinstance(old, Stack) else value)
    return dynamics, x0


def _path(dynamics: Dynamics, name: str) -> tuple[str, ...]:
    if name == BETA:
        return (BETA,)
    if name in _MAPS:
        return ("weights", name)
    path = _found(dynamics, name)[0]
    assert path is not None  # `expanded` looked
    return path


def _value(dynamics: Dynamics, name: str, d: int) -> Any:
    value: Any = dynamics
    for step in _path(dynamics, name):
        value = getattr(value, step)
    if isinstance(value, Timed):
        raise InputError(f"{name} is a function of time of one's own and holds no numbers; give an array and pieces.")
    if value is None and name in ("Q", "K", "V"):
        return np.broadcast_to(np.eye(d), (dynamics.weights.heads, d, d)).copy()
    if value is None:
        raise InputError(f"The dynamics has no {name} to learn; give it one to start from.")
    return value


def _put(part: Any, path: tuple[str, ...], value: Any) -> Any:
    inner = value if len(path) == 1 else _put(getattr(part, path[0]), path[1:], value)
    return replace(part, **{path[0]: inner})


def effort_of(dynamics: Dynamics, names: Iterable[str], numbers: Mapping[str, Any], t: float) -> Any:
    """The integral over [0, t] of the sum of squares of the learned maps; beta and tokens cost nothing."""
    total: Any = 0.0
    for name in names:
        if name not in (TOKENS, BETA):
            value = _value(dynamics, name, 1)
            lasting = durations(value, t) if isinstance(value, Stack) else np.array([t])
            total = total + (lasting.reshape(-1, *[1] * (np.ndim(numbers[name]) - 1)) * numbers[name] ** 2).sum()
    return total


def durations(stack: Stack, t: float) -> np.ndarray:
    """How long each entry acts in [0, t]: the last one for what is left, one that would begin after t not at all.

    >>> durations(Stack(np.ones((4, 1)), 0.5), 1.25).tolist(), durations(Stack(np.ones((2, 1)), 0.5), 1.25).tolist()
    ([0.5, 0.5, 0.25, 0.0], [0.5, 0.75])
    """
    ends = np.minimum(t, stack.dt * np.arange(1, np.shape(stack.values)[0]))
    return np.diff(ends, prepend=0.0, append=t)
