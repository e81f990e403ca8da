"""Each family's weights, put through a transformer layer written here in plain NumPy, give the library's states."""

import numpy as np
import pytest
from scipy.special import erf

from metastable.models import load
from tests.models.conftest import IDS, SMALL, plain

ACT = {
    "gelu": lambda a: a * (1 + erf(a / np.sqrt(2))) / 2,
    "gelu_tanh": lambda a: a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3))) / 2,
    "relu": lambda a: np.maximum(a, 0),
    "silu": lambda a: a / (1 + np.exp(-a)),
}


def norm(part, x):
    x = x - x.mean(-1, keepdims=True) if part.kind == "layer" else x
    y = part.gain * x / np.sqrt((x**2).mean(-1, keepdims=True) + part.eps)
    return y if part.bias is None else y + part.bias


def attend(block, x, positions, mask):
    n = len(x)
    zero = np.zeros(1)
    q, k, v = (
        np.einsum("hkd,nd->hnk", W, x) + (zero if b is None else b[:, None, :])
        for W, b in ((block.Q, block.q_bias), (block.K, block.k_bias), (block.V, block.v_bias))
    )
    offset = np.arange(n)[None, :] - np.arange(n)[:, None]
    bias = 0.0
    if positions.kind == "rotary":
        turn = np.exp(1j * np.arange(n)[:, None] * positions.table)
        half = q.shape[-1] // 2
        q, k = ((z[..., :half] + 1j * z[..., half:]) * turn for z in (q, k))
        scores = np.einsum("hnk,hmk->hnm", q, k.conj()).real
    else:
        bias = positions.table[:, n - 1 + offset] if positions.kind == "relative" else 0.0
        scores = np.einsum("hnk,hmk->hnm", q, k)
    scores = block.scale * scores + bias
    if mask != "full":
        width = int(mask[7:].split(",")[0]) if mask.startswith("window") else n
        scores = np.where((offset <= 0) & (offset >= -width), scores, -np.inf)
    A = np.exp(scores - scores.max(-1, keepdims=True))
    A /= A.sum(-1, keepdims=True)
    out = np.einsum("hdv,hnm,hmv->nd", block.O, A, v)
    return (out if block.o_bias is None else out + block.o_bias), A


def feed(mlp, x):
    inner = x @ mlp.W_in.T + (0 if mlp.b_in is None else mlp.b_in)
    act = ACT[mlp.activation]
    inner = act(inner) if mlp.gate is None else act(x @ mlp.gate.T) * inner
    return inner @ mlp.W_out.T + (0 if mlp.b_out is None else mlp.b_out)


def layer(block, x, positions, mask):
    if block.order == "post":
        a, A = attend(block, x, positions, mask)
        u = norm(block.attention_norm, x + a)
        return norm(block.mlp_norm, u + feed(block.mlp, u)), A
    a, A = attend(block, norm(block.attention_norm, x), positions, mask)
    u = x + a
    return u + feed(block.mlp, norm(block.mlp_norm, u)), A


@pytest.mark.parametrize("name", SMALL)
def test_layers_from_plain_arrays(models, name):
    model = models[name]
    states, maps = plain(model, IDS)
    # the library computes some norms and rotary tables in float32, whatever the weights are
    tolerance = 1e-5 if model.family.name in ("llama", "t5") else 1e-12
    for l in range(2):  # the last state may come after a final norm
        block = model.block(l)
        x, A = layer(block, states[l], model.parts.position(l, len(IDS)), model.mask(l))
        np.testing.assert_allclose(A, maps[l], atol=tolerance)
        assert np.linalg.norm(x - states[l + 1]) < tolerance * np.linalg.norm(states[l + 1])
    assert block.heads == maps[0].shape[0]
    assert block.groups == (2 if model.family.name == "llama" else block.heads)


def test_relu_t5_and_decoder_positions(folders):
    model = load(folders["t5"], dtype="float64", part="decoder")
    table = model.parts.position(0, 6).table
    bias = model.stack.block[0].layer[0].SelfAttention.compute_bias(6, 6)[0].detach().numpy()
    for i in range(6):
        for j in range(6):
            np.testing.assert_array_equal(table[:, 5 + j - i], bias[:, i, j])


def test_embedding_is_in_the_models_space(models):
    for model in models.values():
        assert model.parts.embedded().shape == (50, 16)
