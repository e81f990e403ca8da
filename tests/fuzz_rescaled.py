"""Random rescaled runs beside many-digit arithmetic: no digit may be wrong before ``valid_until``.

    python -m tests.fuzz_rescaled --runs 150 --seed 1

Every run draws V (normal, non-normal, defective, nearly defective, complex, singular, ...), Q and K (often indefinite
or of low rank), mask, normalisation (names and own functions), method and horizon (every fifth from 300 to 1,000).
Fixed steps are compared with the same steps, tsit5 with a solution of order 8 whose own error is measured. Prints one
line per run and ends with exit code 1 if one of them was wrong by more than 1e-6 where it was certified.
"""

import argparse
import sys
import time
import warnings
from dataclasses import dataclass

import gmpy2
import numpy as np
from gmpy2 import mpfr

import metastable as ms
from metastable.backend import jnp
from tests.oracles import many_digits

WRONG = 1e-6
METHODS = ("rk4", "euler", "layers", "tsit5")
_ALIKE = 16  # runs in a row with one shape and one set of parts


# --- what is drawn ----------------------------------------------------------------------------------------------------


def _normal(rng, d):
    S = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return S @ np.diag(rng.uniform(-0.8, 1.0, d)) @ S.T


def _symmetric(rng, d):
    V = _normal(rng, d)
    return (V + V.T) / 2


def _oblique(rng, d):
    S = rng.normal(size=(d, d))
    return S @ np.diag(rng.uniform(-0.8, 1.0, d)) @ np.linalg.inv(S)


def _parallel(rng, d):
    """Two eigenvectors that are nearly the same."""
    S = rng.normal(size=(d, d))
    S[:, 1] = S[:, 0] + 10.0 ** -rng.uniform(2, 7) * rng.normal(size=d)
    return S @ np.diag(rng.uniform(-0.5, 0.9, d)) @ np.linalg.inv(S)


def _triangular(rng, d):
    return rng.uniform(0.2, 0.7) * np.triu(rng.normal(size=(d, d)), 1) + np.diag(rng.uniform(-0.3, 0.6, d))


def _defective(rng, d):
    size = rng.integers(2, d + 1)
    J = np.diag(np.concatenate([np.full(size, rng.uniform(-0.3, 0.8)), rng.uniform(-0.5, 0.8, d - size)]))
    J[np.arange(size - 1), np.arange(1, size)] = 1.0
    return _turned(J, rng)


def _nearly_defective(rng, d):
    V = _defective(rng, d)
    return V + 10.0 ** -rng.uniform(3, 14) * rng.normal(size=(d, d))


def _complex(rng, d):
    V = np.diag(rng.uniform(-0.5, 0.8, d))
    for k in range(0, d - 1, 2):
        turn = rng.uniform(0.2, 3.0)
        V[k, k + 1], V[k + 1, k], V[k + 1, k + 1] = turn, -turn, V[k, k]
    return _turned(V, rng)


def _singular(rng, d):
    values = rng.uniform(-0.6, 0.9, d)
    values[: rng.integers(1, d + 1)] = 0.0
    S = rng.normal(size=(d, d)) if rng.random() < 0.5 else np.linalg.qr(rng.normal(size=(d, d)))[0]
    V = S @ np.diag(values) @ np.linalg.inv(S)
    if rng.random() < 0.3:  # nilpotent
        V = rng.uniform(0.2, 0.8) * np.triu(rng.normal(size=(d, d)), 1)
    return V


def _slow(rng, d):
    """One fast direction, the others slow; half of the time along the axes (see `draw`)."""
    V = np.diag(np.concatenate([[rng.uniform(0.6, 1.0)], 10.0 ** -rng.uniform(1.0, 3.0, d - 1)]))
    return V if rng.random() < 0.5 else _turned(V, rng)


def _turned(V, rng):
    S = rng.normal(size=V.shape) if rng.random() < 0.4 else np.linalg.qr(rng.normal(size=V.shape))[0]
    return V if rng.random() < 0.3 else S @ V @ np.linalg.inv(S)


VALUES = (
    _normal, _symmetric, _oblique, _parallel, _triangular, _defective, _nearly_defective, _complex, _singular, _slow,
)  # fmt: skip


def own_softmax(scores, seen):
    s = scores if seen is None else jnp.where(seen, scores, -jnp.inf)
    w = jnp.exp(s - s.max(axis=-1, keepdims=True))
    return w / w.sum(axis=-1, keepdims=True)


def own_cauchy(scores, seen):
    """Long tails: tokens that are far below the best still count."""
    s = scores if seen is None else jnp.where(seen, scores, -jnp.inf)
    w = 1.0 / (1.0 + (s.max(axis=-1, keepdims=True) - s) ** 2)
    return w / w.sum(axis=-1, keepdims=True)


def every_other(i, j):
    return (i - j) % 2 == 0


NORMALISE = {
    "softmax": ("softmax", many_digits.exponentials),
    "own softmax": (own_softmax, many_digits.exponentials),
    "declared softmax": (
        ms.Normalisation(own_softmax, name="declared", shift_invariant=True, stochastic=True, by_rows=True),
        many_digits.exponentials,
    ),
    "own cauchy": (own_cauchy, many_digits.cauchy),
    "declared cauchy": (
        ms.Normalisation(own_cauchy, name="declared", shift_invariant=True, stochastic=True, by_rows=True),
        many_digits.cauchy,
    ),
    "unnormalised": ("unnormalised", many_digits.unnormalised),
}
MASKS = {"full": "full", "causal": "causal", "window": "window(1)", "own": every_other}


@dataclass
class Case:
    """One drawn run."""

    kind: str
    method: str
    normalise: str
    mask: str
    V: np.ndarray
    Q: np.ndarray
    K: np.ndarray
    beta: float
    z: np.ndarray
    dt: float
    times: np.ndarray
    bias: np.ndarray | None

    def __str__(self):
        n, d = self.z.shape
        size = f"n={n} d={d} t={self.times[-1]:g} dt={self.dt:g} beta={self.beta:.2f}"
        return f"{self.kind:16} {self.method:6} {self.normalise:16} {self.mask:6} {size}"


def draw(seed: int, number: int) -> Case:
    """Run ``number`` of a seed, whatever else is drawn. Sixteen in a row share shapes and parts, so compiled code."""
    turn = number // _ALIKE
    group, rng = np.random.default_rng([seed, turn, 1]), np.random.default_rng([seed, number])
    method, d = METHODS[turn % 4], (3, 4, 2, 3, 20, 3, 6, 2)[turn % 8]
    n, long = (4 if d == 20 else int(group.choice([4, 5, 6]))), number % 5 == 0 and d < 20
    normalise = str(group.choice(list(NORMALISE), p=[0.4, 0.2, 0.1, 0.1, 0.1, 0.1]))
    mask = str(group.choice(list(MASKS), p=[0.5, 0.25, 0.15, 0.1]))
    bias = rng.normal(size=(n, n)) if group.random() < 0.1 else None
    k = int(group.integers(1, d + 1)) if group.random() < 0.2 else d
    value = VALUES[rng.integers(len(VALUES))]
    dt = float(rng.choice([0.25, 0.5] if long else [0.1, 0.25]))
    t = float(rng.integers(300, 1001)) if long else float(rng.integers(8, 61))
    t = float(rng.integers(4, 31)) if normalise == "unnormalised" else t
    Q, K = rng.normal(size=(2, k, d)) / np.sqrt(d)
    if k == d and rng.random() < 0.3:
        Q, K = np.eye(d) * rng.choice([-1.0, 1.0]), np.eye(d)
    if value is _slow and rng.random() < 0.5:  # scores that do not see the first axis
        Q[:, 0] = K[:, 0] = 0.0
    times = np.concatenate([[0.0], np.unique(np.round(np.geomspace(1.0, t, 12)))])
    V, beta, z = value(rng, d), float(rng.uniform(0.3, 3.0)), rng.uniform(-1, 1, (n, d))
    return Case(value.__name__.strip("_"), method, normalise, mask, V, Q, K, beta, z, dt, times, bias)


# --- both sides -------------------------------------------------------------------------------------------------------


def ours(case: Case, rtol: float = 1e-10):
    dyn = ms.Dynamics(
        ms.Weights(case.Q, case.K, case.V), beta=case.beta, geometry="rescaled", mask=MASKS[case.mask],
        normalise=NORMALISE[case.normalise][0], position=None if case.bias is None else ms.positions.Bias(case.bias),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ms.simulate(dyn, case.z, t=case.times[-1], dt=case.dt, method=case.method, save=case.times, rtol=rtol)


def truth(case: Case, times: np.ndarray) -> tuple[np.ndarray, float]:
    """z at some times, and by how much that may be wrong."""
    bits = _bits(case, times[-1])
    with gmpy2.context(gmpy2.get_context(), precision=bits):
        exact, n = many_digits.exact, len(case.z)
        seen = {"full": None, "causal": np.tri(n), "own": every_other(*np.indices((n, n)))}.get(case.mask)
        if case.mask == "window":
            seen = np.abs(np.subtract(*np.indices((n, n)))) <= 1
        A = exact(case.Q).T.dot(exact(case.K)) * mpfr(case.beta)
        bias = None if case.bias is None else exact(case.bias)
        system = many_digits.Rescaled(exact(case.V), A, NORMALISE[case.normalise][1], seen, bias)
        if case.method == "layers":
            return many_digits.layers(system, exact(case.z), times, case.dt), 0.0
        if case.method != "tsit5":
            tableau = many_digits.RK4 if case.method == "rk4" else many_digits.EULER
            return many_digits.fixed(system, exact(case.z), times, case.dt, tableau, bits), 0.0
        rough, fine = (many_digits.adaptive(system, exact(case.z), times, tol, bits) for tol in (1e-12, 1e-15))
        return fine, off(rough, fine).max()


def _bits(case: Case, t: float) -> int:
    """The largest growth of differences, twice in the scores, there and back, and a margin."""
    symmetric = np.linalg.eigvalsh((case.V + case.V.T) / 2)
    if case.method == "layers":
        growth = np.log(np.linalg.svd(np.eye(len(case.V)) + case.dt * case.V)[1]) / case.dt
        symmetric = np.concatenate([symmetric, growth[np.isfinite(growth)]])
    rates = max(symmetric.max(), 0.0) + max(-symmetric.min(), 0.0)
    eigen = np.linalg.eigvals(case.V).real
    least = max(eigen.max(), 0.0) + max(-eigen.min(), 0.0)
    return int(2 / np.log(2) * min(rates * t, least * t + 300.0) * 1.2 + 400)


def off(z: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """How far tokens are off at each time, relative to the largest coordinate."""
    size = np.maximum(np.abs(exact).max(axis=(1, 2)), 1e-300)
    return np.abs(z - exact).max(axis=(1, 2)) / size


def judge(case: Case) -> tuple[str, str]:
    """``right``, ``WRONG`` or ``unsure`` (where the reference is), and the numbers."""
    clock = time.perf_counter()
    run = ours(case)
    spent = time.perf_counter() - clock
    told = run.valid_until or 0.0
    certified = run.t <= told
    clock = time.perf_counter()
    exact, doubt = truth(case, run.t[certified])
    worst = off(np.asarray(run.x)[certified], exact).max()
    numbers = f"off={worst:.1e} valid={told:g} of {case.times[-1]:g} ({run.status}) {spent:.0f}+"
    numbers += f"{time.perf_counter() - clock:.0f}s"
    if doubt > WRONG / 10:
        return "unsure", f"{numbers} doubt={doubt:.0e}"
    if worst <= WRONG:
        return "right", numbers
    if case.method == "tsit5":  # a tolerance is no rounding: the same run with a tighter one
        again = ours(case, rtol=1e-13)
        both = np.isin(run.t[certified], again.t)
        closer = off(np.asarray(again.x)[np.isin(again.t, run.t[certified])], exact[both]).max()
        numbers += f" rtol 1e-13: {closer:.1e}"
    return "WRONG", numbers


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_rescaled", description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run of this seed")
    parser.add_argument("--method", choices=METHODS, help="only the runs of one method")
    options = parser.parse_args(arguments)
    counts: dict[str, int] = {}
    for number in range(options.first, options.first + options.runs):
        case = draw(options.seed, number)
        if options.method in (None, case.method):
            verdict, numbers = judge(case)
            counts[verdict] = counts.get(verdict, 0) + 1
            print(f"{options.seed}:{number:<4} {verdict:6} {case}  {numbers}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return 1 if "WRONG" in counts else 0


if __name__ == "__main__":
    sys.exit(main())
