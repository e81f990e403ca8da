"""The equation and its parts against plain NumPy transcriptions, and refusals of what has no meaning."""

import jax
import numpy as np
import pytest

import metastable as ms
from metastable.equation import blocks, masks, positions, scores
from metastable.equation.weights import Stack

rng = np.random.default_rng(0)
X = ms.initial.sphere(7, 4, seed=1)


def softmax(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, gain, bias, eps=0.0):
    c = x - x.mean(axis=-1, keepdims=True)
    return gain * c / np.sqrt((c**2).mean(axis=-1, keepdims=True) + eps) + bias


def test_multi_head_attention_is_the_sum_over_heads():
    Q, K, V = rng.standard_normal((3, 2, 4)), rng.standard_normal((3, 2, 4)), rng.standard_normal((3, 4, 4))
    dyn = ms.Dynamics(ms.Weights(Q, K, V), beta=1.3, geometry="euclidean")
    expected = sum(softmax(1.3 * (X @ Q[h].T) @ (X @ K[h].T).T) @ X @ V[h].T for h in range(3))
    assert np.abs(dyn.velocity(0.0, X) - expected).max() < 1e-13
    assert dyn.attention(0.0, X).shape == (3, 7, 7)


def test_one_key_for_all_heads_and_values_alone_broadcast():
    V = rng.standard_normal((3, 4, 4))
    dyn = ms.Dynamics(ms.Weights(V=V), geometry="euclidean")
    assert np.abs(dyn.velocity(0.0, X) - softmax(X @ X.T) @ X @ V.sum(axis=0).T).max() < 1e-13
    assert dyn.attention(0.0, X).shape == (3, 7, 7)


def test_a_thin_value_with_its_output_map_is_the_same_as_their_product():
    V, O = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 4, 3))
    thin = ms.Dynamics(ms.Weights(V=V, O=O))
    full = ms.Dynamics(ms.Weights(V=np.einsum("hdv,hve->hde", O, V)))
    assert np.abs(thin.velocity(0.0, X) - full.velocity(0.0, X)).max() < 1e-13
    assert np.abs(thin.weights.value_map() - full.weights.V).max() == 0.0


def test_the_transformer_block_of_appendix_a1():
    """Multi-head, residual, LayerNorm with gain and bias, ReLU MLP, over three layers, to 1e-12."""
    n, d, k, m, heads, depth = 6, 5, 3, 11, 2, 3
    W_Q, W_K, W_V = rng.standard_normal((3, depth, heads, d, k))
    W_c = rng.standard_normal((depth, heads, k, d))
    W_1, W_2 = rng.standard_normal((depth, d, m)), rng.standard_normal((depth, m, d))
    g1, b1, g2, b2 = rng.standard_normal((4, depth, d))
    x, beta = rng.standard_normal((n, d)), 0.8
    plain = [x]
    for l in range(depth):
        u = np.zeros((n, d))
        for h in range(heads):
            alpha = softmax(beta * (x @ W_Q[l, h]) @ (x @ W_K[l, h]).T)
            u += alpha @ (x @ W_V[l, h]) @ W_c[l, h]
        u = layer_norm(x + u, g1[l], b1[l])
        x = layer_norm(u + np.maximum(u @ W_1[l], 0.0) @ W_2[l], g2[l], b2[l])
        plain.append(x)
    t = np.swapaxes
    weights = ms.weights.stack(
        [ms.Weights(t(W_Q[l], 1, 2), t(W_K[l], 1, 2), t(W_V[l], 1, 2), t(W_c[l], 1, 2)) for l in range(depth)]
    )
    stack = ms.weights.Stack
    block = ms.Block(
        mlp=blocks.MLP(stack(t(W_1, 1, 2)), stack(t(W_2, 1, 2)), activation="relu"),
        attention_norm=blocks.LayerNorm(stack(g1), stack(b1)),
        mlp_norm=blocks.LayerNorm(stack(g2), stack(b2)),
    )
    dyn = ms.Dynamics(weights, beta=beta, geometry="euclidean", block=block)
    run = ms.simulate(dyn, plain[0], t=depth, method="layers")
    assert run.x.shape == (depth + 1, n, d)
    assert np.abs(run.x - np.stack(plain)).max() < 1e-12


def test_pre_norm_block_with_gate():
    d, m = 4, 6
    W_in, gate, W_out = rng.standard_normal((m, d)), rng.standard_normal((m, d)), rng.standard_normal((d, m))
    gain = rng.standard_normal(d)
    block = ms.Block(
        blocks.MLP(W_in, W_out, gate=gate, activation="silu"),
        blocks.RMSNorm(gain, eps=1e-5),
        blocks.RMSNorm(gain),
        "pre",
    )
    dyn = ms.Dynamics(ms.Weights(), geometry="euclidean", block=block)
    run = ms.simulate(dyn, X, t=1, method="layers")

    def rms(x, eps=0.0):
        return gain * x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)

    a = rms(X, 1e-5)
    u = X + softmax(a @ a.T) @ a
    b = rms(u)
    g = b @ gate.T
    assert np.abs(run.x[-1] - (u + (g / (1 + np.exp(-g)) * (b @ W_in.T)) @ W_out.T)).max() < 1e-12


@pytest.mark.parametrize("mask", ["full", "causal", "window(2)", "window(1, causal)"])
@pytest.mark.parametrize("name", ["softmax", "unnormalised", "hardmax"])
def test_attention_by_definition(mask, name):
    P = np.asarray(ms.Dynamics(ms.Weights(), beta=2.0, normalise=name, mask=mask).attention(0.0, X))[0]
    i, j = np.arange(7)[:, None], np.arange(7)[None, :]
    seen = {"full": i < 99, "causal": j <= i, "window(2)": abs(i - j) <= 2}.get(mask, (j <= i) & (i - j <= 1))
    s = 2.0 * X @ X.T
    expected = {
        "softmax": np.where(seen, np.exp(s), 0) / np.where(seen, np.exp(s), 0).sum(axis=1, keepdims=True),
        "unnormalised": np.where(seen, np.exp(s), 0) / np.broadcast_to(seen, (7, 7)).sum(axis=1, keepdims=True),
        "hardmax": (np.where(seen, s, -np.inf) == np.where(seen, s, -np.inf).max(axis=1, keepdims=True)) * 1.0,
    }[name]
    assert np.abs(P - expected).max() < 1e-13


def test_hardmax_shares_ties_and_takes_the_lowest_for_negative_beta():
    x = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    P = np.asarray(ms.Dynamics(ms.Weights(), normalise="hardmax").attention(0.0, x))[0]
    assert P.tolist() == [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    P = np.asarray(ms.Dynamics(ms.Weights(), beta=-1.0, normalise="hardmax").attention(0.0, x))[0]
    assert P.tolist() == [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]]


@pytest.mark.slow
@pytest.mark.parametrize("beta", [0.3, 5.0, -2.0])
def test_sinkhorn_is_doubly_stochastic(beta):
    P = np.asarray(ms.Dynamics(ms.Weights(), beta=beta, normalise="sinkhorn").attention(0.0, X))[0]
    assert np.abs(P.sum(axis=0) - 1).max() < 1e-10
    assert np.abs(P.sum(axis=1) - 1).max() < 1e-12
    log = np.log(P) - beta * X @ X.T  # the scaling is by rows and columns only
    assert np.abs(log - log[:1] - log[:, :1] + log[0, 0]).max() < 1e-8


def test_huge_scores_neither_overflow_nor_lose_the_row():
    P = np.asarray(ms.Dynamics(ms.Weights(), beta=1e8).attention(0.0, X))[0]
    assert np.isfinite(P).all()
    assert np.abs(P.sum(axis=1) - 1).max() < 1e-12


@pytest.mark.slow
def test_blocks_of_queries_change_nothing(monkeypatch):
    from metastable.equation import attention

    x = ms.initial.sphere(23, 3, seed=2, runs=2)
    for mask, name in (("causal", "softmax"), ("window(3)", "unnormalised"), ("full", "hardmax")):
        dyn = ms.Dynamics(ms.Weights(V=rng.standard_normal((2, 3, 3))), beta=3.0, mask=mask, normalise=name)
        whole = np.asarray(dyn.velocity(0.0, x))
        monkeypatch.setattr(attention, "_MOST_ENTRIES", 23 * 4 * 5)
        assert np.abs(np.asarray(dyn.velocity(0.0, x)) - whole).max() < 1e-14
        monkeypatch.undo()


def test_neighbours_of_attention():
    """Mean-shift, bounded confidence and Kuramoto come out of the same equation."""
    x = rng.standard_normal((6, 2))
    gap = x[None] - x[:, None]
    square = (gap**2).sum(axis=-1)
    shift = np.asarray(ms.Dynamics(ms.Weights(), beta=0.5, score="distance", geometry="euclidean").velocity(0.0, x))
    w = np.exp(-0.5 * square)
    assert np.abs(shift - np.einsum("ij,ijd->id", w / w.sum(axis=1, keepdims=True), gap)).max() < 1e-14
    near = np.asarray(ms.Dynamics(ms.Weights(), beta=0.5, score="bounded", geometry="euclidean").velocity(0.0, x))
    w = (square <= 2.0) * 1.0
    assert np.abs(near - np.einsum("ij,ijd->id", w / w.sum(axis=1, keepdims=True), gap)).max() < 1e-14
    own = ms.Dynamics(ms.Weights(), beta=0.5, score=scores.distance(lambda r: 1 / (1 + r)), geometry="euclidean")
    w = 1 / (1 + 0.5 * square)
    assert np.abs(own.velocity(0.0, x) - np.einsum("ij,ijd->id", w / w.sum(axis=1, keepdims=True), gap)).max() < 1e-14
    theta = np.array([0.1, 1.0, 2.5, 4.0])
    c = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    v = np.asarray(ms.Dynamics(ms.Weights(), beta=0.0, normalise="unnormalised").velocity(0.0, c))
    turning = -np.sin(theta) * v[:, 0] + np.cos(theta) * v[:, 1]
    assert np.abs(turning - np.sin(theta[None] - theta[:, None]).mean(axis=1)).max() < 1e-15


def test_positions():
    n, h = 7, 2
    table = rng.standard_normal((h, n, n))
    dyn = ms.Dynamics(ms.Weights(V=np.stack([np.eye(4)] * h)), position=positions.Bias(table))
    assert np.abs(dyn.attention(0.0, X) - softmax(X @ X.T + table)).max() < 1e-14
    dyn = ms.Dynamics(ms.Weights(), position=positions.alibi(), mask="causal")
    s = X @ X.T - 2.0**-8 * np.abs(np.arange(n)[:, None] - np.arange(n))
    assert np.abs(dyn.attention(0.0, X)[0] - softmax(np.where(np.tri(n, dtype=bool), s, -np.inf))).max() < 1e-14
    P = np.asarray(ms.Dynamics(ms.Weights(), position=positions.rotary(4)).attention(0.0, X))[0]
    turned = np.zeros_like(X)
    for i in range(n):
        for c, f in enumerate((1.0, 1e4**-0.5)):
            a, b, w = X[i, c], X[i, c + 2], i * f
            turned[i, c], turned[i, c + 2] = a * np.cos(w) - b * np.sin(w), b * np.cos(w) + a * np.sin(w)
    assert np.abs(P - softmax(turned @ turned.T)).max() < 1e-13


@pytest.mark.slow
def test_weights_may_depend_on_time():
    V = lambda t: np.array([[1.0, 0.0], [0.0, 1.0]]) * (1.0 + t)  # noqa: E731
    w = ms.Weights(Q=np.zeros((1, 2)), K=np.zeros((1, 2)), V=V)
    x0 = np.array([[1.0, 2.0], [3.0, 0.0]])
    run = ms.simulate(ms.Dynamics(w, geometry="euclidean"), x0, t=1.0, save=[1.0], method="tsit5", rtol=1e-10)
    mean = x0.mean(axis=0)
    assert np.abs(run.x[-1] - (x0 + mean * (np.exp(1.5) - 1))).max() < 1e-8


def test_a_block_takes_functions_of_tokens_and_of_time():
    import jax.numpy as jnp

    W = np.eye(4)
    mlp = blocks.MLP(lambda t: W * (1 + t), W, activation=jnp.tanh)
    block = ms.Block(mlp, attention_norm=lambda x: 2.0 * x, order="pre")
    dyn = ms.Dynamics(ms.Weights(), geometry="euclidean", block=block)
    a = 2.0 * X
    u = X + softmax(a @ a.T) @ a
    assert np.abs(dyn.layer(1.0, X, 1.0) - (u + np.tanh(2.0 * u))).max() < 1e-12


def test_functions_are_accepted_in_place_of_names():
    def look_back(i, j):
        return (j == i) | (j == i - 1)

    def linear(s, visible):
        return s if visible is None else s * visible

    dyn = ms.Dynamics(ms.Weights(), mask=look_back, normalise=linear, geometry="euclidean")
    expected = (X @ X.T * (np.eye(7) + np.eye(7, k=-1))) @ X
    assert np.abs(dyn.velocity(0.0, X) - expected).max() < 1e-14
    assert (dyn.mask.name, dyn.normalise.name) == ("look_back", "linear")


def test_ensembles_equal_single_runs():
    x = ms.initial.sphere(7, 4, seed=3, runs=3)
    beta = np.array([0.5, 2.0, 8.0])
    together = ms.simulate(ms.Dynamics(ms.Weights(), beta=beta, mask="causal"), x, t=2.0, save=3)
    for r in range(3):
        alone = ms.simulate(ms.Dynamics(ms.Weights(), beta=beta[r], mask="causal"), x[r], t=2.0, save=3)
        assert np.abs(together.x[:, r] - alone.x).max() < 1e-12


REFUSED = [
    (lambda: ms.Dynamics(ms.Weights(), normalise="sinkhorn", mask="causal"), "sinkhorn"),
    (lambda: ms.Dynamics(ms.Weights(V=np.ones((2, 3, 3))), geometry="rescaled"), "one head"),
    (lambda: ms.Dynamics(ms.Weights(V=lambda t: np.eye(2) * t), geometry="rescaled"), "depend on time"),
    (lambda: ms.Dynamics(ms.Weights(v_bias=[[1.0]]), geometry="rescaled"), "biases"),
    (lambda: ms.Dynamics(ms.Weights(), geometry="rescaled", score="distance"), "score"),
    (lambda: ms.Dynamics(ms.Weights(), geometry="rescaled", noise=0.1), "noise"),
    (lambda: ms.Dynamics(ms.Weights(), geometry="rescaled", position=positions.rotary(2)), "rotary"),
    (lambda: ms.Dynamics(ms.Weights(), geometry="rescaled", block=ms.Block()), "block"),
    (lambda: ms.Dynamics(ms.Weights(), block=ms.Block(attention_norm=blocks.LayerNorm())), "norms"),
    (lambda: ms.Dynamics(ms.Weights(), beta=float("nan")), "beta"),
    (lambda: ms.Dynamics(ms.Weights(), beta=float("inf")), "hardmax"),
    (lambda: ms.Dynamics(ms.Weights(), beta="hot"), "beta"),
    (lambda: ms.Dynamics(ms.Weights(), noise=-1.0), "noise"),
    (lambda: ms.Dynamics(ms.Weights(), normalise="softmaxx"), "did you mean 'softmax'"),
    (lambda: ms.Dynamics(ms.Weights(), geometry="spere"), "did you mean 'sphere'"),
    (lambda: ms.Dynamics(ms.Weights(), mask="casual"), "did you mean 'causal'"),
    (lambda: ms.Dynamics(ms.Weights(), score="dott"), "did you mean 'dot'"),
    (lambda: ms.Dynamics(np.eye(3)), "Weights"),
    (lambda: ms.Weights(Q=np.ones((2, 3))), "rows"),
    (lambda: ms.Weights(Q=np.ones((2, 3)), K=np.ones((2, 4))), "dimension"),
    (lambda: ms.Weights(V=np.ones((2, 3))), "square"),
    (lambda: ms.Weights(V=np.full((2, 2), np.nan)), "nan"),
    (lambda: ms.Weights(V=np.ones((0, 0))), "empty"),
    (lambda: ms.Weights(V="identity"), "real array"),
    (lambda: ms.Weights(Q=np.ones((2, 1, 3)), K=np.ones((3, 1, 3))), "heads"),
    (lambda: masks.window(-1), "window"),
    (lambda: masks.resolve("window(-3)"), "whole number of places >= 0, not '-3'"),
    (lambda: blocks.MLP(np.ones((2, 2)), np.ones((2, 2)), activation="rellu"), "did you mean 'relu'"),
    (lambda: ms.Block(order="middle"), "order"),
    (lambda: positions.rotary(3), "even"),
]


@pytest.mark.parametrize(("make", "word"), REFUSED, ids=[word for _, word in REFUSED])
def test_what_has_no_meaning_is_refused_in_one_sentence(make, word):
    with pytest.raises(ms.InputError) as refusal:
        make()
    text = str(refusal.value)
    assert word in text
    assert "\n" not in text
    assert text.endswith(".")


def test_weights_over_time_are_looked_up_once_each():
    """Shapes are known without looking a stack up: what is looked up in vain costs as long to compile."""
    layers = np.arange(18.0).reshape(2, 1, 3, 3)

    def velocity(layers, x):
        weights = ms.Weights(**{name: Stack(layers) for name in ("Q", "K", "V")})
        assert (weights.dimension, weights.query_width, weights.heads) == (3, 3, 1)
        return ms.Dynamics(weights).velocity(1.0, x)

    made = str(jax.make_jaxpr(velocity)(layers, ms.initial.sphere(4, 3)))
    assert made.count("name=_take") == 3
    assert made.count(" slice[") <= 8
