"""The one error a user can cause, and the sentence that says how to mend it."""

import errno
import inspect
import re
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")
_KINDS: dict[type, str] = {bool: "b", str: "U", bytes: "S", bytearray: "S"}
_WORDS = {"b": "truth values", "S": "bytes", "U": "words"}
# what Python and NumPy raise when a function is given something it cannot use
_RAW = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


class InputError(ValueError):
    """Bad input: one sentence with what was wrong, what was given and what to do.

    The sentence is one line, whatever was given: arrays that print as several lines are joined.
    """

    def __init__(self, sentence: object = "") -> None:
        super().__init__(" ".join(str(sentence).split("\n")))


class Misuse(InputError):
    """What a door made of an error that nobody foresaw: most often misuse, sometimes a fault of metastable itself.

    In Python both are one sentence, with the original error as its cause. Commands have checked what a user wrote
    before they call a door, so to them it is a fault (exit code 70).
    """


def unknown(kind: str, given: object, options: Iterable[str]) -> InputError:
    """The error for a name that is in no table, with the nearest name that is.

    >>> str(unknown("mask", "casual", ["full", "causal"]))
    "Unknown mask 'casual'; did you mean 'causal'? Choose from: full, causal."
    """
    names = list(options)
    near = _nearest(str(given), names)
    hint = f"; did you mean '{near}'?" if near else "."
    return InputError(f"Unknown {kind} {_short(given)}{hint} Choose from: {', '.join(names)}.")


def _nearest(given: str, names: Iterable[str]) -> str | None:
    """The name that was most likely meant: few letters away, or begun with what was given; None where none is near.

    >>> _nearest("goeo", ["goe", "psd"]), _nearest("tol", ["tolerance"]), _nearest("nothing", ["model-sharing"])
    ('goe', 'tolerance', None)
    """
    word = given.lower()[:80]
    close = [(_typing_errors(word, name.lower()), name) for name in names]
    best = min(close, key=lambda found: found[0], default=(0, ""))
    if best[1] and best[0] <= max(1, len(word) // 3) and best[0] < len(word):
        return best[1]
    begun = [n for n in names if any(part.startswith(word) for part in (n.lower(), *re.split(r"[-_ ]", n.lower())))]
    return begun[0] if len(word) >= 3 and begun else None


def _typing_errors(a: str, b: str) -> int:
    """How many letters must be put in, left out, replaced or swapped with their neighbour to turn a into b."""
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, letter in enumerate(a):
        row = [i + 1]
        for j, other in enumerate(b):
            row.append(min(last[j + 1] + 1, row[j] + 1, last[j] + (letter != other)))
            if i and j and letter == b[j - 1] and a[i - 1] == other:
                row[-1] = min(row[-1], before[j - 1] + 1)
        before, last = last, row
    return last[-1]


def numbers(value: T) -> T:
    """``value`` itself, unless it holds words, bytes or truth values, which Python would take for numbers.

    >>> numbers(b"2")
    Traceback (most recent call last):
        ...
    TypeError: b'2' is no number
    """
    import numpy as np  # here, because `metastable --help` imports this module

    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind is None:
        kind = np.asarray(value).dtype.kind if isinstance(value, (list, tuple)) else _KINDS.get(type(value), "f")
    if kind in _WORDS:
        raise TypeError(f"{_short(value)} is no number")
    return value


def kind_of(value: object) -> str:
    """What a value is, for a sentence: its type, and of an array what it holds."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return type(value).__name__ + (f" of {_WORDS[kind]}" if kind in _WORDS else "")


# --- the public doors -------------------------------------------------------------------------------------------------


def door(thing: T) -> T:
    """Make a function, or a class when it is called, answer misuse with one InputError.

    An unknown option is answered like an unknown name, a missing one is named, and what Python or NumPy raise inside
    becomes a sentence with what was given (a `Misuse`); the original error stays its cause. So do errors of the system
    about a name that is too long. Errors of JAX's tracing pass through.

    Examples
    --------
    >>> @door
    ... def area(width, height=1.0):
    ...     return width * height
    >>> area(2.0, hight=3.0)
    Traceback (most recent call last):
        ...
    metastable.errors.InputError: Unknown option of area 'hight'; did you mean 'height'? Choose from: width, height.
    """
    if isinstance(thing, type):
        whole: Any = thing
        whole.__init__ = _guarded(whole.__init__, thing.__name__, skip=1)
        return thing
    name: str = getattr(thing, "__name__", "the function")
    guarded: T = _guarded(thing, name)
    return guarded


def doors(namespace: dict[str, Any]) -> None:
    """Make every function that a package lists in its ``__all__`` a door; its own modules import them undisguised."""
    for name in namespace["__all__"]:
        if inspect.isfunction(namespace[name]):
            namespace[name] = door(namespace[name])


def _guarded(function: Any, name: str, skip: int = 0) -> Any:
    @wraps(function)
    def checked(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except InputError:
            raise
        except _RAW as error:
            if type(error).__module__.startswith("jax"):
                raise
            raise _sentence(function, name, skip, args, named, error) from error
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise InputError(f"File name too long: {_short(error.filename)}; give a shorter one.") from error

    return checked


def _sentence(
    function: Callable[..., Any], name: str, skip: int, args: tuple[Any, ...], named: dict[str, Any], error: Exception
) -> InputError:
    parameters = list(inspect.signature(function).parameters.values())
    skip = 1 if parameters and parameters[0].name == "self" else skip
    names = [p.name for p in parameters[skip:] if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    try:
        given = inspect.signature(function).bind(*args, **named).arguments
    except TypeError as misfit:
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            for option in named:
                if option not in names:
                    return _no_such_option(name, option, names)
        text = str(misfit).replace("'self', ", "")
        return Misuse(f"{name} cannot be called so: {text}; it takes {', '.join(names) or 'nothing'}.")
    shown = ", ".join(f"{key} = {_short(value)}" for key, value in list(given.items())[skip:])
    return Misuse(f"{name} cannot use what it was given ({shown}): {_reason(error)}")


def _no_such_option(name: str, option: str, names: list[str]) -> InputError:
    if not names:
        return InputError(f"{name} takes no options, but {option!r} was given.")
    return unknown(f"option of {name}", option, names)


def _reason(error: Exception) -> str:
    text = (str(error).splitlines() or [""])[0].strip()
    if isinstance(error, KeyError):
        text = f"there is no {text}"
    return f"{text or type(error).__name__}{'' if text.endswith(('.', '!', '?')) else '.'}"


def _short(value: object) -> str:
    """A value in a few characters: numbers and names as they are, everything else by type and shape."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    shape = getattr(value, "shape", None)
    size = f" of shape {tuple(shape)}" if isinstance(shape, tuple) else ""
    return f"{type(value).__name__}{size}"
