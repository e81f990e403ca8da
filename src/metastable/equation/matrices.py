"""Families of matrices to draw Q, K and V from, matrices with given eigenvalues, and matrices in files.

Add a family: a function ``(d, seed) -> (d, d)`` and a line in FAMILIES.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from metastable.errors import InputError, door, numbers, unknown


@door
def identity(d: int, seed: int = 0) -> np.ndarray:
    """The identity; ``seed`` is taken for the sake of the table and not used."""
    return np.eye(_size(d))


@door
def ginibre(d: int, seed: int = 0) -> np.ndarray:
    """Real Ginibre: independent standard normal entries."""
    return _rng(seed).standard_normal((_size(d), d))


@door
def goe(d: int, seed: int = 0) -> np.ndarray:
    """Gaussian orthogonal ensemble: symmetric, variance 1 off the diagonal and 2 on it."""
    A = ginibre(d, seed)
    return np.asarray((A + A.T) / np.sqrt(2.0))


@door
def psd(d: int, seed: int = 0) -> np.ndarray:
    """M M^T with M uniform on [-1, 1]: positive definite almost surely (second paper, Figs 4 and 11)."""
    M = _rng(seed).uniform(-1.0, 1.0, (_size(d), d))
    return M @ M.T


@door
def perron(d: int, seed: int = 0) -> np.ndarray:
    """Positive entries, uniform on (0, 1): a simple positive leading eigenvalue by Perron-Frobenius."""
    return _rng(seed).uniform(0.0, 1.0, (_size(d), d))


@door
def orthogonal(d: int, seed: int = 0) -> np.ndarray:
    """A rotation or reflection with Haar's law."""
    R, T = np.linalg.qr(ginibre(d, seed))
    return R * np.sign(np.diag(T))


@door
def paranormal(d: int, seed: int = 0, multiplicity: int = 2, leading: float = 1.0) -> np.ndarray:
    """``leading`` times the identity on a random F, spectral radius at most half of it on a random G (Definition 2)."""
    if not 1 <= multiplicity <= _size(d):
        raise InputError(f"The multiplicity must lie between 1 and d = {d}, not {multiplicity}.")
    rng = _rng(seed)
    core = np.zeros((d, d))
    core[:multiplicity, :multiplicity] = leading * np.eye(multiplicity)
    rest = d - multiplicity
    if rest:
        B = rng.standard_normal((rest, rest))
        core[multiplicity:, multiplicity:] = 0.5 * leading * B / max(np.abs(np.linalg.eigvals(B)))
    basis = np.eye(d) + 0.3 * rng.standard_normal((d, d)) / np.sqrt(d)  # oblique, and far from singular
    return np.asarray(basis @ core @ np.linalg.inv(basis))


@door
def sparse_symmetric(d: int, seed: int = 0, density: float = 0.1) -> np.ndarray:
    """Symmetric and sparse, eigenvalues of modulus below 1 pushed to [1, 2] (second paper, Figs 7b and 15)."""
    rng = _rng(seed)
    M = np.where(rng.random((_size(d), d)) < density, rng.uniform(-1.0, 1.0, (d, d)), 0.0)
    values, vectors = np.linalg.eigh((M + M.T) / 2.0)
    pushed = np.where(np.abs(values) < 1.0, np.where(values < 0, -1.0, 1.0) * rng.uniform(1.0, 2.0, d), values)
    return np.asarray((vectors * pushed) @ vectors.T)


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


@door
def family(name: str, d: int, seed: int = 0) -> np.ndarray:
    """A matrix of a named family."""
    if name not in FAMILIES:
        raise unknown("family of matrices", name, FAMILIES)
    return FAMILIES[name](d, seed)


def _rng(seed: int | Sequence[int]) -> np.random.Generator:
    parts = list(seed) if isinstance(seed, (list, tuple)) else [seed]
    if not parts or any(isinstance(s, bool) or not isinstance(s, (int, np.integer)) or s < 0 for s in parts):
        raise InputError(f"A seed is a whole number >= 0 (or several), not {seed!r}.")
    return np.random.default_rng(seed)


def _size(d: int) -> int:
    if isinstance(d, bool) or not isinstance(d, (int, np.integer)) or d < 1:
        raise InputError(f"The dimension d must be a whole number >= 1, not {d!r}.")
    return int(d)


@door
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
    if isinstance(values, (str, bytes)):
        raise InputError(f"Eigenvalues must be a list of numbers, not {values!r}.")
    given = np.asarray([numbers(value) for value in values], dtype=complex)
    if given.size == 0 or not np.isfinite(given).all():
        raise InputError(f"Eigenvalues must be a non-empty list of finite numbers, not {list(values)}.")
    real, upper, lower = given[given.imag == 0].real, given[given.imag > 0], given[given.imag < 0]
    if sorted(upper.tolist(), key=_key) != sorted(lower.conj().tolist(), key=_key):
        words = ", ".join(f"{c:g}" if c.imag else f"{c.real:g}" for c in given)
        raise InputError(f"Complex eigenvalues must come in conjugate pairs, but {words} do not.")
    d = given.size
    core = np.zeros((d, d))
    core[np.arange(real.size), np.arange(real.size)] = real
    for i, value in zip(range(real.size, d, 2), upper):
        core[i : i + 2, i : i + 2] = [[value.real, -value.imag], [value.imag, value.real]]
    if basis == "diagonal":
        return core
    if basis == "orthogonal":
        S = orthogonal(d, seed)
        return np.asarray(S @ core @ S.T)
    if basis == "random":
        S = np.eye(d) + 0.5 * ginibre(d, seed) / np.sqrt(d)
        return np.asarray(S @ core @ np.linalg.inv(S))
    raise unknown("basis", basis, ["diagonal", "orthogonal", "random"])


def _key(value: complex) -> tuple[float, float]:
    return (value.real, value.imag)


@door
def from_file(path: str | Path) -> np.ndarray:
    """A numeric array from a .npy or .csv file; a pickle inside .npy is refused."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no file {str(path)!r}; give a .npy or .csv file.")
    if path.suffix not in (".npy", ".csv"):
        raise InputError(f"{path.name} is neither .npy nor .csv; save the array as one of them.")
    try:
        array = read_npy(path) if path.suffix == ".npy" else np.loadtxt(path, delimiter=",", ndmin=2)
        if array.dtype.kind not in "fiu":
            raise ValueError(f"it holds {array.dtype} data")
        return array.astype(np.float64)
    except Exception as error:  # NumPy has many ways to say that a header is broken
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise InputError(f"Cannot read numbers from {path.name}: {reason}.") from error


def read_npy(path: Path) -> np.ndarray:
    """The array in a .npy file; nothing is unpickled, and no more memory is asked for than the file has bytes."""
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        held = path.stat().st_size - file.tell()
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if any(size < 0 for size in shape) or math.prod(shape) * dtype.itemsize > held:
        raise ValueError(f"it is too short for shape {shape}")
    return np.asarray(np.load(path, allow_pickle=False))
