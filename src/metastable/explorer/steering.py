"""What can be steered in the explorer: the settings of ``metastable simulate``, their bounds, and their link.

A state is a plain mapping from names of settings to values, only those that differ from the defaults. It is what a link
carries, what a preset is, and what a run is made from; nothing else is remembered of a session.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

import numpy as np

from metastable.config import matrix_specs
from metastable.config.settings import Simulate, checked
from metastable.equation.geometry import GEOMETRIES
from metastable.equation.noises import NOISES
from metastable.errors import InputError, unknown
from metastable.models.zoo_packages import MODELS
from metastable.solve.methods import METHODS

State = dict[str, Any]
Moved = dict[int, list[float]]

DEFAULTS: State = {
    "n": 64, "d": 3, "beta": 9.0, "mask": "full", "normalise": "softmax", "geometry": "sphere", "score": "dot",
    "V": "identity", "Q": "identity", "K": "identity", "heads": 1, "position": "none", "initial": "usual", "noise": 0.0,
    "noise_kind": "independent", "seed": 0, "t": 15.0, "dt": 0.1, "method": "rk4", "moved": "",
}  # fmt: skip
WHOLE = ("n", "d", "heads", "seed")
NUMBERS = ("beta", "noise", "t", "dt")
MOST = {"n": 4000, "d": 128, "heads": 16, "t": 5000.0, "seed": 2**31}
MOST_WORK = 1e11  # see `work_of`
MOST_COORDINATES = 128_000  # of one state; a run keeps SAVES states
MOST_TEXT = 4000  # characters of one setting
SAVES = 151
EIGENVALUES = 8  # most eigenvalues that have sliders


@dataclass(frozen=True)
class Control:
    """One control: a slider (``low``, ``high``, ``step``; logarithmic or not) or a choice among ``options``."""

    name: str
    label: str
    group: str
    help: str
    low: float = 0.0
    high: float = 1.0
    step: float = 1.0
    log: bool = False
    options: tuple[str, ...] = ()


CONTROLS: tuple[Control, ...] = (
    Control("n", "tokens n", "Tokens", "number of tokens", 2, 256, 1),
    Control("d", "dimension d", "Tokens", "dimension of the tokens", 1, 32, 1),
    Control("initial", "start", "Tokens", "cloud the tokens start from",
            options=("usual", "sphere", "cap", "cap(angle=1.5)", "cube", "gaussian", "clusters", "equiangular")),
    Control("seed", "seed", "Tokens", "seed of tokens, weights and noise", 0, 99, 1),
    Control("beta", "inverse temperature β", "Attention", "how sharply tokens listen to the most similar ones",
            0.05, 50.0, 0.005, log=True),
    Control("mask", "mask", "Attention", "who sees whom", options=("full", "causal", "window(8)", "window(16)")),
    Control("normalise", "normalise", "Attention", "how scores become attention",
            options=("softmax", "unnormalised", "hardmax", "sinkhorn")),
    Control("score", "score", "Attention", "what makes two tokens similar", options=("dot", "distance", "bounded")),
    Control("position", "positions", "Attention", "positions in the scores", options=("none", "alibi", "rotary")),
    Control("heads", "heads h", "Attention", "number of heads, summed", 1, 8, 1),
    Control("geometry", "geometry", "Motion", "where tokens live; where norms are taken", options=tuple(GEOMETRIES)),
    Control("method", "method", "Motion", "how time is stepped", options=tuple(METHODS)),
    Control("t", "horizon t", "Motion", "time to which the run goes", 0.5, 500.0, 0.005, log=True),
    Control("dt", "step dt", "Motion", "step of the fixed methods", 0.005, 1.0, 0.005, log=True),
    Control("noise", "noise σ", "Motion", "strength of isotropic noise (steps by euler)", 0.0, 1.0, 0.01),
    Control("noise_kind", "whose noise", "Motion", "one for every token, or one for all", options=tuple(NOISES)),
)  # fmt: skip
LABELS = {**{one.name: one.label for one in CONTROLS}, "V": "values V", "Q": "queries Q", "K": "keys K"}
MATRICES = {"identity": "identity", "minus": "-1", "eigenvalues": "", "goe": "goe", "ginibre": "ginibre",
            "orthogonal": "orthogonal", "psd": "psd", "perron": "perron"}  # fmt: skip


def from_query(text: str) -> State:
    """The state a link holds; unknown names are left alone by the explorer's own (`view`, `compare`, ...).

    >>> from_query("n=8&beta=2&mask=causal")
    {'n': 8, 'beta': 2.0, 'mask': 'causal'}
    """
    found: State = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name in DEFAULTS:
            found[name] = value
    return tidy(found)


def to_query(state: Mapping[str, Any]) -> str:
    """The link of a state, without its address.

    >>> to_query({"n": 64, "beta": 2.0})
    'beta=2.0'
    """
    return urlencode(tidy(state))


def tidy(state: Mapping[str, Any]) -> State:
    """A state with every value of its type and within bounds, without defaults; or a sentence about what is wrong."""
    out: State = {}
    for name, value in state.items():
        if name not in DEFAULTS:
            raise unknown("setting", name, DEFAULTS)
        kept = _value(name, value)
        if kept != DEFAULTS[name]:
            out[name] = kept
    return out


def _value(name: str, value: Any) -> Any:
    if name not in WHOLE + NUMBERS:
        text = str(value).strip()
        if len(text) > MOST_TEXT or not text.isprintable():
            raise InputError(f"{name} must be a short text, not {len(text)} characters.")
        return text
    try:
        number = float(value)
        if name in WHOLE and number != int(number):
            raise ValueError
    except (TypeError, ValueError, OverflowError) as error:
        kind = "a whole number" if name in WHOLE else "a number"
        raise InputError(f"{name} must be {kind}, not {str(value)[:40]!r}.") from error
    if not np.isfinite(number):
        raise InputError(f"{name} must be finite, not {number}.")
    if name in MOST and number > MOST[name]:
        raise InputError(f"{name} = {number:g} is more than the explorer takes ({MOST[name]:g}); use Python for it.")
    return int(number) if name in WHOLE else number


def settings_of(state: Mapping[str, Any]) -> Simulate:
    """The settings of `metastable simulate` behind a state, checked against what the explorer may be asked to do."""
    full = {**DEFAULTS, **tidy(state)}
    for name in ("Q", "K", "V"):
        _harmless(name, full[name])
    table: State = {name: full[name] for name in full if name not in ("moved", "Q", "K", "V", "heads")}
    table["initial"] = None if full["initial"] == "usual" else full["initial"]
    table["heads"] = None if full["heads"] == 1 else full["heads"]
    table |= {name: None if full[name] == "identity" else full[name] for name in ("Q", "K", "V")}
    table["dt"] = _step(full)
    if full["noise"] > 0:
        table["method"] = "euler"
    table["save"] = SAVES
    if full["dt"] <= 0:
        raise InputError(f"dt must be a number > 0, not {full['dt']:g}.")
    found = checked(Simulate, {name: value for name, value in table.items() if value is not None})
    _affordable(full)
    return found


def _harmless(name: str, value: str) -> None:
    """No file is read because a page says so."""
    if matrix_specs.is_file(value):
        raise InputError(
            f"{name} is a file in {value!r}; the explorer reads no files: write the matrix as [[1, 0], ...]."
        )
    if matrix_specs.is_model(value) and value.removeprefix("model:").partition("/")[0] not in MODELS:
        raise InputError(f"{name} must name a model of the zoo (model:reactions-albert/head=4/top=3), not {value!r}.")


def work_of(state: Mapping[str, Any], runs: int = 1) -> float:
    """What a state's run costs, or so many of its runs: pairs of tokens x steps x heads x dimension.

    >>> work_of({"n": 10, "d": 2, "t": 3.0, "dt": 0.1}) == 10 * 10 * 30 * 2
    True
    """
    full = {**DEFAULTS, **state}
    steps = max(1.0, full["t"] / max(_step(full), 1e-9))
    pairs = float(max(2, full["n"])) ** 2
    return float(pairs * steps * max(1, full["heads"]) * max(1, full["d"]) * runs)


def _step(full: Mapping[str, Any]) -> float:
    """The step dt: that of discrete layers is 1 unless another is asked for."""
    method = METHODS.get(full["method"])
    discrete = method is not None and method.discrete and full["dt"] == DEFAULTS["dt"]
    return 1.0 if discrete else float(full["dt"])


def _affordable(full: Mapping[str, Any]) -> None:
    n = max(2, full["n"])
    if n * full["d"] > MOST_COORDINATES:
        raise InputError(
            f"n = {n} tokens of d = {full['d']} have {n * full['d']:,} coordinates, more than the explorer keeps for "
            f"every saved time ({MOST_COORDINATES:,}); lower n or d, or use metastable simulate."
        )
    work = work_of(full)
    if work > MOST_WORK:
        raise InputError(
            f"n = {n}, d = {full['d']}, heads = {full['heads']} to t = {full['t']:g} in steps of {_step(full):g} would "
            f"take {work:.1e} pairs of tokens x steps x heads x dimension, more than the explorer takes "
            f"({MOST_WORK:.0e}); lower n, d, heads or t, or use metastable simulate."
        )


def moved_of(text: str) -> Moved:
    """Tokens that were moved by hand, from a link.

    >>> moved_of("3:0.5:1;4:0:2")
    {3: [0.5, 1.0], 4: [0.0, 2.0]}
    """
    found: Moved = {}
    for part in filter(None, text.split(";")):
        try:
            token, *values = part.split(":")
            found[int(token)] = [float(value) for value in values]
        except ValueError as error:
            raise InputError(f"moved must be written token:x1:x2;..., not {part[:40]!r}.") from error
    return found


def moved_text(moved: Moved) -> str:
    """Moved tokens as a link holds them."""
    return ";".join(":".join([str(token), *(f"{value:.5g}" for value in values)]) for token, values in moved.items())


def eigenvalues_of(text: str, d: int) -> list[complex]:
    """The d eigenvalues that sliders show for what is written for V, or none.

    >>> eigenvalues_of("identity", 2), eigenvalues_of("-1", 2), eigenvalues_of("1,0.5", 2)
    ([(1+0j), (1+0j)], [(-1+0j), (-1+0j)], [(1+0j), (0.5+0j)])
    """
    if d > EIGENVALUES:
        return []
    body = "1" if text == "identity" else text.split("@")[0]
    try:
        values = [complex(part.replace(" ", "")) for part in body.split(",")]
    except ValueError:
        return []
    if len(values) == 1:
        values *= d
    kept = (values + [complex(values[-1].real)] * d)[:d]
    return kept if np.isclose(sum(value.imag for value in kept), 0.0) else [complex(value.real) for value in kept]


def eigenvalues_text(values: list[complex]) -> str:
    """Eigenvalues as written for V: diagonal, complex ones as pairs in their plane.

    >>> eigenvalues_text([1 + 0j, 1 + 0j]), eigenvalues_text([1 + 2j, 1 - 2j])
    ('1,1', '1+2j,1-2j')
    """
    parts = [f"{v.real:g}" + (f"{v.imag:+g}j" if v.imag else "") for v in values]
    if len(parts) == 1 and not values[0].imag:
        return parts[0]
    return ",".join(parts)
