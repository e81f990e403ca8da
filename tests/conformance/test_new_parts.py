"""A fresh part of every kind, added as docs/extending.md says, goes everywhere the old ones go.

One object and one line in its table; then simulate, observe, save, load, plot, `metastable list` and a TOML run, with 8
tokens and with 1,000.
"""

import json
from dataclasses import dataclass, replace

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray

import metastable as ms
from metastable.backend import register
from metastable.cli import main
from metastable.cli.list_command import KINDS
from metastable.engines import ENGINES

LAW = ms.normalise.Normalisation(
    lambda s, seen: _power(s, seen), "power", stochastic=True, by_rows=True, about="(2 + s)^2, then rows that sum to 1."
)


def _power(scores, visible):
    weights = (2.0 + scores) ** 2
    weights = weights if visible is None else jnp.where(visible, weights, 0.0)
    return weights / weights.sum(axis=-1, keepdims=True)


def _page(i, n):
    first = i // 4 * 4
    return first, np.minimum(first + 4, n)


def _half(weights, t, x, u):
    return 0.5 * ms.geometry.project(weights, t, x, u)


@register
@dataclass(frozen=True)
class Decay:
    """A bias that falls with the square of the distance."""

    rate: float = 0.01

    def rotate(self, q, rows):
        return q

    def bias(self, rows, columns):
        return -self.rate * jnp.asarray((columns[None, :] - rows[:, None]) ** 2, float)[None]

    def fits(self, n, width, heads):
        return None


def width(run):
    """The largest distance from the first token."""
    far = np.linalg.norm(run.x - run.x[..., :1, :], axis=-1).max(axis=-1)
    return xarray.DataArray(far, dims=("time", *(f"run{k}" for k in range(len(run.runs)))), coords={"time": run.t})


HEUN = ms.methods.Explicit(
    "heun", order=2, tableau=ms.methods.Tableau(a=((), (1.0,)), b=(0.5, 0.5)), about="Heun's step, order 2."
)
# kind -> name of its argument, its table, the kind `metastable list` knows, the row
FRESH = {
    "normalisation": ("normalise", ms.normalise.NORMALISATIONS, "normalisations", LAW),
    "mask": ("mask", ms.masks.MASKS, "masks", ms.Mask(lambda i, j: i // 4 == j // 4, _page, "pages", "Pages of four.")),
    "scattered mask": (
        "mask",
        ms.masks.MASKS,
        "masks",
        ms.Mask(lambda i, j: (i - j) % 3 == 0, name="strided", about="Every third."),
    ),
    "geometry": (
        "geometry",
        ms.geometry.GEOMETRIES,
        "geometries",
        ms.Geometry(_half, ms.geometry.unit, name="slow", fixed_norm=True, codimension=1, about="Half as fast."),
    ),
    "score": (
        "score",
        ms.scores.SCORES,
        "scores",
        ms.Score(lambda q, k, beta: jnp.tanh(ms.scores.dot(q, k, beta)), name="capped", about="tanh of the dot score."),
    ),
    "position": ("position", ms.positions.POSITIONS, "positions", Decay),
    "method": ("method", ms.methods.METHODS, "methods", HEUN),
}


_LONG = ("scattered mask", "position", "score", "geometry")  # CI runs these as well


@pytest.fixture(params=[pytest.param(k, marks=pytest.mark.slow) if k in _LONG else k for k in FRESH])
def fresh(request):
    """A row in its table, removed afterwards: (argument, name, kind)."""
    argument, table, kind, row = FRESH[request.param]
    name = getattr(row, "name", "decay")
    assert name not in table
    table[name] = row
    yield argument, name, kind
    del table[name]


def by_definition(argument, x):
    """One Euler step of the part's own formula in NumPy, causal but for masks."""
    n = len(x)
    i, j = np.arange(n)[:, None], np.arange(n)
    s = x @ x.T
    seen = j <= i
    if argument == "pages":
        seen = i // 4 == j // 4
    if argument == "strided":
        seen = (i - j) % 3 == 0
    s = np.tanh(s) if argument == "capped" else s - 0.01 * (i - j) ** 2 if argument == "decay" else s
    w = np.where(seen, (2.0 + s) ** 2 if argument == "power" else np.exp(s), 0.0)
    u = w @ x / w.sum(axis=1, keepdims=True)
    u = u - (u * x).sum(axis=1, keepdims=True) * x
    return 0.5 * u if argument == "slow" else u


def run_with(argument, name, x, **more):
    parts = {"mask": "causal"} | ({argument: name} if argument != "method" else {})
    asked = {"t": 0.3, "dt": 0.1, "save": 4} | ({"method": name} if argument == "method" else {}) | more
    return ms.simulate(ms.Dynamics(**parts), x, **asked)


@pytest.mark.parametrize("n", [8, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_fresh_part_goes_everywhere(fresh, n, tmp_path, capsys, monkeypatch):
    argument, name, kind = fresh
    monkeypatch.chdir(tmp_path)
    x = ms.initial.sphere(n, 3, seed=0)
    run = run_with(argument, name, x)
    assert run.status == "done"
    # simulate: the part's own formula, whatever engine took it
    step = ms.Dynamics(**{"mask": "causal", **({argument: name} if argument != "method" else {})}).velocity(0.0, x)
    np.testing.assert_allclose(step, by_definition(name, x), atol=1e-12)
    for engine in ENGINES.values():
        try:
            other = run_with(argument, name, x, engine=engine.name)
        except ms.InputError:
            continue
        assert np.abs(other.x - run.x).max() < 1e-11, engine.name
    if n == 8:
        many = run_with(argument, name, np.stack([x, x]))
        np.testing.assert_allclose(many.x[:, 1], run.x, atol=1e-12)
    # observe
    assert run.observe("clusters").shape == (4,)
    if n == 8:  # seconds of singular values otherwise
        assert run.observe("rank").shape == (4, 1)
    # save and load
    again = ms.load(run.save("record"))
    assert np.array_equal(again.x, run.x)
    held = argument != "position"  # a class of one's own is "custom"
    assert again.missing == (() if held else ("position",))
    again = again if held else ms.load("record", dynamics=run.dynamics)
    assert again.dynamics == run.dynamics or argument == "position"
    np.testing.assert_allclose(again.attention(-1), run.attention(-1), atol=1e-14)
    # plot
    for picture in ("snapshots", "series"):
        run.plot(f"{picture}.png", kind=picture)
        plt.close("all")
    # metastable list
    capsys.readouterr()
    assert main(["list", kind, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)[kind]
    assert name in listed
    assert listed[name]
    # a TOML run
    mask = "" if argument == "mask" else 'mask = "causal"\n'
    (tmp_path / "run.toml").write_text(
        f'[simulate]\nn = {n}\nd = 3\nt = 0.3\nsave = 4\nseed = 0\nbeta = 1.0\n{mask}{argument} = "{name}"\n'
    )
    assert main(["simulate", "run.toml", "--out", "toml", "--no-pictures", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["status"] == "done"
    made = ms.load("toml") if held else ms.load("toml", dynamics=run.dynamics)
    assert np.abs(made.x - run.x).max() < 1e-11
    assert main(["plot", "toml"]) == 0
    # the same command again finds its record, or says that functions forbid it
    assert main(["simulate", "run.toml", "--out", "toml", "--no-pictures"]) in ((0,) if held else (0, 2))


@pytest.mark.slow
@pytest.mark.parametrize("argument", ["normalise", "mask", "score", "method"])
def test_a_fresh_part_in_a_rescaled_run(argument):
    """What the chart cannot rely on it does not use."""
    row = {
        "normalise": LAW,
        "mask": FRESH["scattered mask"][3],
        "score": ms.Score(ms.scores.dot, name="own dot", is_dot=True),
        "method": HEUN,
    }[argument]
    V = np.array([[0.9, 0.2], [-0.1, 0.4]])
    parts = {} if argument == "method" else {argument: row}
    method = row if argument == "method" else "rk4"
    dyn = ms.Dynamics(ms.Weights(V=V), geometry="rescaled", **parts)
    x = 0.5 * ms.initial.cube(8, 2, side=1.0, seed=0)
    run = ms.simulate(dyn, x, t=0.5, dt=0.1, save=[0.5], method=method)
    np.testing.assert_allclose(run.x, ms.flow(dyn, x, [0.5], method=method, dt=0.1), atol=1e-12)


@pytest.mark.parametrize("n", [8, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_fresh_observable(n, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    entry = ms.observables.table.Observable("width", "largest distance from the first token", (), width)
    monkeypatch.setitem(ms.observables.OBSERVABLES, "width", entry)
    x = ms.initial.sphere(n, 3, seed=0)
    run = ms.simulate(ms.Dynamics(), x, t=0.2, save=3)
    got = run.observe("width")
    np.testing.assert_allclose(got, np.linalg.norm(run.x - run.x[:, :1], axis=-1).max(axis=-1))
    data = ms.observe_many(ms.Dynamics(), np.stack([x, x]), "width", t=0.2, save=3)
    np.testing.assert_allclose(data.width[:, 1], got, atol=1e-10)
    run.save("record")
    np.testing.assert_array_equal(ms.load("record").observe("width"), got)
    ms.load("record").plot("series.png", kind="series", observable="width")
    plt.close("all")
    assert main(["list", "observables", "--json"]) == 0
    assert "width" in json.loads(capsys.readouterr().out)["observables"]
    assert main(["plot", "record", "--kind", "series", "--observable", "width"]) == 0


def test_parts_may_be_functions_wherever_a_name_is_accepted():
    x = ms.initial.sphere(8, 3, seed=0)
    named = ms.simulate(ms.Dynamics(normalise=LAW, mask=FRESH["mask"][3], score=FRESH["score"][3]), x, t=0.3, save=2)
    plain = ms.Dynamics(normalise=LAW.rows, mask=FRESH["mask"][3].visible, score=FRESH["score"][3].score)
    assert np.abs(ms.simulate(plain, x, t=0.3, save=2).x - named.x).max() < 1e-13


def test_a_wrong_declaration_is_refused_in_a_sentence():
    x = ms.initial.sphere(8, 3, seed=0)
    wrong = [
        {"normalise": ms.Normalisation(_power, "power", shift_invariant=True)},
        {"normalise": ms.Normalisation(lambda s, seen: s, "scores", stochastic=True)},
        {"normalise": ms.Normalisation(lambda s, seen: s / s.sum(axis=-2, keepdims=True), "columns", by_rows=True)},
        {"normalise": ms.Normalisation(_power, "power", stream="softmax")},
        {"mask": ms.Mask(lambda i, j: j <= i, lambda i, n: (0 * i, 0 * i + n), "wrong")},
        {"mask": ms.Mask(lambda i, j: j <= i, lambda i, n: (0 * i, i + 2), "outside")},
        {"score": ms.Score(lambda q, k, beta: -ms.scores.squared_distance(q, k), name="far", is_dot=True)},
        {"normalise": ms.Normalisation(lambda s: s, "one argument", by_rows=True)},
        {"normalise": ms.Normalisation(_mean_of_all, "of all", by_rows=True, stream="unnormalised")},
        {"normalise": ms.Normalisation(_forgets_the_mask, "forgets", stream="softmax"), "mask": "causal"},
        {"geometry": ms.Geometry(_half, name="no unit vectors", fixed_norm=True)},
        {"geometry": replace(ms.geometry.RESCALED, tangent=_half, name="half")},
        {"geometry": replace(ms.geometry.RESCALED, lift=lambda weights, t, x: x, name="not lifted")},
    ]
    for parts in wrong:
        with pytest.raises(ms.InputError) as refusal:
            ms.simulate(ms.Dynamics(**parts), x, t=0.3)
        assert "\n" not in str(refusal.value)


def _mean_of_all(scores, visible):
    """e^s / n under a mask too, where the kernel divides by the number of visible tokens."""
    weights = jnp.exp(scores) if visible is None else jnp.where(visible, jnp.exp(scores), 0.0)
    return weights / scores.shape[-1]


def _forgets_the_mask(scores, visible):
    return ms.normalise.softmax(scores, None)


def test_an_interval_that_is_wrong_in_one_row_of_many_is_refused():
    def interval(i, n):
        return 0 * i, np.where(i == 613, i, i + 1)

    wrong = ms.Mask(lambda i, j: j <= i, interval, "wrong in one row")
    with pytest.raises(ms.InputError, match="disagrees"):
        ms.simulate(ms.Dynamics(mask=wrong), ms.initial.sphere(1000, 3), t=0.1)


def test_a_geometry_that_only_has_another_name_is_the_same():
    named = replace(ms.geometry.RESCALED, name="mine")
    x = ms.initial.cube(6, 2, seed=0)
    runs = [ms.simulate(ms.Dynamics(geometry=g), x, t=5.0, save=3) for g in ("rescaled", named)]
    assert np.array_equal(runs[0].x, runs[1].x)


def test_every_table_of_parts_is_listed():
    listed = {(home, table) for home, table, _ in KINDS.values()}
    for home, table in [
        ("equation.masks", "MASKS"),
        ("equation.normalise", "NORMALISATIONS"),
        ("equation.geometry", "GEOMETRIES"),
        ("equation.scores", "SCORES"),
        ("equation.positions", "POSITIONS"),
        ("equation.noises", "NOISES"),
        ("solve.methods", "METHODS"),
        ("engines", "ENGINES"),
        ("observables", "OBSERVABLES"),
    ]:
        assert (home, table) in listed
