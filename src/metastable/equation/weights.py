"""Weights: the matrices Q, K, V of each head, and families of matrices to draw them from.

Shapes: Q, K (h, k, d) and V (h, d, d); 2-D arrays mean one head, numbers mean d = 1, None means identity.
A pretrained head keeps its output map apart: V (h, v, d) with O (h, d, v). Any of them may be a function of time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from metastable.backend import is_traced, jax, jnp, register
from metastable.errors import InputError, unknown

Array = Any
Matrix = Any  # an array, a function of time, or None for the identity


@register
@dataclass(frozen=True)
class Weights:
    """Query, key and value maps of every head.

    Parameters
    ----------
    Q, K : array (k, d) or (h, k, d), function of t, or None
        Query and key maps; they may be rectangular. None is the identity.
    V : array (d, d) or (h, d, d), function of t, or None
        Value map, with the output map already in it; the heads are summed.
    O : array (h, d, v), optional
        Output map kept apart from a thin V (h, v, d), as in pretrained models.
    q_bias, k_bias, v_bias, o_bias : arrays (h, k), (h, k), (h, v) and (d,), optional
        Biases of the maps.

    Examples
    --------
    >>> Weights(V=[[1.0, 0.0], [0.0, -1.0]]).V.shape
    (1, 2, 2)
    """

    Q: Matrix = None
    K: Matrix = None
    V: Matrix = None
    O: Matrix = None
    q_bias: Matrix = None
    k_bias: Matrix = None
    v_bias: Matrix = None
    o_bias: Matrix = None

    def __post_init__(self) -> None:
        for name, rank in _RANKS.items():
            object.__setattr__(self, name, _checked(name, getattr(self, name), rank))
        _check_together(self)

    @property
    def time_dependent(self) -> bool:
        """True when some map is a function of time."""
        return any(callable(getattr(self, f.name)) for f in fields(self))

    def at(self, t: Array) -> "Weights":
        """The weights at time t, with every function of time evaluated."""
        return resolve_time(self, t)

    @property
    def dimension(self) -> int | None:
        """The token dimension d, or None when every map is the identity."""
        now = self.at(0.0)
        for name in ("Q", "K", "V"):
            if getattr(now, name) is not None:
                return int(np.shape(getattr(now, name))[-1])
        return None

    @property
    def heads(self) -> int:
        """The number of heads h."""
        now = self.at(0.0)
        return max(1 if v is None else np.shape(v)[0] for v in (now.Q, now.K, now.V, now.O))

    def value_map(self, t: float = 0.0, d: int | None = None) -> np.ndarray:
        """O_h V_h as one (h, d, d) array, the V of the papers."""
        now = self.at(t)
        V = np.eye(_dimension(now, d))[None] if now.V is None else np.asarray(now.V)
        V = V if now.O is None else np.einsum("hdv,hve->hde", np.asarray(now.O), V)
        return np.broadcast_to(V, (self.heads, *V.shape[1:]))

    def score_map(self, t: float = 0.0, d: int | None = None) -> np.ndarray:
        """Q_h^T K_h as one (h, d, d) array."""
        now = self.at(t)
        size = _dimension(now, d)
        Q = np.eye(size)[None] if now.Q is None else np.asarray(now.Q)
        K = np.eye(size)[None] if now.K is None else np.asarray(now.K)
        if now.Q is None or now.K is None:
            A = K if now.Q is None else np.swapaxes(Q, -1, -2)
        else:
            A = np.einsum("hkd,hke->hde", *(np.broadcast_arrays(Q, K) if Q.shape != K.shape else (Q, K)))
        return np.broadcast_to(A, (self.heads, *A.shape[1:]))


_RANKS = {"Q": 3, "K": 3, "V": 3, "O": 3, "q_bias": 2, "k_bias": 2, "v_bias": 2, "o_bias": 1}


def _dimension(weights: Weights, d: int | None) -> int:
    size = d or weights.dimension
    if size is None:
        raise InputError("Every map is the identity, so the dimension is not known; give d.")
    return size


def _checked(name: str, value: Matrix, rank: int) -> Matrix:
    if value is None or is_traced(value):
        return value
    if callable(value):
        checked_value(name, value(0.0), rank)
        return value if isinstance(value, (Stack, Timed)) else Timed(value, rank)
    return checked_value(name, value, rank)


def checked_value(name: str, value: Any, rank: int) -> np.ndarray:
    """``value`` as a float array with ``rank`` axes (a missing head axis is added), or a sentence."""
    if is_traced(value):
        return value  # type: ignore[no-any-return]
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a real array, not {type(value).__name__}.") from error
    if array.ndim == 0 and rank == 3:
        array = array.reshape(1, 1, 1)
    if array.ndim == rank - 1:
        array = array[None]
    if array.ndim != rank or 0 in array.shape:
        raise InputError(
            f"{name} must have {rank - 1} or {rank} axes, none of them empty; its shape is {np.shape(value)}."
        )
    if not np.isfinite(array).all():
        raise InputError(f"{name} holds nan or inf; every entry must be finite.")
    return array


def _check_together(w: Weights) -> None:
    now = w.at(0.0)
    shape = {name: None if getattr(now, name) is None else np.shape(getattr(now, name)) for name in _RANKS}
    sizes = {name: shape[name][-1] for name in ("Q", "K", "V") if shape[name]}  # type: ignore[index]
    if len(set(sizes.values())) > 1:
        raise InputError(f"Q, K and V must act on tokens of one dimension, but their last axes are {sizes}.")
    d = next(iter(sizes.values()), None)
    rows = {name: (shape[name] or (1, d, d))[-2] for name in ("Q", "K")}
    if d is not None and rows["Q"] != rows["K"]:
        raise InputError(f"Q and K must have as many rows as each other, but they have {rows['Q']} and {rows['K']}.")
    if shape["O"] is not None:
        width = (shape["V"] or (1, d, d))[-2]
        if d is None or shape["O"][-1] != width or shape["O"][-2] != d:
            raise InputError(f"O must be (heads, d, v) = (h, {d}, {width}) to follow V, but it is {shape['O']}.")
    elif shape["V"] is not None and shape["V"][-1] != shape["V"][-2]:
        raise InputError(f"V must be square (or come with an output map O), but it is {shape['V'][-2:]}.")
    heads = {name: shape[name][0] for name in _RANKS if shape[name] and name != "o_bias"}  # type: ignore[index]
    if len(set(heads.values()) - {1}) > 1:
        raise InputError(f"All maps must have the same number of heads (or one), but they have {heads}.")


# --- weights that change with time ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timed:
    """A user's function of time whose value gets a head axis when it has none."""

    function: Callable[[Array], Array]
    rank: int

    def __call__(self, t: Array) -> Array:
        value = jnp.asarray(self.function(t))
        value = value.reshape(1, 1, 1) if value.ndim == 0 and self.rank == 3 else value
        return value if value.ndim == self.rank else value[None]


@register
@dataclass(frozen=True)
class Stack:
    """Layers as a function of time: entry ``floor(t / dt)`` of ``values`` (L, ...), the last one from then on."""

    values: Array
    dt: float = 1.0

    def __call__(self, t: Array) -> Array:
        # 1e-9 of a layer: k * dt / dt may come out just below k
        index = jnp.floor(jnp.asarray(t) / self.dt + 1e-9).astype(int)
        return jnp.asarray(self.values)[jnp.clip(index, 0, np.shape(self.values)[0] - 1)]


def stack(layers: Sequence[Weights], dt: float = 1.0) -> Weights:
    """One ``Weights`` whose time is the layer, from a list with one ``Weights`` per layer."""
    if not layers:
        raise InputError("A stack of layers needs at least one.")
    names = [f.name for f in fields(Weights) if getattr(layers[0], f.name) is not None]
    missing = [n for n in names for w in layers if getattr(w, n) is None]
    if missing:
        raise InputError(f"Every layer must have the same maps, but some lack {sorted(set(missing))}.")
    return Weights(**{n: Stack(np.stack([getattr(w, n) for w in layers]), float(dt)) for n in names})


def resolve_time(part: Any, t: Array) -> Any:
    """A copy of a frozen part in which every function of time (also inside nested parts) is evaluated at t."""
    changes = {}
    for f in fields(part):
        value = getattr(part, f.name)
        if isinstance(value, (Stack, Timed)):
            changes[f.name] = value(t)
        elif hasattr(value, "__dataclass_fields__"):
            changes[f.name] = resolve_time(value, t)
    if not changes:
        return part
    copy = object.__new__(type(part))  # the parts were checked when first built
    for f in fields(part):
        object.__setattr__(copy, f.name, changes.get(f.name, getattr(part, f.name)))
    return copy


# --- families of matrices ---------------------------------------------------------------------------------------


def identity(d: int, seed: int = 0) -> np.ndarray:
    """The identity; ``seed`` is taken for the sake of the table and not used."""
    return np.eye(_size(d))


def ginibre(d: int, seed: int = 0) -> np.ndarray:
    """Real Ginibre: independent standard normal entries."""
    return np.random.default_rng(seed).standard_normal((_size(d), d))


def goe(d: int, seed: int = 0) -> np.ndarray:
    """Gaussian orthogonal ensemble: symmetric, variance 1 off the diagonal and 2 on it."""
    A = ginibre(d, seed)
    return (A + A.T) / np.sqrt(2.0)


def psd(d: int, seed: int = 0) -> np.ndarray:
    """M M^T with M uniform on [-1, 1]: positive definite almost surely (second paper, Figs 4 and 11)."""
    M = np.random.default_rng(seed).uniform(-1.0, 1.0, (_size(d), d))
    return M @ M.T


def perron(d: int, seed: int = 0) -> np.ndarray:
    """Positive entries, uniform on (0, 1): a simple positive leading eigenvalue by Perron-Frobenius."""
    return np.random.default_rng(seed).uniform(0.0, 1.0, (_size(d), d))


def orthogonal(d: int, seed: int = 0) -> np.ndarray:
    """A rotation or reflection with Haar's law."""
    R, T = np.linalg.qr(ginibre(d, seed))
    return R * np.sign(np.diag(T))


def paranormal(d: int, seed: int = 0, multiplicity: int = 2, leading: float = 1.0) -> np.ndarray:
    """``leading`` times the identity on a random F, spectral radius at most half of it on a random G (Definition 2)."""
    if not 1 <= multiplicity <= _size(d):
        raise InputError(f"The multiplicity must lie between 1 and d = {d}, not {multiplicity}.")
    rng = np.random.default_rng(seed)
    core = np.zeros((d, d))
    core[:multiplicity, :multiplicity] = leading * np.eye(multiplicity)
    rest = d - multiplicity
    if rest:
        B = rng.standard_normal((rest, rest))
        core[multiplicity:, multiplicity:] = 0.5 * leading * B / max(np.abs(np.linalg.eigvals(B)))
    basis = np.eye(d) + 0.3 * rng.standard_normal((d, d)) / np.sqrt(d)  # oblique, and far from singular
    return basis @ core @ np.linalg.inv(basis)


def sparse_symmetric(d: int, seed: int = 0, density: float = 0.1) -> np.ndarray:
    """Symmetric and sparse, eigenvalues of modulus below 1 pushed to [1, 2] (second paper, Figs 7b and 15)."""
    rng = np.random.default_rng(seed)
    M = np.where(rng.random((_size(d), d)) < density, rng.uniform(-1.0, 1.0, (d, d)), 0.0)
    values, vectors = np.linalg.eigh((M + M.T) / 2.0)
    pushed = np.where(np.abs(values) < 1.0, np.where(values < 0, -1.0, 1.0) * rng.uniform(1.0, 2.0, d), values)
    return (vectors * pushed) @ vectors.T


FAMILIES: dict[str, Callable[[int, int], np.ndarray]] = {
    "identity": identity,
    "ginibre": ginibre,
    "goe": goe,
    "psd": psd,
    "perron": perron,
    "orthogonal": orthogonal,
    "paranormal": paranormal,
    "sparse-symmetric": sparse_symmetric,
}


def family(name: str, d: int, seed: int = 0) -> np.ndarray:
    """A matrix of a named family."""
    if name not in FAMILIES:
        raise unknown("family of matrices", name, FAMILIES)
    return FAMILIES[name](d, seed)


def _size(d: int) -> int:
    if isinstance(d, bool) or not isinstance(d, (int, np.integer)) or d < 1:
        raise InputError(f"The dimension d must be a whole number >= 1, not {d!r}.")
    return int(d)


def from_eigenvalues(values: Sequence[complex], basis: str = "diagonal", seed: int = 0) -> np.ndarray:
    """A real matrix with the given eigenvalues: real numbers, and complex ones in conjugate pairs.

    Parameters
    ----------
    values : sequence of real or complex numbers
        A complex number and its conjugate make one 2 x 2 rotation block.
    basis : {"diagonal", "orthogonal", "random"}
        Standard coordinates, a random rotation of them (a normal matrix), or a random oblique basis.

    Examples
    --------
    >>> from_eigenvalues([1.0, 0.5 + 2.0j, 0.5 - 2.0j]).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.5, -2.0], [0.0, 2.0, 0.5]]
    """
    given = np.asarray(list(values), dtype=complex)
    if given.size == 0 or not np.isfinite(given).all():
        raise InputError(f"Eigenvalues must be a non-empty list of finite numbers, not {list(values)}.")
    real, upper, lower = given[given.imag == 0].real, given[given.imag > 0], given[given.imag < 0]
    if sorted(upper.tolist(), key=_key) != sorted(lower.conj().tolist(), key=_key):
        raise InputError(f"Complex eigenvalues must come in conjugate pairs, but {list(values)} do not.")
    d = given.size
    core = np.zeros((d, d))
    core[np.arange(real.size), np.arange(real.size)] = real
    for i, value in zip(range(real.size, d, 2), upper):
        core[i : i + 2, i : i + 2] = [[value.real, -value.imag], [value.imag, value.real]]
    if basis == "diagonal":
        return core
    if basis == "orthogonal":
        S = orthogonal(d, seed)
        return S @ core @ S.T
    if basis == "random":
        S = np.eye(d) + 0.5 * ginibre(d, seed) / np.sqrt(d)
        return S @ core @ np.linalg.inv(S)
    raise unknown("basis", basis, ["diagonal", "orthogonal", "random"])


def _key(value: complex) -> tuple[float, float]:
    return (value.real, value.imag)


def from_file(path: str | Path) -> np.ndarray:
    """A numeric array from a .npy or .csv file; a pickle inside .npy is refused."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no file {str(path)!r}; give a .npy or .csv file.")
    if path.suffix not in (".npy", ".csv"):
        raise InputError(f"{path.name} is neither .npy nor .csv; save the array as one of them.")
    try:
        if path.suffix == ".npy":
            array = np.load(path, allow_pickle=False)
        else:
            array = np.loadtxt(path, delimiter=",", ndmin=2)
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
            raise ValueError(f"it holds {getattr(array, 'dtype', type(array))} data")
    except (OSError, ValueError, EOFError, UnicodeDecodeError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"Cannot read numbers from {path.name}: {reason}.") from error
    return array.astype(np.float64)


def with_value(weights: Weights, V: Array) -> Weights:
    """The same queries and keys with another V."""
    return replace(weights, V=V)


def as_jax(weights: Weights, dtype: Any = None) -> Weights:
    """The same weights with every array on the device, in ``dtype``."""
    return jax.tree_util.tree_map(lambda a: jnp.asarray(a, dtype), weights)  # type: ignore[no-any-return]
