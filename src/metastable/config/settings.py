"""The settings of each command: one line here is a key of the TOML table and a flag of the command line.

Only types are checked here; what values mean, and which go together, is checked by the parts of the simulator.
"""

import re
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from metastable.errors import InputError, unknown


class Table(BaseModel):
    """A table of settings; unknown names are refused with the nearest known one."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("bool")  # Python would take true for 1
    return value


def _listed(value: Any) -> Any:
    """Text as a whole number or, with commas, as a list of numbers; everything else as it is."""
    if not isinstance(value, str):
        return _no_bool(value)
    if re.fullmatch(r"\s*[-+]?\d+\s*", value):
        return int(value)
    return [float(part) for part in value.split(",") if part.strip()]


def _counted(value: Any) -> Any:
    """Text of digits as a whole number, other text as it is."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"\s*\d+\s*", value) else _no_bool(value)


def _pair(value: Any) -> Any:
    return tuple(float(part) for part in value.split(",")) if isinstance(value, str) else value


Whole = Annotated[int, BeforeValidator(_no_bool)]
Number = Annotated[float, BeforeValidator(_no_bool)]
Times = Annotated[int | list[float], BeforeValidator(_listed)]
Until = Annotated[int | str, BeforeValidator(_counted)]
Pair = Annotated[tuple[float, float], BeforeValidator(_pair)]
Matrix = Annotated[str | float | list[Any], BeforeValidator(_no_bool)]

# how a type is named in the sentence that refuses a value
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "list": "a list of numbers",
    "tuple": "two numbers separated by a comma",
}
_SPECIAL = {
    "save": "a number of times, or times separated by commas",
    "times": "a number of times, or times separated by commas",
    "until": "'steady' or a number of clusters",
    "view": "two angles separated by a comma",
    "size": "two numbers of pixels separated by a comma",
    "Q": "a file, a family, eigenvalues or a matrix",
    "K": "a file, a family, eigenvalues or a matrix",
    "V": "a file, a family, eigenvalues or a matrix",
}


def setting(group: str, text: str, default: Any = None, table: str = "") -> Any:
    """One setting: the group of its flag, what it means, what it is unless given.

    ``table`` is "module:TABLE" whose names its --help lists.
    """
    return Field(default, description=text, json_schema_extra={"group": group, "table": table})


_MATRIX = "identity unless given: a .npy or .csv file, a family, or eigenvalues such as 1,1,-0.5"


class Simulate(Table):
    """The settings of `metastable simulate`; the defaults are those of `Dynamics` and `simulate` in Python."""

    n: Whole | None = setting("Tokens", "number of tokens [64]")
    d: Whole | None = setting("Tokens", "dimension [3, or that of the tokens or weights given]")
    initial: str | None = setting(
        "Tokens", "cloud to start from [sphere; in R^d cube, that is [-5, 5]^d]", table="initial:INITIAL"
    )
    tokens: str | None = setting("Tokens", "tokens to start from instead: a .npy or .csv file, one per row")
    runs: Whole | None = setting("Tokens", "an ensemble of so many independent starts")
    seed: Whole = setting("Tokens", "seed of tokens, weights and noise", 0)

    Q: Matrix | None = setting("Weights", f"queries: {_MATRIX}", table="equation.matrices:FAMILIES")
    K: Matrix | None = setting("Weights", "keys: like Q")
    V: Matrix | None = setting("Weights", "values: like Q")
    heads: Whole | None = setting("Weights", "number of heads, each drawn anew and summed [1]")

    beta: Number = setting("Equation", "inverse temperature", 1.0)
    geometry: str = setting(
        "Equation",
        "where tokens live and their norms are taken; also mix-ln(2)",
        "sphere",
        "equation.geometry:GEOMETRIES",
    )
    mask: str = setting(
        "Equation", "who sees whom; also window(8), window(8, causal); with ; by layer", "full", "equation.masks:MASKS"
    )
    normalise: str = setting("Equation", "from scores to attention", "softmax", "equation.normalise:NORMALISATIONS")
    score: str = setting("Equation", "scores of pairs; also capped(50)", "dot", "equation.scores:SCORES")
    position: str | None = setting("Equation", "positions in the scores [none]", table="equation.positions:POSITIONS")
    noise: Number = setting("Equation", "strength of isotropic noise (method euler)", 0.0)
    noise_kind: str = setting("Equation", "whose noise", "independent", "equation.noises:NOISES")

    t: Number = setting("Time", "horizon", 15.0)
    dt: Number | None = setting("Time", "step of fixed methods [0.1; 1 for layers]")
    method: str = setting("Time", "how time is stepped", "rk4", "solve.methods:METHODS")
    save: Times = setting("Time", "how many times to save, or which, separated by commas", 151)
    rtol: Number = setting("Time", "relative tolerance of tsit5 and dopri8", 1e-10)
    atol: Number | None = setting("Time", "absolute tolerance [rtol / 100]")
    until: Until | None = setting("Time", "stop early: 'steady', or a number of clusters")
    dtype: str = setting("Time", "float64 or float32", "float64")
    engine: str = setting("Time", "how sums over tokens are made; auto is the quickest", "auto", "engines:ENGINES")
    trust: bool = setting("Time", "certify digits with a shaken copy (rescaled runs always do): twice the work", False)

    out: str | None = setting("Output", "folder of the record [runs/NAME-FINGERPRINT]")


class Plot(Table):
    """The settings of `metastable plot`."""

    kind: str = setting("Picture", "which picture", "snapshots", "plots:PLOTS")
    times: Times | None = setting("Picture", "how many times to show, or which, separated by commas")
    spacing: str | None = setting("Picture", "spacing of a number of times: linear or exponential")
    color: str | None = setting("Picture", "cluster, final, token, or a colour for all tokens")
    first: str | None = setting("Picture", "a colour for the first token, for example red")
    view: Pair | None = setting("Picture", "azimuth and elevation in degrees (d = 3), separated by a comma")
    run: Whole | None = setting("Picture", "which run of an ensemble, from 0")
    head: Whole | None = setting("Picture", "which attention head, from 0")
    observable: str | None = setting("Picture", "what a series shows [clusters]", table="observables:OBSERVABLES")
    log: bool | None = setting("Picture", "logarithmic colours or axis")
    log_time: bool | None = setting("Picture", "logarithmic axis of time")
    centre: str | None = setting("Picture", "the line of an ensemble: median or mean")
    band: str | None = setting("Picture", "the shade of an ensemble: a share of the runs, std, range or none")
    size: str | None = setting("Picture", "column, page, slide, a width or width,height in inches")


class SweepPlot(Table):
    """The settings of `metastable plot` for a sweep."""

    kind: str = setting("Picture", "of a sweep: heatmap or lines", "heatmap")
    x: str | None = setting("Picture of a sweep", "the horizontal parameter, or time")
    y: str | None = setting("Picture of a sweep", "the vertical parameter of a heatmap [time]")
    value: str | None = setting("Picture of a sweep", "the observable [the first]")
    by: str | None = setting("Picture of a sweep", "a parameter with a line for each value")
    panels: str | None = setting("Picture of a sweep", "a parameter with a panel for each value")
    log: bool | None = setting("Picture", "logarithmic horizontal axis")
    size: str | None = setting("Picture", "column, page, slide, a width or width,height in inches")


class PlotFlags(Plot, SweepPlot):
    """The flags of `metastable plot`: those of a run's pictures and of a sweep's."""


class Animate(Table):
    """The settings of `metastable animate`."""

    frames: Whole = setting("Film", "number of pictures", 150)
    fps: Whole = setting("Film", "pictures a second", 25)
    spacing: str = setting("Film", "film time: linear or exponential", "linear")
    size: Pair | None = setting("Film", "width and height in pixels, separated by a comma [720,720; GIF 480,480]")
    trail: Number = setting("Film", "length of the trail behind each token, in units of t", 0.0)
    color: str | None = setting("Film", "cluster, final, token, or a colour for all tokens")
    first: str | None = setting("Film", "a colour for the first token, for example red")
    view: Pair | None = setting("Film", "azimuth and elevation in degrees (d = 3), separated by a comma")
    run: Whole = setting("Film", "which run of an ensemble, from 0", 0)


T = TypeVar("T", bound=Table)


def checked(table: type[T], values: Mapping[str, Any], source: str = "setting") -> T:
    """A table from names and values, or one sentence about the first that does not fit.

    >>> checked(Simulate, {"betta": 1.0})
    Traceback (most recent call last):
    metastable.errors.InputError: Unknown setting 'betta'; did you mean 'beta'? ...
    """
    for name in values:
        if name not in table.model_fields:
            raise unknown(source, name, table.model_fields)
    try:
        return table.model_validate(dict(values))
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        raise InputError(f"{name} must be {_kind(table, name)}, not {values[name]!r}.") from error


def _kind(table: type[Table], name: str) -> str:
    if name in _SPECIAL:
        return _SPECIAL[name]
    return next((_TYPES[kind] for kind in kinds(table, name) if kind in _TYPES), "another kind of value")


def kinds(table: type[Table], name: str) -> list[str]:
    """The names of the plain types a setting may have.

    >>> kinds(Simulate, "save")
    ['int', 'list']
    """
    found: list[str] = []

    def look(hint: Any) -> None:
        if get_origin(hint) is Annotated:
            look(get_args(hint)[0])
        elif get_origin(hint) in (Union, UnionType):
            for part in get_args(hint):
                look(part)
        else:
            found.append(getattr(get_origin(hint) or hint, "__name__", str(hint)))

    look(table.model_fields[name].annotation)
    return [kind for kind in found if kind != "NoneType"]
