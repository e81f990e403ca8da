"""Every row of every table x every engine that supports it x {one run, ensemble, list, resumed}, against dense.

A new row of a table, and a new engine, is tested by being there. The dense engine itself, and the chart for the
rescaled flow, are compared with `flow`. By default every row that compiles in a second or two is tried with Euler steps
(one stage to compile, not four) in one geometry and one of the four modes, which change from row to row, and one row
in a chart, by both of its engines; `-m slow` tries everything with rk4.
"""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import metastable as ms
from metastable.engines import ENGINES
from metastable.equation.blocks import MLP, Experts, HeadNorm, RMSNorm, Scale
from metastable.equation.geometry import GEOMETRIES
from metastable.equation.masks import MASKS
from metastable.equation.noises import NOISES
from metastable.equation.normalise import NORMALISATIONS
from metastable.equation.positions import POSITIONS, Bias, Relative, Rotary
from metastable.equation.scores import SCORES
from metastable.solve.driver import drive
from metastable.solve.methods import METHODS, Adaptive, Explicit, Layered, Tableau
from metastable.solve.plan import make_plan
from metastable.solve.simulate import collect

N, D, RUNS = 7, 2, 3
T, DT = 0.6, 0.1
TOLERANCE = 1e-10
RNG = np.random.default_rng(11)
Q, K = np.eye(D) + 0.3 * RNG.normal(size=(2, D, D))
VALUES = [np.array([[0.9, 0.2], [-0.1, 0.4]]) + 0.1 * k * np.diag([1.0, -1.0]) for k in range(RUNS)]
BETAS = np.array([1.5, 0.7, 2.2])
ON_SPHERE = ms.initial.sphere(N, D, seed=4, runs=RUNS)


def tokens(geometry):
    return ON_SPHERE if GEOMETRIES[geometry].fixed_norm else 0.5 * ON_SPHERE  # unnormalised attention blows up from 1


def softmax(scores, visible):
    return jax.nn.softmax(scores if visible is None else jnp.where(visible, scores, -jnp.inf), axis=-1)


def strided(i, j):
    return (i - j) % 3 == 0


HEUN = Explicit("heun", order=2, tableau=Tableau(a=((), (1.0,)), b=(0.5, 0.5)))
KUTTA = Explicit("kutta3", order=3, tableau=Tableau(a=((), (0.5,), (-1.0, 2.0)), b=(1 / 6, 2 / 3, 1 / 6)))
SOME = np.tri(N, k=1, dtype=bool) & (np.random.default_rng(1).random((N, N)) < 0.7) | np.eye(N, dtype=bool)

ROWS = {
    "mask": {
        **MASKS,
        "window(2)": "window(2)",
        "window(2, causal)": "window(2, causal)",
        "strided": ms.Mask(strided, name="strided"),
        "array": SOME,
        "function": strided,
        "by layer": ms.masks.by_layer(["window(2, causal)", "full", SOME], dt=0.2),
    },
    "normalise": {
        **NORMALISATIONS,
        "own": softmax,
        "declared": ms.Normalisation(softmax, "declared", shift_invariant=True, stochastic=True, by_rows=True),
    },
    "score": {
        **SCORES,
        "capped(0.5)": "capped(0.5)",
        "own": lambda q, k, beta: -beta * jnp.abs(q[..., :, None, :] - k[..., None, :, :]).sum(axis=-1),
    },
    "position": {
        **dict.fromkeys(POSITIONS),
        "bias": Bias(RNG.normal(size=(N, N))),
        "relative": Relative(RNG.normal(size=2 * N - 1)),
        "interleaved": Rotary([0.7], interleaved=True),
        "rotary by layer": Rotary(ms.weights.Stack(np.array([[0.7], [0.0], [0.1]]), dt=0.2)),
    },
    "weights": {
        "normed": {"q_norm": HeadNorm([1.2, 0.4], eps=1e-5)},
        "normed jointly": {"k_norm": HeadNorm([1.2, 0.4], [0.1, 0.2], centred=True, joint=True)},
    },
    "block": {
        "gains": ms.Block(attention_out=Scale([0.5, 1.5])),
        "experts": ms.Block(Experts(*RNG.normal(size=(1, 3, D)), *0.3 * RNG.normal(size=(3, 3, D, D)), top=2)),
        "parallel": ms.Block(MLP(np.eye(D), 0.3 * np.eye(D)), RMSNorm(), order="parallel"),
        "normed after": ms.Block(MLP(np.eye(D), 0.3 * np.eye(D)), order="pre", attention_out=RMSNorm(eps=1e-5)),
    },
    "method": {**METHODS, "heun": HEUN, "kutta3": KUTTA},
}
MODES = ("one", "ensemble", "list", "resumed")


def dynamics(part, row, geometry, run=0, beta=None):
    """The dynamics of one case: everything usual but one part."""
    given = (
        {} if part == "method" else {part: row if part == "position" and ROWS[part][row] is None else ROWS[part][row]}
    )
    masked = {} if part in ("mask", "normalise") else {"mask": "causal"}
    weights = ms.Weights(Q, K, VALUES[run], **(given.pop(part) if part == "weights" else {}))
    return ms.Dynamics(weights, beta=BETAS[run] if beta is None else beta, geometry=geometry, **masked, **given)


def has_meaning(part, row, geometry):
    try:
        dynamics(part, row, geometry)
    except ms.InputError:
        return False
    return True


def cases():
    """(part, row, geometry) of all that has a meaning, and whether it is tried by default: one geometry a row."""
    rows = [(part, row) for part in ROWS for row in ROWS[part]]
    for k, (part, row) in enumerate(rows):
        spaces = [geometry for geometry in GEOMETRIES if has_meaning(part, row, geometry)]
        quick = [space for space in spaces if not GEOMETRIES[space].rescales]  # a chart takes seconds to compile
        usual = quick[k % len(quick)]
        costly = row == "sinkhorn" or (part == "method" and ROWS[part][row].adaptive)  # seconds to compile
        for space in spaces:
            yield k, (part, row, space), space == usual and not costly


def marked(case, usual, *more):
    return pytest.param(*case, *more, marks=() if usual else pytest.mark.slow, id="-".join((*case, *more)))


CASES = [marked(case, False, mode) for _, case, _ in cases() for mode in MODES]
EVERY_ROW = [marked(case, True, MODES[(k // 4 + k) % 4]) for k, case, usual in cases() if usual]
IN_A_CHART = [marked(("mask", "causal", "rescaled"), True, mode) for mode in ("one", "list", "resumed")]  # one shape
PURE = [marked(case, False) for _, case, _ in cases()]
EVERY_TWELFTH = [marked(case, True) for k, case, usual in cases() if usual and k % 12 == 0]


def settings(part, row, steps="rk4"):
    method = ROWS["method"][row] if part == "method" else METHODS[steps]
    save = np.array([0.0, 0.2, 0.6]) if method.discrete else np.array([0.0, 0.2, 0.25, 0.6])  # .25 lies inside a step
    return {"t": T, "dt": DT, "method": method, "save": save, "rtol": 1e-9}


def supporting(plan):
    return [engine.name for engine in ENGINES.values() if engine.supports(plan) is None]


@lru_cache(maxsize=512)
def reference(part, row, geometry, run, weights, steps="rk4"):
    """One run by itself, with its own beta, by the engine that takes anything."""
    engine = "chart" if GEOMETRIES[geometry].rescales else "dense"
    dyn = dynamics(part, row, geometry, weights, BETAS[run])
    return ms.simulate(dyn, tokens(geometry)[run], engine=engine, **settings(part, row, steps)).x


def assert_close(got, want, tolerance=TOLERANCE):
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * max(1.0, np.abs(want).max()))


@pytest.mark.parametrize(("part", "row", "geometry", "mode"), CASES)
def test_agrees_with_the_dense_engine(part, row, geometry, mode):
    check(part, row, geometry, mode, "rk4")


@pytest.mark.parametrize(("part", "row", "geometry", "mode"), EVERY_ROW + IN_A_CHART)
def test_every_row_agrees_with_the_dense_engine(part, row, geometry, mode):
    check(part, row, geometry, mode, "euler")


def check(part, row, geometry, mode, steps):
    asked, X = settings(part, row, steps), tokens(geometry)
    if mode in ("one", "resumed"):
        given, x, want = dynamics(part, row, geometry), X[0], reference(part, row, geometry, 0, 0, steps)
    elif mode == "ensemble":
        given, x = dynamics(part, row, geometry, beta=BETAS[:, None]), X[:, None]
        want = np.stack([reference(part, row, geometry, run, 0, steps) for run in range(RUNS)], axis=1)[:, :, None]
    else:
        given, x = [dynamics(part, row, geometry, run) for run in range(RUNS)], X
        want = np.stack([reference(part, row, geometry, run, run, steps) for run in range(RUNS)], axis=1)
    names = supporting(make_plan(given, x, **asked)[0])
    assert ("chart" if GEOMETRIES[geometry].rescales else "dense") in names
    for name in [*names, "auto"]:
        if mode == "resumed":
            got = resumed(given, x, name, asked)
        else:
            run = ms.simulate(given, x, engine=name, **asked)
            got = np.stack([one.x for one in run], axis=1) if mode == "list" else run.x
            made = run[0] if mode == "list" else run
            assert made.provenance["engine"] in (names if name == "auto" else [name])
            assert made.status == "done"
        assert_close(got, want)


def resumed(dyn, x, engine, asked):
    """A run taken up again from each of its checkpoints, with the same digits as one left alone."""
    plan, tokens = make_plan(dyn, x, engine=engine, **asked)
    segments = list(drive(plan, tokens))
    whole = collect(plan, segments)
    assert len(segments) > 2
    middle = len(segments) // 2
    stored = {name: np.array(value) for name, value in segments[middle].state.items()}  # what a file would hold
    again = list(drive(plan, tokens, checkpoint=stored))
    run = collect(plan, segments[: middle + 1] + again)
    assert np.array_equal(run.x, whole.x)
    assert run.valid_until == whole.valid_until
    return run.x


@pytest.mark.parametrize(
    "mode", ["one", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("ensemble", "resumed"))]
)
@pytest.mark.parametrize("kind", NOISES)
def test_every_engine_that_takes_noise_takes_every_kind(kind, mode):
    """The same noise by every engine: the key is that of the run and the step."""
    dyn = ms.Dynamics(beta=1.3, noise=0.4, noise_kind=kind)
    asked = {"t": T, "dt": DT, "method": "euler", "save": np.array([0.0, 0.2, 0.25, 0.6]), "seed": 5}
    x = ON_SPHERE if mode == "ensemble" else ON_SPHERE[0]
    names = supporting(make_plan(dyn, x, **asked)[0])
    assert "dense" in names
    want = ms.simulate(dyn, x, engine="dense", **asked).x
    for name in names:
        got = resumed(dyn, x, name, asked) if mode == "resumed" else ms.simulate(dyn, x, engine=name, **asked).x
        assert_close(got, want)


# --- the references themselves ---------------------------------------------------------------------------------------


def pure(part, row, geometry, steps):
    """The same run by `flow`; layers of the rescaled flow by those of the Euclidean one (ORACLES 21)."""
    asked, X = settings(part, row, steps), tokens(geometry)
    space = GEOMETRIES[geometry]
    kept = {name: asked[name] for name in ("method", "dt", "rtol")}
    if not (space.rescales and asked["method"].discrete):
        return np.asarray(ms.flow(dynamics(part, row, geometry), X[0], asked["save"], **kept))
    x = np.asarray(ms.flow(dynamics(part, row, "euclidean"), X[0], asked["save"], **kept))
    inverse = np.linalg.inv(np.eye(D) + DT * VALUES[0])
    return np.stack([z @ np.linalg.matrix_power(inverse, round(t / DT)).T for t, z in zip(asked["save"], x)])


@pytest.mark.parametrize(("part", "row", "geometry"), PURE)
def test_the_reference_agrees_with_flow(part, row, geometry):
    check_reference(part, row, geometry, "rk4")


@pytest.mark.parametrize(("part", "row", "geometry"), EVERY_TWELFTH)
def test_references_of_some_rows_agree_with_flow(part, row, geometry):
    check_reference(part, row, geometry, "euler")


def check_reference(part, row, geometry, steps):
    want = pure(part, row, geometry, steps)
    got = reference(part, row, geometry, 0, 0, steps)
    adaptive = isinstance(settings(part, row)["method"], Adaptive)  # segments cut steps, so only the tolerance is left
    assert_close(got, want, 1e-7 if adaptive else TOLERANCE)


SOME_ROWS = [pytest.param(row, marks=() if row == "own" else pytest.mark.slow) for row in ROWS["normalise"]]


@pytest.mark.parametrize("row", SOME_ROWS)
@pytest.mark.parametrize("method", ["rk4", pytest.param("dopri8", marks=pytest.mark.slow)])
def test_rescaled_tokens_are_the_euclidean_ones_rescaled(row, method):
    """ORACLES 16: z(t) = e^{-tV} x(t), whatever the normalisation, and the same attention."""
    if method == "dopri8" and row == "hardmax":
        pytest.skip("a discontinuous velocity has no order 8")
    asked = {"t": 0.25, "dt": 0.005, "method": method, "save": [0.25], "rtol": 1e-12}
    x = tokens("euclidean")[0]
    flat, rescaled = (ms.simulate(dynamics("normalise", row, g), x, **asked) for g in ("euclidean", "rescaled"))
    back = scipy.linalg.expm(-0.25 * VALUES[0])
    assert_close(rescaled.x[0], flat.x[0] @ back.T, 1e-10)
    assert_close(rescaled.attention(-1), flat.attention(-1), 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ROWS["mask"] if row not in ("array", "by layer")])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_many_tokens(row, geometry):
    """Sizes at which kernels take other ways: several tiles, expansions."""
    n = 700
    dyn = ms.Dynamics(ms.Weights(V=np.diag([1.0, 0.5])), beta=3.0, geometry=geometry, mask=ROWS["mask"][row])
    x = ms.initial.sphere(n, 2, seed=2)
    names = supporting(make_plan(dyn, x, t=0.2)[0])
    runs = [ms.simulate(dyn, x, t=0.2, save=2, engine=name).x for name in names]
    for run in runs[1:]:
        assert_close(run, runs[0])


def test_every_method_kind_is_in_the_table():
    assert {type(method) for method in METHODS.values()} == {Explicit, Layered, Adaptive}
