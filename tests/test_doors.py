"""The public doors: whatever a user puts in, what comes out is a result or one InputError, never a raw error."""

import inspect
import warnings

import numpy as np
import pytest

import metastable as ms
from metastable.errors import InputError, Misuse, door, numbers, unknown

X = np.array([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.8]])
BAD = [None, True, "a", b"1", -1, 0, 1.5, float("nan"), 10**400, {}, [], [[]], object(), {"a": 1}, len, X, X + 1j]
MODULES = [ms.initial, ms.weights, ms.masks, ms.scores, ms.positions, ms.observables, ms.reduced, ms.engines, ms.plots]
MODULES += [ms.theory.closed_forms, ms.theory.hypotheses, ms.theory.limits]
NOT_CALLED = {"choose", "resolve", "checked_value", "resolve_time", "stacked", "varies", "tokens_from_file"}
DRAWS_MANY = {"film", "animate"}
FORMULAS = {
    ms.scores.dot,
    ms.scores.squared_distance,
    ms.scores.gaussian,
    ms.scores.bounded,
}  # of parts


def public_functions():
    for module in MODULES:
        names = getattr(module, "__all__", None) or [
            name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__
        ]
        for name in names:
            value = getattr(module, name)
            callable_ = inspect.isfunction(value) or (inspect.isclass(value) and hasattr(value.__init__, "__wrapped__"))
            if callable_ and not name.startswith("_") and name not in NOT_CALLED and value not in FORMULAS:
                marks = pytest.mark.slow if name in DRAWS_MANY else ()
                yield pytest.param(value, id=f"{module.__name__.rpartition('.')[2]}.{name}", marks=marks)


def answers(function, *args, **named):
    """The result, or the InputError's sentence; anything else that is raised fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args, **named)
        except InputError as error:
            caught = error
    assert str(caught).endswith((".", "?")), str(caught)
    assert "\n" not in str(caught)
    return caught


@pytest.mark.parametrize("function", list(public_functions()))
def test_no_function_raises_anything_else(function):
    required = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    required = [p for p in required if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for bad in BAD:
        answers(function, *[bad] * len(required))
        answers(function, X, *[bad] * (len(required) - 1))
    if any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values()):
        return
    said = answers(function, *[X] * len(required), no_such_option=1)
    assert isinstance(said, InputError)
    assert "no_such_option" in str(said)


@pytest.mark.parametrize("name", list(inspect.signature(ms.simulate).parameters))
def test_simulate(name):
    good = {"dynamics": ms.Dynamics(), "x0": X, "t": 0.2, "dt": 0.1, "save": 2}
    for bad in BAD:
        if bad is X or (name == "progress" and bad is not len):
            continue
        answers(ms.simulate, **{**good, name: bad})


# what costs nothing but is never right; of BAD, some values are, and then a door computes
WRONG = [None, "a", b"1", float("nan"), {}, [[]], object(), len, X + 1j]
SMALL = {"t": 0.2, "dt": 0.1, "save": 2}
ONE_RUN = {"simulate": {"n": 3, "t": 0.2}, "sweep": {"beta": [1.0], "observe": ["order"], "times": 1}}
DOORS = {
    "flow": lambda run: (ms.flow, {"dynamics": run.dynamics, "x0": X, "times": [0.2]}),
    "observe_many": lambda run: (
        ms.observe_many,
        {"dynamics": run.dynamics, "x0": X[None], "observe": "order", **SMALL},
    ),
    "compare": lambda run: (ms.compare, {"a": run, "b": run}),
    "check": lambda run: (ms.check, {"weights": run.dynamics.weights}),
    "load": lambda run: (ms.load, {"path": "nowhere"}),
    "density": lambda run: (ms.density, {"dynamics": run.dynamics, "rho0": "cap", "t": 0.1, "d": 2, "save": 2}),
    "sweep": lambda run: (ms.sweep, {"config": ONE_RUN}),
    "attend": lambda run: (ms.engines.attend, {"q": X, "k": X}),
    **{
        name: lambda run, name=name, good=good: (getattr(run, name), good)
        for name, good in {
            "at": {"t": 0.1},
            "extend": {"t": 0.3},
            "nearest": {"time": 0.1},
            "attention": {},
            "observe": {"name": "order"},
            "__getitem__": {"index": -1},
            "save": {"path": "/dev/null/run"},
            "to_csv": {"path": "/dev/null/run.csv"},
            "plot": {"kind": "snapshots"},
            "animate": {"path": "/dev/null/run.gif"},
            "export": {"path": "/dev/null/run.html"},
            "film": {},
            "view": {},
        }.items()
    },
    "fit": lambda run: (ms.fit, {"dynamics": run.dynamics, "x0": X, "targets": X, "over": "beta", "steps": 1}),
}
COSTLY = {"check", "fit", "film", "view", "density"}


@pytest.fixture(scope="module")
def run():
    return ms.simulate(ms.Dynamics(), X, t=0.2, dt=0.1, save=3)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in COSTLY else n for n in DOORS])
def test_every_option_of_a_door(name, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function, good = DOORS[name](run)
    for option, given in inspect.signature(function).parameters.items():
        for bad in WRONG if given.kind is not given.VAR_KEYWORD else ():
            answers(function, **{**good, option: bad})
        if given.kind is given.VAR_KEYWORD:
            answers(function, **good, no_such_option=1)


@pytest.mark.parametrize("name", list(inspect.signature(ms.Dynamics).parameters))
def test_dynamics(name):
    for bad in BAD:
        answers(ms.Dynamics, **{name: bad})


def test_what_is_no_number_is_refused():
    for bad in (True, b"1", "1"):
        for name in ("t", "dt", "rtol", "seed"):
            assert isinstance(answers(ms.simulate, ms.Dynamics(), X, **{name: bad}), InputError), (name, bad)
        assert isinstance(answers(ms.Dynamics, beta=bad), InputError)
        assert isinstance(answers(ms.Weights, V=[[bad]]), InputError)
    assert isinstance(answers(ms.weights.from_eigenvalues, b"12"), InputError)
    assert numbers([1, 2.0]) == [1, 2.0]


def test_only_likely_names_are_suggested():
    names = ["model-sharing", "polytope", "goe", "softmax"]
    for given, near in {
        "polytop": "polytope",
        "oge": "goe",
        "sharing": "model-sharing",
        "POLYTOPE": "polytope",
    }.items():
        assert f"did you mean '{near}'?" in str(unknown("name", given, names)), given
    for given in ("nothing", "x", "", "everything", "max", "a" * 3000):
        assert "did you mean" not in str(unknown("name", given, names)), given


def test_what_nobody_foresaw_is_known_as_such():
    with pytest.raises(Misuse):
        ms.initial.clusters(3, 2, count="a")
    with pytest.raises(InputError) as caught:
        ms.Dynamics(beta="hot")
    assert type(caught.value) is InputError


def test_sentences():
    with pytest.raises(InputError, match=r"Unknown option of Dynamics 'bta'; did you mean 'beta'\?"):
        ms.Dynamics(bta=1.0)
    with pytest.raises(InputError, match="missing a required argument: 'd'"):
        ms.initial.sphere(3)
    with pytest.raises(InputError, match=r"clusters cannot use .*count = 'a'"):
        ms.initial.clusters(3, 2, count="a")


def test_the_cause_stays_and_results_pass():
    @door
    def third(values):
        return values[2]

    assert third("abc") == "c"
    with pytest.raises(InputError) as caught:
        third([])
    assert isinstance(caught.value.__cause__, IndexError)


def test_jax_errors_pass():
    import jax

    with pytest.raises(jax.errors.TracerArrayConversionError):
        jax.jit(door(np.asarray))(X)


def test_types_of_public_names():
    """The stub names what the package offers, no more and no less."""
    import ast
    from pathlib import Path

    stub = Path(ms.__file__).with_suffix(".pyi")
    tree = ast.parse(stub.read_text())
    named = {alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert named | {"__version__"} == set(ms.__all__)
    assert stub.with_name("py.typed").is_file()
