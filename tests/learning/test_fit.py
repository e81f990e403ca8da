"""ms.fit: slopes against differences, closed forms, records that resume with the same digits, and sentences."""

import jax
import numpy as np
import pytest

import metastable as ms
from metastable.equation.blocks import MLP, Block
from metastable.equation.weights import Stack
from metastable.learning import fit_record, fitting, learnt_numbers
from metastable.learning.descent import Descent, optimiser_of
from metastable.learning.fit_problem import make_problem

pytest.importorskip("optax")
rng = np.random.default_rng(5)
D, N = 2, 4
X = ms.initial.sphere(N, D, seed=1)
Y = ms.initial.sphere(N, D, seed=2)
AIM = X[:1] @ np.array([[np.cos(1.0), np.sin(1.0)], [-np.sin(1.0), np.cos(1.0)]])  # one radian further
BLOCK = Block(mlp=MLP(0.4 * rng.normal(size=(3, D)), 0.4 * rng.normal(size=(D, 3)), activation="tanh"))
WEIGHTS = ms.Weights(*(np.eye(D) + 0.3 * rng.normal(size=(3, D, D))))
DYN = ms.Dynamics(WEIGHTS, beta=1.3, block=BLOCK)
CHOSEN = {
    "times": 0.4, "method": "euler", "dt": 0.1, "loss": "squared", "effort": 0.0, "pieces": 1, "steps": 5, "rate": 0.05,
    "optimiser": "adam", "held_out": None, "seed": 0,
}  # fmt: skip


def slopes_agree(over, targets=Y, dynamics=DYN, **chosen):
    """The gradient of every learned array along a random direction, against central differences of fourth order."""
    problem = make_problem(dynamics, X, targets, over, CHOSEN | chosen)
    data = (jax.numpy.asarray(problem.x0), jax.numpy.asarray(problem.targets))
    value = jax.jit(lambda numbers: problem.objective(numbers, data)[0])
    numbers, slope = problem.numbers(), jax.jit(jax.grad(lambda n: problem.objective(n, data)[0]))(problem.numbers())
    h = 1e-3
    for name, number in numbers.items():
        way = rng.normal(size=number.shape)
        ends = [float(value({**numbers, name: number + s * h * way})) for s in (2, 1, -1, -2)]
        want = (8 * (ends[1] - ends[2]) - (ends[0] - ends[3])) / (12 * h)
        assert float(np.sum(np.asarray(slope[name]) * way)) == pytest.approx(want, rel=1e-6, abs=1e-8), name
        assert np.asarray(slope[name]).any(), name


def test_slopes_of_everything_agree_with_differences():
    slopes_agree(["Q", "K", "V", "beta", "tokens", "mlp"], effort=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rk4", "layers", "tsit5"])
@pytest.mark.parametrize("loss", ["squared", "cosine", "cloud"])
def test_slopes_of_losses_and_methods_agree_with_differences(loss, method):
    targets = ms.initial.sphere(3, D, seed=4) if loss == "cloud" else Y
    slopes_agree(["K", "V", "beta", "tokens", "mlp.W_out"], targets, loss=loss, method=method)


@pytest.mark.slow
def test_slopes_of_pieces_and_several_times_agree_with_differences():
    slopes_agree(["Q", "V", "mlp.W_in"], np.stack([Y, X]), times=[0.2, 0.4], pieces=2, effort=0.05)


@pytest.mark.slow
def test_slopes_in_space_agree_with_differences():
    dynamics = ms.Dynamics(WEIGHTS, beta=0.7, geometry="euclidean", mask="causal")
    slopes_agree(["Q", "V", "tokens", "beta"], 2.0 * Y, dynamics)


def one_token(**chosen):
    options = {"times": 1.0, "method": "euler", "dt": 0.25, "steps": 60, "rate": 0.1, "checkpoint": 20}
    return ms.fit(ms.Dynamics(), X[:1], AIM, ["V", "beta"], **{**options, **chosen})


def test_one_token_goes_where_it_should_and_the_record_says_how(tmp_path):
    told = []
    found = one_token(out=tmp_path / "fit", progress=told.append)
    assert found.error < 1e-3 < found.curve["error"][0]
    assert found.idle == ("beta",)  # a token alone sees itself whatever beta is
    assert found.status == "done"
    assert len(found.curve["value"]) == 61
    assert [p.share for p in told][-1] == 1.0
    end = ms.flow(found.dynamics, found.x0, [1.0], "euler", 0.25)[-1]
    assert np.abs(np.square(end - AIM).sum(-1).mean() - found.error) < 1e-14
    again = ms.learning.read_fit(tmp_path / "fit")
    assert np.array_equal(again.numbers["V"], found.numbers["V"])
    assert np.array_equal(again.curve["error"], found.curve["error"])
    assert np.array_equal(again.dynamics.weights.V, found.dynamics.weights.V)
    assert repr(again) == repr(found)
    assert found.plot(tmp_path / "a.png").caption.startswith("Error over 60 steps")


def test_what_begins_to_count_later_is_not_idle():
    """From V = 0 no token moves, whatever Q, K and beta are: their first slope is exactly 0, and then they move."""
    still = ms.Dynamics(ms.Weights(V=np.zeros((D, D))))
    chosen = {"steps": 3, "method": "euler", "dt": 0.5}
    found = ms.fit(still, X, Y, ["Q", "K", "V", "beta"], **chosen)
    for name in ("Q", "K", "beta"):
        assert found.curve[f"slope {name}"][0] == 0.0
        assert found.curve[f"slope {name}"][-1] > 0.0
    assert found.idle == ()
    assert "no influence" not in repr(found)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_descent_is_traced_once(kind):
    """Whatever the type of its numbers, and however often it is advanced: tracing and compiling take longest."""
    traced = []

    def objective(numbers, data):
        traced.append(1)
        return ((numbers["a"] - data) ** 2).sum(), {}

    descent = Descent(objective, optimiser_of("adam", 0.1, 6), 2)
    state = descent.start({"a": np.zeros(3, kind)})
    for _ in range(3):
        state, _ = descent.advance(state, jax.numpy.ones(3, kind), 2)
    assert len(traced) == 1
    assert state.numbers["a"].dtype == kind
    assert 0 < float(state.lowest) < 3


class KilledError(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("optimiser", ["adam", "lbfgs"])
def test_a_killed_fit_goes_on_with_the_same_digits(tmp_path, optimiser, monkeypatch):
    whole = one_token(optimiser=optimiser, steps=20, checkpoint=6)

    def stop(progress):
        if progress.share > 0.3:
            raise KilledError

    with pytest.raises(KilledError):
        one_token(optimiser=optimiser, steps=20, checkpoint=6, out=tmp_path / "fit", progress=stop)
    with pytest.raises(ms.InputError, match="is not finished; run the same fit again"):
        ms.learning.read_fit(tmp_path / "fit")
    calls = []
    advance = Descent.advance
    monkeypatch.setattr(Descent, "advance", lambda *a: (calls.append(a[-1]), advance(*a))[1])
    found = one_token(optimiser=optimiser, steps=20, checkpoint=6, out=tmp_path / "fit")
    assert sum(calls) == 21 - 12
    assert np.array_equal(found.numbers["V"], whole.numbers["V"])
    assert np.array_equal(found.curve["value"], whole.curve["value"])
    with pytest.raises(ms.InputError, match=r"holds another fit \(rate is 0.1 there and 0.2 here"):
        one_token(optimiser=optimiser, steps=20, rate=0.2, out=tmp_path / "fit")


@pytest.mark.slow
def test_a_damaged_checkpoint_is_refused(tmp_path):
    with pytest.raises(KilledError):
        one_token(out=tmp_path / "fit", progress=lambda progress: (_ for _ in ()).throw(KilledError()))
    (tmp_path / "fit" / "state.npz").write_bytes(b"PK")
    with pytest.raises(ms.InputError, match="is damaged"):
        one_token(out=tmp_path / "fit")


@pytest.mark.slow
def test_what_is_held_out_is_measured_and_does_not_move_anything():
    plain = one_token()
    found = one_token(held_out=(X[1:2], Y[1:2]))
    assert np.array_equal(found.curve["value"], plain.curve["value"])
    assert found.held_out["step"].tolist() == [0, 19, 39, 59, 60]
    other = ms.flow(found.dynamics, X[1:2], [1.0], "euler", 0.25)[-1]
    assert found.held_out["error"][-1] == pytest.approx(float(np.square(other - Y[1:2]).sum()), abs=1e-12)


def test_diverging_ends_with_the_best_and_says_so():
    dynamics = ms.Dynamics(ms.Weights(V=[[1.0]]), geometry="euclidean")
    start = np.array([[1.0]])
    found = ms.fit(dynamics, start, [[3.0]], "V", rate=500.0, steps=30, checkpoint=10, method="euler", times=30.0)
    assert found.status == "diverged"
    assert np.isfinite(found.numbers["V"]).all()
    assert np.isfinite(found.curve["value"]).all()


def test_names_are_looked_up():
    stacked = ms.Dynamics(ms.Weights(V=Stack(np.ones((3, 1, D, D)), 0.1)), block=BLOCK)
    assert learnt_numbers.expanded(stacked, ["mlp", "V", "mlp.W_in"]) == ("mlp.W_in", "mlp.W_out", "V")
    assert learnt_numbers.numbers_of(stacked, X, ["V"])["V"].shape == (3, 1, D, D)
    assert learnt_numbers.numbers_of(ms.Dynamics(), X, ["K"])["K"].tolist() == np.eye(D)[None].tolist()
    in_two = learnt_numbers.in_pieces(ms.Dynamics(), ["V"], D, 2, 1.0)
    assert learnt_numbers.effort_of(in_two, ["V"], {"V": np.ones((2, 1, D, D))}, 1.0) == 1.0 * D * D
    twice = ms.Dynamics(ms.Weights(V=np.eye(D)), block=BLOCK)
    assert learnt_numbers.expanded(twice, ["weights.V", "V", "block.mlp.W_in"]) == ("V", "mlp.W_in")


@pytest.mark.parametrize("t", [0.2, 0.75, 3.0])
def test_effort_is_the_integral_of_what_tokens_feel(t):
    """Of a Stack of one's own too, which need not end with the fit: its last layer stays, late ones are never felt."""
    stack = Stack(rng.normal(size=(5, 1, D, D)), 0.25)
    fine = (np.arange(4000) + 0.5) * t / 4000
    want = np.mean([np.square(stack(s)).sum() for s in fine]) * t
    found = learnt_numbers.effort_of(ms.Dynamics(ms.Weights(V=stack)), ["V"], {"V": stack.values}, t)
    assert float(found) == pytest.approx(want, rel=2e-3)


BAD = [
    ({"over": []}, "over must name what is learned"),
    ({"over": ["V", 3]}, "over must name what is learned"),
    ({"over": "bta"}, "Unknown name of something to learn 'bta'; did you mean 'beta'"),
    ({"over": "q_bias"}, "has no q_bias to learn; give it one to start from"),
    ({"over": "mlp"}, "Unknown name of something to learn 'mlp'"),
    ({"dynamics": ms.Dynamics(ms.Weights(V=lambda t: np.eye(D)))}, "function of time of one's own"),
    ({"dynamics": 3}, "dynamics must be a Dynamics"),
    ({"targets": Y[:2]}, r"targets must have shape \(4, 2\), one place for every token; their shape is \(2, 2\)"),
    ({"times": [0.5, 1.0]}, r"targets must have shape \(2, 4, 2\), one place for every token and time"),
    ({"targets": Y * np.nan}, "targets: Tokens hold nan or inf"),
    ({"times": [1.0, 0.5]}, "times must be a positive number, or numbers that increase"),
    ({"times": "a"}, "times must be a number"),
    ({"steps": 0}, "steps must be a whole number >= 1, not 0"),
    ({"pieces": 1.5}, "pieces must be a whole number"),
    ({"checkpoint": 0}, "checkpoint must be a whole number >= 1"),
    ({"progress": 3}, "progress must be a function"),
    (
        {
            "dynamics": ms.Dynamics(beta=np.ones(2)),
            "x0": np.stack([X, Y]),
            "targets": np.stack([Y, X]),
            "held_out": (X, Y),
        },
        "^held_out: The parts turn tokens",
    ),
    ({"rate": -1.0}, "rate must"),
    ({"effort": -1.0}, "effort must"),
    ({"loss": "square"}, "Unknown loss 'square'; did you mean 'squared'"),
    ({"loss": 3}, "loss must be a name or a function"),
    ({"loss": lambda x, y: x - y}, r"The loss <lambda> must give one real number .* not shape \(1, 4, 2\)"),
    ({"loss": lambda x, y: None}, "The loss <lambda> must give one real number"),
    ({"loss": lambda x: x.sum()}, "The loss <lambda> cannot be followed by slopes"),
    ({"loss": lambda x, y: float(x.sum())}, "write it with jax.numpy"),
    ({"over": "weights"}, "weights holds no numbers yet; choose from"),
    ({"optimiser": "adamm"}, "Unknown optimiser 'adamm'; did you mean 'adam'"),
    ({"optimiser": 3}, "optimiser must be one of adam, sgd, lbfgs"),
    ({"held_out": X}, "held_out must be a pair"),
    ({"over": ["tokens"], "held_out": (X, Y)}, "Tokens that are learned say nothing of others"),
    ({"method": "rk5"}, "Unknown method 'rk5'"),
    ({"stepps": 3}, "Unknown option of fit 'stepps'; did you mean 'steps'"),
]


@pytest.mark.parametrize(("given", "sentence"), BAD, ids=lambda v: str(v).split(" at 0x")[0][:40])
def test_every_mistake_is_one_sentence(given, sentence):
    good = {"dynamics": ms.Dynamics(), "x0": X, "targets": Y, "over": "V"}
    with pytest.raises(ms.InputError, match=sentence) as caught:
        ms.fit(**{**good, **given})
    assert "\n" not in str(caught.value)


def test_without_optax_the_sentence_says_how_to_get_it(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "optax", None)
    with pytest.raises(ms.InputError, match=r"Learning needs optax; install it with `pip install metastable\[learn\]`"):
        ms.fit(ms.Dynamics(), X, Y, "V")


@pytest.mark.slow
def test_functions_of_ones_own_are_never_taken_for_the_same(tmp_path):
    own = {"loss": lambda x, y: ((x - y) ** 2).sum(), "steps": 2, "out": tmp_path / "fit"}
    one_token(**own)
    with pytest.raises(ms.InputError, match="whether it is the same cannot be decided"):
        one_token(**own)
    assert fit_record.read_fit(tmp_path / "fit").error > 0
    assert optimiser_of("sgd", 0.1, 10) is not None
    assert fitting.fit is ms.fit
