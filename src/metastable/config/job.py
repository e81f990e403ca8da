"""From settings to a run that can start: tokens, weights, dynamics, plan, and the recipe to make it again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metastable import initial
from metastable.config import matrix_specs, named
from metastable.config.settings import Simulate, checked
from metastable.equation import geometry, positions
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.errors import InputError
from metastable.solve.memory import check_size
from metastable.solve.plan import Plan, make_plan
from metastable.solve.simulate import together
from metastable.solve.stopping import Until, stop_rule
from metastable.store.describe import take_apart
from metastable.store.recipe import INPUTS, Recipe, fingerprint

_FILE_SETTINGS = ("tokens", "Q", "K", "V")


@dataclass(frozen=True)
class Job:
    """A run that has been checked and can start: give it to `metastable.store.run`."""

    plan: Plan
    x: np.ndarray
    until: Until
    recipe: Recipe
    name: str = "simulate"

    @property
    def folder(self) -> Path:
        """Where its record goes unless another folder is given: the same for the same run."""
        mark = fingerprint(self.plan, self.x, self.until, take_apart(together(self.plan))) or ""
        return Path("runs") / f"{self.name}-{mark[:8]}"


def build(settings: Simulate, name: str = "simulate") -> Job:
    """Make everything a run needs, and check it, before anything is computed or written."""
    dynamics, x0 = make_parts(settings)
    plan, x = make_plan(
        dynamics,
        x0,
        settings.t,
        settings.dt,
        settings.method,
        settings.save,
        settings.rtol,
        settings.atol,
        settings.seed,
        settings.dtype,
        settings.engine,
        settings.trust,
    )
    stop_rule(plan, settings.until)
    return Job(plan, x, settings.until, _recipe(settings, plan, x0, dynamics), name)


def make_parts(settings: Simulate) -> tuple[Dynamics, np.ndarray]:
    """The dynamics and the tokens (..., n, d) that settings describe."""
    if settings.heads is not None and settings.heads < 1:
        raise InputError(f"heads must be a whole number >= 1, not {settings.heads}.")
    if settings.d is not None and settings.d < 1:
        raise InputError(f"d must be a whole number >= 1, not {settings.d}.")
    if not 0 <= settings.seed < 2**63:
        raise InputError(f"seed must be a whole number from 0 to 2^63 - 1, not {settings.seed}.")
    check_size(1, 1, 1, settings.d or 1, settings.heads or 1)  # before as many matrices are drawn
    found = _tokens_given(settings)
    own = _matrices(settings, None)
    d = _dimension(settings, found, own)
    n = settings.n if settings.n is not None else (64 if found is None else found.shape[-2])
    if found is not None and (n, d) != found.shape[-2:]:
        name, given, held = ("n", n, found.shape[-2]) if n != found.shape[-2] else ("d", d, found.shape[-1])
        raise InputError(f"{name} = {given}, but the file of tokens has {name} = {held}; leave out {name}.")
    check_size(_saves(settings), settings.runs or 1, n, d, settings.heads or 1)
    dynamics = _dynamics(settings, own | _matrices(settings, d), n, d)
    return dynamics, found if found is not None else make_cloud(settings, n, d)(settings.seed)


def _tokens_given(settings: Simulate) -> np.ndarray | None:
    if settings.tokens is None:
        return None
    for other in ("initial", "runs"):
        if getattr(settings, other) is not None:
            raise InputError(f"Tokens come from a file or are drawn: give either tokens or {other}, not both.")
    return initial.tokens_from_file(settings.tokens)


def _matrices(settings: Simulate, d: int | None) -> dict[str, np.ndarray | None]:
    """Q, K and V: without d those that bring their own dimension, with d the others."""
    given = {name: getattr(settings, name) for name in ("Q", "K", "V")}
    chosen = [name for name, value in given.items() if matrix_specs.fits_any_dimension(value) == (d is not None)]
    return {name: matrix_specs.matrix(name, given[name], d or 0, settings.seed, settings.heads) for name in chosen}


def _dimension(settings: Simulate, tokens: np.ndarray | None, own: dict[str, np.ndarray | None]) -> int:
    """d as given, else that of tokens or matrices that bring their own, else 3."""
    if settings.d is not None:
        return settings.d
    if tokens is not None:
        return int(tokens.shape[-1])
    return next((int(array.shape[-1]) for array in own.values() if array is not None and array.ndim), 3)


def triple(
    given: Mapping[str, str | None], tokens: np.ndarray | None, n: int | None, d: int | None, seed: int
) -> tuple[Weights, np.ndarray]:
    """Q, K and V as `simulate` takes them, and one cloud of tokens: what `check` judges."""
    settings = checked(Simulate, {"d": d, "seed": seed, **given})
    own = _matrices(settings, None)
    size = _dimension(settings, tokens, own)
    if tokens is not None and (n is not None or (d is not None and d != tokens.shape[-1])):
        raise InputError("Tokens come from a file, which has its own n and d; leave those out.")
    found = Weights(**own | _matrices(settings, size))
    return found, initial.cube(40 if n is None else n, size, seed=seed) if tokens is None else tokens


def _saves(settings: Simulate) -> int:
    return settings.save if isinstance(settings.save, int) else len(settings.save)


def _usual_cloud(name: str) -> str:
    """Where tokens start unless something else is asked for."""
    return "sphere" if geometry.resolve(name).angular else "cube"


def make_cloud(settings: Simulate, n: int, d: int) -> Callable[[int], np.ndarray]:
    """Tokens to start from as a function of the seed, for settings that draw them."""
    text = settings.initial or (_usual_cloud(settings.geometry))
    parsed = named.parse(text)
    if parsed is None or parsed.factor != 1.0:
        raise InputError(f"initial must name a cloud, such as sphere or cap(angle=0.5), not {text!r}.")
    draw = named.bound("cloud of tokens", initial.INITIAL, parsed, {"n": n, "d": d, "runs": settings.runs}, ("seed",))
    return lambda seed: np.asarray(draw(seed=seed))


def _dynamics(settings: Simulate, found: dict[str, np.ndarray | None], n: int, d: int) -> Dynamics:
    heads, V = settings.heads, found["V"]
    if heads is not None and heads > 1 and (V is None or V.ndim == 2):
        V = np.eye(d) if V is None else V
        found = {**found, "V": np.broadcast_to(V, (heads, *V.shape)).copy()}
    weights = Weights(**found)
    if heads is not None and weights.heads != heads:
        raise InputError(f"heads = {heads}, but the matrices given have {weights.heads}; leave out heads.")
    return Dynamics(
        weights,
        beta=settings.beta,
        normalise=settings.normalise,
        mask=settings.mask,
        geometry=settings.geometry,
        score=settings.score,
        position=_position(settings.position, weights, n, d),
        noise=settings.noise,
        noise_kind=settings.noise_kind,
    )


def _position(text: str | None, weights: Weights, n: int, d: int) -> Any:
    if text is None or text == "none":
        return None
    parsed = named.parse(text)
    if parsed is None or parsed.factor != 1.0:
        raise InputError(f"position must be one of {', '.join(positions.POSITIONS)}, not {text!r}.")
    width = d if weights.Q is None else int(np.shape(weights.Q)[-2])
    return named.call("position", positions.POSITIONS, parsed, {"n": n, "heads": weights.heads, "width": width})


def _recipe(settings: Simulate, plan: Plan, x0: np.ndarray, dynamics: Dynamics) -> Recipe:
    """The settings with every default filled in; arrays that came from elsewhere travel with the record."""
    table = {name: value for name, value in settings.model_dump().items() if value is not None and name != "out"}
    table |= {"n": x0.shape[-2], "d": x0.shape[-1], "dt": plan.dt, "atol": plan.atol}
    if settings.tokens is None:
        table.setdefault("initial", _usual_cloud(settings.geometry))
    inputs = {}
    for name in _FILE_SETTINGS:
        given = table.get(name)
        if matrix_specs.is_file(given) or matrix_specs.is_model(given):
            inputs[name] = x0 if name == "tokens" else np.asarray(getattr(dynamics.weights, name))
            table[name] = f"{INPUTS}/{name}.npy"
    return Recipe(table, inputs)
