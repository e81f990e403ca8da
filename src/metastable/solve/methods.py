"""How time advances: METHODS, each one object that says what it is, its order and what it can do.

A scheme's numbers stand in its tableau and nowhere else: the compiled step, the kernels and the chart of the rescaled
flow all read it. Add a method: one object and one line in METHODS.

>>> heun = Explicit("heun", order=2, tableau=Tableau(a=((), (1.0,)), b=(0.5, 0.5)))
>>> heun.tableau.c
(0.0, 1.0)
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from metastable.errors import InputError, door, unknown


@door
@dataclass(frozen=True)
class Tableau:
    """An explicit Runge-Kutta scheme: k_i = f(t + c_i h, x + h sum_{j<i} a_ij k_j), x + h sum_i b_i k_i.

    Parameters
    ----------
    a : tuple of rows
        Row i holds a_i1, ..., a_i,i-1; the first row is empty.
    b : tuple of floats
        The weights of the stages; they sum to 1.

    The nodes c_i are the sums of the rows of a.
    """

    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]

    def __post_init__(self) -> None:
        a, b = tuple(tuple(float(v) for v in row) for row in self.a), tuple(float(v) for v in self.b)
        object.__setattr__(self, "a", a)
        object.__setattr__(self, "b", b)
        if len(a) != len(b) or not b or any(len(row) != i for i, row in enumerate(a)):
            raise InputError(
                f"A tableau of {len(b)} stages needs rows of 0, 1, ..., {len(b) - 1} numbers in a, "
                f"not {[len(row) for row in a]}."
            )
        if not np.isfinite([v for row in (*a, b) for v in row]).all() or abs(sum(b) - 1.0) > 1e-12:
            raise InputError(f"The weights b of a tableau must be finite and sum to 1, not {sum(b):g}.")

    @property
    def c(self) -> tuple[float, ...]:
        """The nodes: how far along the step each stage lies."""
        return tuple(float(sum(row)) for row in self.a)

    @property
    def stages(self) -> int:
        """How often the velocity is computed in a step."""
        return len(self.b)

    def matrix(self) -> np.ndarray:
        """a and b as one array (stages + 1, stages), zeros above the diagonal and b in the last row, for kernels."""
        out = np.zeros((self.stages + 1, self.stages))
        for i, row in enumerate(self.a):
            out[i, :i] = row
        out[-1] = self.b
        return out


@dataclass(frozen=True)
class Explicit:
    """Fixed steps of an explicit Runge-Kutta scheme, by its tableau."""

    name: str
    order: int
    tableau: Tableau = field(repr=False)
    takes_noise: bool = False
    about: str = ""

    adaptive = False
    discrete = False
    default_dt = 0.1

    def __post_init__(self) -> None:
        if isinstance(self.order, bool) or not isinstance(self.order, int) or self.order < 1:
            raise InputError(f"The order of a method must be a whole number >= 1, not {self.order!r}.")
        if not isinstance(self.tableau, Tableau):
            raise InputError(f"tableau must be a Tableau(a, b), not {type(self.tableau).__name__}.")


@dataclass(frozen=True)
class Layered:
    """Discrete time: one whole layer of strength dt, x + dt pull(x), or the block of a transformer."""

    name: str
    about: str = ""

    order = 1
    tableau = Tableau(a=((),), b=(1.0,))  # one evaluation, at the beginning of the layer
    takes_noise = False
    adaptive = False
    discrete = True
    default_dt = 1.0


@dataclass(frozen=True)
class Adaptive:
    """Steps as long as the tolerances allow; ``solver`` is a diffrax solver class, or a function that makes one."""

    name: str
    order: int
    solver: Callable[[], Any] = field(repr=False)
    about: str = ""

    tableau = None
    takes_noise = False
    adaptive = True
    discrete = False
    default_dt = 0.1


def _tsit5() -> Any:
    import diffrax  # two seconds, which fixed steps need not wait for

    return diffrax.Tsit5()


def _dopri8() -> Any:
    import diffrax

    return diffrax.Dopri8()


Method = Explicit | Layered | Adaptive

EULER = Explicit(
    "euler",
    order=1,
    tableau=Tableau(a=((),), b=(1.0,)),
    takes_noise=True,
    about="x + h f(t, x), order 1; with noise the Euler-Maruyama step",
)
RK4 = Explicit(
    "rk4",
    order=4,
    tableau=Tableau(a=((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), b=(1 / 6, 1 / 3, 1 / 3, 1 / 6)),
    about="the classical Runge-Kutta step, order 4; attention is computed anew at each of its four stages",
)
TSIT5 = Adaptive("tsit5", order=5, solver=_tsit5, about="adaptive, order 5 (Tsitouras)")
DOPRI8 = Adaptive("dopri8", order=8, solver=_dopri8, about="adaptive, order 8 (Dormand-Prince)")
LAYERS = Layered("layers", about="discrete time, one layer per dt: Remark 1 of the second paper, A.1 of the first")

METHODS: dict[str, Method] = {method.name: method for method in (EULER, RK4, TSIT5, DOPRI8, LAYERS)}


def resolve(method: str | Method) -> Method:
    """The method behind a name, or the one given."""
    if isinstance(method, (Explicit, Layered, Adaptive)):
        return method
    if not isinstance(method, str) or method not in METHODS:
        raise unknown("method", method, METHODS)
    return METHODS[method]
