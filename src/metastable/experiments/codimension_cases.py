"""Instances of `metastable.experiments.codimension`: settings, weights and tokens, and the rates of settling."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from metastable.experiments import codimension_high
from metastable.theory.theorems import CONJECTURE, Triple

FIGURE_7 = np.array(
    [
        [0.92761287, 0.94333073, 0.3827744],
        [0.94333073, 0.59991396, 0.47825472],
        [0.3827744, 0.47825472, 0.46668605],
    ]
)
SPACING = 0.25  # least distance between the moduli of random real eigenvalues, which lie in [1, 2]
FAMILIES = ("Fig. 7a", "symmetric", "real spectrum", "complex pair")


@dataclass(frozen=True)
class Params:
    """Fig. 7a: n = 40 tokens uniform on [-5, 5]^3, Q = K = I; Fig. 7b: n = 256 tokens uniform on [-0.5, 0.5]^128,
    random Q and K as its caption says; larger random ones, and Q = K = I as in the published script, with fewer tokens
    and dimensions (`codimension_high`).

    Low-dimensional instances take turns: the published V; V = S diag(.) S^-1 with eigenvalues of modulus in [1, 2],
    at least `SPACING` apart, and random signs, S orthogonal or oblique; and a normal V whose leading eigenvalues are
    a complex pair a +- ib. ``identities`` further instances have V = I, ``turning`` ones are the good triple of
    `turning_triple`. The conjecture as printed includes them all.

    Steps are fixed: a token that slides along the border between two leaders is a stiff problem on which adaptive steps
    of 1e-7 crawl, and stall in 8 of 153 instances. The other 145 outcomes are the same with both.
    """

    instances: int = 200
    seed: int = 0
    n: int = 40
    side: float = 5.0
    identities: int = 25
    turning: int = 25
    high_instances: int = 24
    high_n: int = 256
    high_d: int = 128
    high_side: float = 0.5
    high_dt: float = 0.1
    equal_n: int = 64
    equal_d: int = 32
    method: str = "rk4"
    chunk: int = 10


def triple(params: Params, index: int) -> Triple:
    """Low-dimensional instance ``index``, drawn from the seed params.seed + index; its family is that number mod 4."""
    rng = np.random.default_rng([params.seed + index])
    tokens = rng.uniform(-params.side, params.side, (params.n, 3))
    kind, eye = (params.seed + index) % len(FAMILIES), np.eye(3)
    if kind == 0:
        return Triple(eye, eye, FIGURE_7, tokens)
    sizes = 1.0 + np.sort(rng.uniform(0.0, 1.0 - 2.0 * SPACING, 3)) + SPACING * np.arange(3)
    signs = np.where(rng.random(3) < 0.5, -1.0, 1.0)
    signs[rng.integers(3)] = 1.0  # k >= 1
    core = np.diag(sizes * signs)
    if kind == 3:
        a, b = rng.uniform(0.5, 1.0, 2)
        core = np.array([[a, b, 0.0], [-b, a, 0.0], [0.0, 0.0, rng.choice([-1.0, 1.0]) * rng.uniform(0.2, 0.4)]])
    S = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    S = S if kind != 2 else S + 0.3 * rng.standard_normal((3, 3))
    V = S @ core @ np.linalg.inv(S)
    return Triple(eye, eye, (V + V.T) / 2.0 if kind == 1 else V, tokens)


def _rate(case: Triple) -> float:
    """The slower of two rates: of the slowest growing direction, and of the leading eigenvalue leaving the next behind.

    Until e^{(lambda_1 - lambda_2) t} is large, tokens see two leading directions and gather as if V were a multiple of
    the identity on both (a polygon); only then does a single direction choose the leaders.
    """
    real = np.sort(np.linalg.eigvals(case.V).real)[::-1]
    growing = real[real > 0.0]
    gap = growing[0] - growing[1] if len(growing) > 1 else np.inf
    # a complex pair, or a multiple of the identity, has no such gap: nothing to wait for
    return float(growing[-1] if gap < 1e-9 * growing[0] else min(growing[-1], gap))


CLAIM = replace(CONJECTURE, rate=_rate)


def identity_triple(params: Params, index: int) -> Triple:
    """V = I: k = d = 3, so that a subspace of codimension k is a point."""
    rng = np.random.default_rng([params.seed + index, 1])
    eye = np.eye(3)
    return Triple(eye, eye, eye, rng.uniform(-params.side, params.side, (params.n, 3)))


def turning_triple(params: Params, index: int) -> Triple:
    """A good triple with Q^T K > 0 in whose plane tokens chase each other: V = 1 + 0.9 R, Q^T K = 1 + R, R a turn by 72
    degrees.

    Tokens at the corners of a regular pentagon in the plane look at the one 72 degrees behind them, so that the polygon
    grows like e^{0.9 t}, where the rescaling takes out e^{0.9 cos(72) t} only. The leading direction outgrows it, but
    all tokens of a hyperplane have the same share of that, up to e^{cos(72) t}, and Q^T K does not couple it with the
    plane: scores differ by e^{(1 + cos 72) t} through it and by e^{1.8 t}, which is more, through the plane.
    """
    rng = np.random.default_rng([params.seed + index, 3])
    c, s = np.cos(2.0 * np.pi / 5.0), np.sin(2.0 * np.pi / 5.0)
    V, K = np.eye(3), np.eye(3)
    K[1:, 1:] = [[c, s], [-s, c]]
    V[1:, 1:] = 0.9 * K[1:, 1:]
    return Triple(np.eye(3), K, V, rng.uniform(-params.side, params.side, (params.n, 3)))


def size(params: Params, scores: str) -> codimension_high.Size:
    """Tokens and dimension in high dimension: Fig. 7b's, or smaller with tokens of the same length."""
    if scores == codimension_high.SCORES[0]:
        return codimension_high.Size(params.high_n, params.high_d, params.high_side, params.high_dt)
    side = params.high_side * float(np.sqrt(128.0 / params.equal_d))
    return codimension_high.Size(params.equal_n, params.equal_d, side, params.high_dt)


def high_rate(scores: str) -> Callable[[Triple], float]:
    """Random Q and K leave attention nearly uniform, and tokens close in at the slowest growing rate; else `_rate`."""
    return CONJECTURE.rate if scores == codimension_high.SCORES[0] else _rate
