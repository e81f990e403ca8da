"""The parts that real models add, against plain NumPy transcriptions: orders, gains, experts, caps, turns, norms."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metastable as ms
from metastable.engines import ENGINES
from metastable.equation import blocks, masks, positions, scores
from metastable.equation.fields import CrossAttention
from metastable.equation.weights import Stack
from metastable.solve.plan import make_plan
from tests.equation.test_dynamics import layer_norm, softmax

rng = np.random.default_rng(5)
N, D, K, M, H = 6, 4, 4, 5, 3
X = rng.normal(size=(N, D))
Q_MAP, K_MAP, V_MAP = rng.normal(size=(3, H, K, D))
O_MAP = rng.normal(size=(H, D, K))
WEIGHTS = ms.Weights(Q_MAP, K_MAP, V_MAP, O_MAP)
GAIN, BIAS = 1 + 0.3 * rng.normal(size=(2, D))


def rms_norm(x, gain, eps=0.0, axis=-1):
    return gain * x / np.sqrt((x**2).mean(axis=axis, keepdims=True) + eps)


def attend(x, A=None):
    A = softmax(scored(x)) if A is None else A
    return np.einsum("hdv,hnm,hve,me->nd", O_MAP, A, V_MAP, x)


def scored(x, q_norm=lambda q: q, k_norm=lambda k: k):
    q, k = q_norm(np.einsum("hkd,nd->hnk", Q_MAP, x)), k_norm(np.einsum("hkd,nd->hnk", K_MAP, x))
    return np.einsum("hnk,hmk->hnm", q, k)


# --- blocks ---------------------------------------------------------------------------------------------------------

W_IN, GATE = rng.normal(size=(2, M, D))
W_OUT, B_GATE, B_IN = rng.normal(size=(D, M)), rng.normal(size=M), rng.normal(size=M)


def silu(a):
    return a / (1 + np.exp(-a))


def fed(x):
    return (silu(x @ GATE.T + B_GATE) * (x @ W_IN.T + B_IN)) @ W_OUT.T


GATED = blocks.MLP(W_IN, W_OUT, B_IN, gate=GATE, b_gate=B_GATE, activation="silu")


def one_layer(**parts):
    dyn = ms.Dynamics(WEIGHTS, geometry="euclidean", block=ms.Block(GATED, **parts))
    return ms.simulate(dyn, X, t=1, method="layers", save=2).x[-1]


def test_a_parallel_block():
    first, second = blocks.LayerNorm(GAIN, BIAS, 1e-5), blocks.RMSNorm(BIAS)
    got = one_layer(attention_norm=first, mlp_norm=second, order="parallel", residual=0.5)
    want = X + 0.5 * attend(layer_norm(X, GAIN, BIAS, 1e-5)) + 0.5 * fed(rms_norm(X, BIAS))
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_attention_of_a_parallel_block_comes_after_its_norm():
    block = ms.Block(attention_norm=blocks.RMSNorm(GAIN), order="parallel")
    A = ms.Dynamics(WEIGHTS, geometry="euclidean", block=block).attention(0.0, X)
    np.testing.assert_allclose(A, softmax(scored(rms_norm(X, GAIN))), atol=1e-13)


def test_norms_after_the_sublayers():
    """Gemma 2 has norms on both sides, OLMo 2 only after."""
    got = one_layer(
        attention_norm=blocks.RMSNorm(GAIN), mlp_norm=blocks.RMSNorm(BIAS), order="pre",
        attention_out=blocks.RMSNorm(BIAS, eps=1e-6), mlp_out=blocks.LayerNorm(GAIN, BIAS),
    )  # fmt: skip
    u = X + rms_norm(attend(rms_norm(X, GAIN)), BIAS, 1e-6)
    np.testing.assert_allclose(got, u + layer_norm(fed(rms_norm(u, BIAS)), GAIN, BIAS), rtol=1e-11)
    got = one_layer(order="pre", attention_out=blocks.RMSNorm(GAIN), mlp_out=blocks.RMSNorm(BIAS))
    u = X + rms_norm(attend(X), GAIN)
    np.testing.assert_allclose(got, u + rms_norm(fed(u), BIAS), rtol=1e-11)


def test_layer_scale():
    parts = {"attention_norm": blocks.LayerNorm(), "order": "pre"}
    got = one_layer(attention_out=blocks.Scale(GAIN), mlp_out=blocks.Scale(BIAS), **parts)
    u = X + GAIN * attend(layer_norm(X, 1.0, 0.0))
    np.testing.assert_allclose(got, u + BIAS * fed(u), rtol=1e-12)
    assert not ms.Block(attention_out=blocks.Scale(GAIN)).has_norms
    assert ms.Block(attention_out=blocks.RMSNorm(GAIN)).has_norms


@pytest.mark.parametrize("order", blocks.ORDERS)
def test_a_weaker_token_in_the_sum(order):
    norm = blocks.RMSNorm(GAIN)
    got = one_layer(attention_norm=norm, mlp_norm=norm, order=order, skip=0.25, residual=0.5)

    def g(x):
        return rms_norm(x, GAIN)

    if order == "post":
        u = g(0.25 * X + 0.5 * attend(X))
        want = g(0.25 * u + 0.5 * fed(u))
    elif order == "pre":
        u = 0.25 * X + 0.5 * attend(g(X))
        want = 0.25 * u + 0.5 * fed(g(u))
    else:
        want = 0.25 * X + 0.5 * attend(g(X)) + 0.5 * fed(g(X))
    np.testing.assert_allclose(got, want, rtol=1e-11)


def test_gains_and_parallel_blocks_in_continuous_time():
    """x' is what a layer adds; the simulator's flow starts that way."""
    first = blocks.RMSNorm(GAIN)
    block = ms.Block(GATED, first, order="parallel", attention_out=blocks.Scale(BIAS), mlp_out=blocks.Scale(GAIN))
    dyn = ms.Dynamics(WEIGHTS, geometry="euclidean", block=block)
    want = BIAS * attend(rms_norm(X, GAIN)) + GAIN * fed(X)
    np.testing.assert_allclose(dyn.velocity(0.0, X), want, rtol=1e-12)
    run = ms.simulate(dyn, X, t=1e-6, dt=1e-6, save=2)
    np.testing.assert_allclose((run.x[-1] - X) / 1e-6, want, rtol=1e-3)


@pytest.mark.parametrize("normalised", [True, False])
def test_experts(normalised):
    router, gate, W_in = rng.normal(size=(5, D)), rng.normal(size=(5, M, D)), rng.normal(size=(5, M, D))
    W_out = rng.normal(size=(5, D, M))
    mlp = blocks.Experts(router, W_in, W_out, gate, top=2, normalised=normalised)
    want = np.zeros_like(X)
    for i, x in enumerate(X):
        p = softmax(router @ x)
        chosen = np.argsort(p)[-2:]
        for e in chosen:
            share = p[e] / p[chosen].sum() if normalised else p[e]
            want[i] += share * W_out[e] @ (silu(gate[e] @ x) * (W_in[e] @ x))
    np.testing.assert_allclose(mlp(X), want, rtol=1e-12)
    np.testing.assert_allclose(np.count_nonzero(mlp.shares(X), axis=-1), 2)
    both = jax.jit(lambda part, x: part(x))(mlp, np.stack([X, 2 * X]))  # an ensemble, compiled
    np.testing.assert_allclose(both[0], want, rtol=1e-12)


def test_experts_through_layers():
    parts = [rng.normal(size=(2, *shape)) for shape in ((3, D), (3, M, D), (3, D, M), (3, M, D))]
    dyn = ms.Dynamics(WEIGHTS, geometry="euclidean", block=ms.Block(blocks.Experts(*map(Stack, parts), top=1)))
    run = ms.simulate(dyn, X, t=2, method="layers", dt=1.0)
    want = X
    for l in range(2):
        one = blocks.Experts(*(part[l] for part in parts), top=1)
        want = want + attend(want) + np.asarray(one(want))
    np.testing.assert_allclose(run.x[-1], want, rtol=1e-10)


@pytest.mark.parametrize("order", blocks.ORDERS)
def test_an_external_field(order):
    """Attention to tokens that do not move, after attention (or beside it), with a norm of its own."""
    states, norm = rng.normal(size=(3, D)), blocks.RMSNorm(GAIN)
    field = CrossAttention(WEIGHTS, states, blocks.RMSNorm(BIAS), beta=0.7)
    got = one_layer(attention_norm=norm, mlp_norm=norm, order=order, residual=0.5, field=field)

    def pushed(x):
        q = np.einsum("hkd,nd->hnk", Q_MAP, rms_norm(x, BIAS))
        A = softmax(0.7 * np.einsum("hnk,hkd,md->hnm", q, K_MAP, states))
        return 0.5 * np.einsum("hdv,hnm,hve,me->nd", O_MAP, A, V_MAP, states)

    def g(x):
        return rms_norm(x, GAIN)

    if order == "post":
        u = g(X + 0.5 * attend(X))
        u = u + pushed(u)
        want = g(u + 0.5 * fed(u))
    elif order == "pre":
        u = X + 0.5 * attend(g(X))
        u = u + pushed(u)
        want = u + 0.5 * fed(g(u))
    else:
        want = X + 0.5 * attend(g(X)) + pushed(X) + 0.5 * fed(g(X))
    np.testing.assert_allclose(got, want, rtol=1e-11)
    assert field.attention(X).shape == (H, N, 3)


# --- scores, positions, masks ---------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(cap=st.floats(0.1, 100.0), beta=st.floats(-5.0, 5.0))
def test_capped_scores(cap, beta):
    A = ms.Dynamics(WEIGHTS, beta=beta, score=scores.capped(cap), geometry="euclidean").attention(0.0, X)
    np.testing.assert_allclose(A, softmax(cap * np.tanh(beta * scored(X) / cap)), atol=1e-12)
    assert scores.resolve(scores.capped(cap).name) == scores.capped(cap)


def turned(q, frequencies, interleaved):
    """By 2 x 2 rotations, pair by pair."""
    out, m = q.copy(), len(frequencies)
    for i in range(q.shape[-2]):
        for c, f in enumerate(frequencies):
            a, b = (2 * c, 2 * c + 1) if interleaved else (c, c + m)
            cos, sin = np.cos(i * f), np.sin(i * f)
            u, v = q[..., i, a], q[..., i, b]
            out[..., i, a], out[..., i, b] = u * cos - v * sin, v * cos + u * sin
    return out


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("frequencies", [[1.3], [1.0, 0.2]])
def test_partial_and_interleaved_rotary(frequencies, interleaved):
    position = positions.Rotary(frequencies, partial=len(frequencies) < 2, interleaved=interleaved)
    dyn = ms.Dynamics(WEIGHTS, position=position, geometry="euclidean")
    want = scored(X, *[lambda q: turned(q, frequencies, interleaved)] * 2)
    np.testing.assert_allclose(dyn.attention(0.0, X), softmax(want), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("interleaved", [False, True])
def test_kernels_turn_as_the_compiled_sum_does(interleaved):
    dyn = ms.Dynamics(WEIGHTS, position=positions.Rotary([1.3], True, interleaved), geometry="euclidean")
    engines = [name for name, e in ENGINES.items() if e.supports(make_plan(dyn, X, t=0.1)[0]) is None]
    assert "exact" in engines
    runs = [ms.simulate(dyn, X, t=0.3, save=2, engine=name).x for name in engines]
    assert all(np.abs(run - runs[0]).max() < 1e-10 * np.abs(runs[0]).max() for run in runs)


def test_rotary_by_name():
    dyn = ms.Dynamics(WEIGHTS, position=positions.rotary(4, base=100.0, share=0.5, interleaved=True))
    assert dyn.position.partial
    assert dyn.position.interleaved
    assert dyn.position.frequencies.tolist() == [1.0]
    np.testing.assert_allclose(positions.rotary(4).frequencies, [1.0, 0.01])
    assert not positions.rotary(4).partial


def test_rotary_by_layer():
    """A layer of zero frequencies has no positions."""
    table = np.array([[1.0, 0.3], [0.0, 0.0]])
    dyn = ms.Dynamics(WEIGHTS, position=positions.Rotary(Stack(table)), geometry="euclidean")
    assert dyn.time_dependent
    assert not dyn.autonomous
    for t, frequencies in enumerate(table):
        want = scored(X, *[lambda q, f=frequencies: turned(q, f, False)] * 2)
        np.testing.assert_allclose(dyn.attention(float(t), X), softmax(want), atol=1e-12)
    run = ms.simulate(dyn, X, t=2, method="layers")
    first = X + attend(X, np.asarray(dyn.attention(0.0, X)))
    np.testing.assert_allclose(run.x[-1], first + attend(first), rtol=1e-10)


def test_blooms_slopes():
    slopes = positions.alibi(8).slopes
    np.testing.assert_allclose(slopes, 2.0 ** -np.arange(1.0, 9))
    np.testing.assert_allclose(positions.alibi(12).slopes, [*slopes, *2.0 ** -np.array([0.5, 1.5, 2.5, 3.5])])
    assert len(positions.alibi(1).slopes) == 1


def test_masks_by_layer():
    dyn = ms.Dynamics(WEIGHTS, mask="window(1, causal); full; causal", geometry="euclidean")
    i, j = np.arange(N)[:, None], np.arange(N)
    seen = [(j <= i) & (i - j <= 1), np.ones((N, N), bool), j <= i]
    x = X
    for t in range(4):
        A = softmax(np.where(seen[t % 3], scored(x), -np.inf))
        np.testing.assert_allclose(dyn.attention(float(t), x), A, atol=1e-12)
        x = x + 0.1 * attend(x, A)
    scaled = ms.Dynamics(ms.Weights(Q_MAP, K_MAP, 0.1 * V_MAP, O_MAP), mask=dyn.mask, geometry="euclidean")
    assert np.abs(ms.simulate(scaled, X, t=4, method="layers").x[-1] - x).max() < 1e-9 * np.abs(x).max()
    assert masks.resolve(dyn.mask.name) == dyn.mask
    assert (np.asarray(dyn.mask.visible(i, j)) == np.ones((N, N), bool)).all()


def test_a_mask_by_layer_of_arrays_fits_the_tokens():
    mask = masks.by_layer([np.tri(N), "causal"])
    assert ms.simulate(ms.Dynamics(WEIGHTS, mask=mask, geometry="euclidean"), X, t=2, method="layers").status == "done"
    with pytest.raises(ms.InputError, match="array for 6 tokens, but there are 5"):
        ms.simulate(ms.Dynamics(WEIGHTS, mask=mask, geometry="euclidean"), X[:5], t=2, method="layers")


# --- norms of queries and keys --------------------------------------------------------------------------------------


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("each", [False, True])
def test_norms_of_queries_and_keys(joint, centred, each):
    gain, bias = rng.normal(size=(2, H, K) if each else (2, K))
    norm = blocks.HeadNorm(gain, bias, 1e-5, centred=centred, joint=joint)

    def by_hand(q):
        q = np.moveaxis(q, 0, 1).reshape(N, 1, H * K) if joint else np.moveaxis(q, 0, 1)  # (n, h, k)
        q = q - q.mean(-1, keepdims=True) if centred else q
        q = (q / np.sqrt((q**2).mean(-1, keepdims=True) + 1e-5)).reshape(N, H, K)
        return np.moveaxis(q * gain + bias, 1, 0)

    for q_norm, k_norm in ((norm, None), (None, norm), (norm, norm)):
        weights = ms.Weights(Q_MAP, K_MAP, V_MAP, O_MAP, q_norm=q_norm, k_norm=k_norm)
        dyn = ms.Dynamics(weights, geometry="euclidean", position=positions.rotary(K))
        hands = [by_hand if part is not None else (lambda q: q) for part in (q_norm, k_norm)]
        want = scored(X, *[lambda q, hand=hand: turned(hand(q), [1.0, 0.01], False) for hand in hands])
        np.testing.assert_allclose(dyn.attention(0.0, X), softmax(want), atol=1e-12)


def test_layers_of_normed_weights():
    made = [
        ms.Weights(Q_MAP, K_MAP, 0.1 * V_MAP, O_MAP, q_norm=blocks.HeadNorm(rng.normal(size=K), eps=1e-6))
        for _ in range(3)
    ]
    dyn = ms.Dynamics(ms.weights.stack(made), geometry="euclidean")
    for t, weights in enumerate(made):
        one = ms.Dynamics(weights, geometry="euclidean")
        np.testing.assert_allclose(dyn.attention(float(t), X), one.attention(0.0, X), atol=1e-14)
    with pytest.raises(ms.InputError, match="same maps"):
        ms.weights.stack([ms.Weights(V=np.eye(4)), ms.Weights(V=np.eye(4), q_norm=blocks.HeadNorm())])
    with pytest.raises(ms.InputError, match="only arrays differ"):
        ms.weights.stack([ms.Weights(q_norm=blocks.HeadNorm()), ms.Weights(q_norm=blocks.HeadNorm(joint=True))])


# --- what engines do with them --------------------------------------------------------------------------------------

TWO = ms.initial.sphere(7, 2, seed=3)
NORMED = ms.Weights(V=np.eye(2), q_norm=blocks.HeadNorm(np.array([1.0, 0.5])))
# dynamics, the engines that run it, and a word of why each other one does not
CASES = {
    "capped": (ms.Dynamics(score="capped(2)"), {"dense"}, {"exact": "not a dot", "lanes": "dot scores"}),
    "masks by layer": (
        ms.Dynamics(mask="causal; full"), {"dense"}, {"exact": "layer to layer", "lanes": "interval"},
    ),
    "normed queries": (
        ms.Dynamics(NORMED), {"dense", "exact"}, {"lanes": "norms of queries", "spectral": "norms of queries"},
    ),
    "turned by layer": (
        ms.Dynamics(ms.Weights(V=np.eye(2)), position=positions.Rotary(Stack(np.ones((2, 1))))),
        {"dense", "exact"}, {"lanes": "positions", "spectral": "positions"},
    ),
    "gains": (
        ms.Dynamics(block=ms.Block(attention_out=blocks.Scale([1.0, 0.5]))), {"dense", "exact"}, {"lanes": "block"},
    ),
    "experts": (
        ms.Dynamics(block=ms.Block(blocks.Experts(*rng.normal(size=(1, 3, 2)), *rng.normal(size=(3, 3, 2, 2)), top=1))),
        {"dense", "exact"}, {"lanes": "block"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_engines_take_it_or_say_why_not(name):
    dyn, able, words = CASES[name]
    plan, _ = make_plan(dyn, TWO, t=0.3)
    against = {engine: ENGINES[engine].supports(plan) for engine in ENGINES}
    assert {engine for engine, why in against.items() if why is None} == able
    for engine, word in words.items():
        assert word in against[engine]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_engines_run_it_alike(name):
    dyn, able, _ = CASES[name]
    runs = [ms.simulate(dyn, TWO, t=0.3, save=2, engine=engine).x for engine in sorted(able)]
    for run in runs:
        np.testing.assert_allclose(run, runs[0], atol=1e-11)
    again = np.asarray(ms.flow(dyn, TWO, [0.0, 0.3], method="rk4", dt=0.1))
    np.testing.assert_allclose(again, runs[0], atol=1e-12)


SKIPPED = ms.Block(attention_norm=blocks.RMSNorm(), order="pre", skip=0.0)
REFUSED = [
    (lambda: scores.capped(0.0), "cap of scores"),
    (lambda: ms.Dynamics(score="capped(x)"), "did you mean 'capped(50)'"),
    (lambda: ms.Block(order="middle"), "order of norms"),
    (lambda: ms.Block(mlp=np.eye(2)), "function of tokens"),
    (lambda: ms.Block(skip=0.0), "layers with norms"),
    (lambda: ms.simulate(ms.Dynamics(geometry="euclidean", block=SKIPPED), X, t=0.1), "method='layers'"),
    (lambda: blocks.MLP(W_IN, W_OUT, b_gate=B_GATE), "there is no gate"),
    (lambda: blocks.Experts(np.ones((2, 2)), *np.ones((3, 2, 2, 2)), top=0), "top must be"),
    (lambda: blocks.Experts(np.ones((2, 2)), *np.ones((3, 2, 2, 2)), top=3)(TWO), "there are 2"),
    (lambda: ms.Weights(q_norm=np.ones(3)), "HeadNorm"),
    (lambda: ms.Dynamics(ms.Weights(k_norm=blocks.HeadNorm()), geometry="rescaled"), "norms"),
    (lambda: ms.Dynamics(mask="causal; full", geometry="rescaled"), "do not depend on time"),
    (lambda: ms.Dynamics(mask="causal; fulll"), "did you mean 'full'"),
    (lambda: masks.by_layer(["full"], dt=0.0), "dt of by_layer"),
    (lambda: masks.by_layer(["full"], dt="long"), "dt of by_layer"),
    (lambda: masks.by_layer([]), "list of masks"),
    (lambda: CrossAttention(WEIGHTS, np.ones(3)), "finite tokens"),
    (lambda: CrossAttention(np.eye(2), X), "Weights object"),
    (lambda: positions.rotary(8, share=0.4), "even number of turned"),
    (lambda: positions.rotary(8, share=2.0), "between 0 and 1"),
    (lambda: ms.simulate(ms.Dynamics(position=positions.Rotary([1.0] * 3, partial=True)), TWO, t=0.1), "at most 1"),
    (lambda: ms.Dynamics(block=ms.Block(attention_out=blocks.RMSNorm())), "norms take the sphere's place"),
]


@pytest.mark.parametrize(("make", "word"), REFUSED, ids=[word for _, word in REFUSED])
def test_what_has_no_meaning_is_refused_in_one_sentence(make, word):
    with pytest.raises(ms.InputError) as refusal:
        make()
    assert word in str(refusal.value)
    assert str(refusal.value).endswith(".")


def test_no_theorem_for_normed_queries():
    assert "queries or keys have norms" in str(ms.check(NORMED, TWO))
