"""Spectra through small cores equal those of the full matrices."""

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import spectra
from metastable.models.spectra import from_spec, value_matrix
from metastable.theory.hypotheses import good_triple


def nonzero(values, count):
    """The ``count`` largest in modulus, in a canonical order."""
    values = np.asarray(values, dtype=complex)
    values = values[np.argsort(-np.abs(values))][:count]
    return values[np.lexsort((values.imag.round(8), values.real.round(8)))]


def moving(block, h):
    """Q, K and O V of a head with the norm in front of attention written out as a matrix."""
    d = block.Q.shape[-1]
    F = np.eye(d)
    if block.order == "pre":
        F = np.diag(block.attention_norm.gain)
        F = F @ (np.eye(d) - 1.0 / d) if block.attention_norm.kind == "layer" else F
    return block.Q[h] @ F, block.K[h] @ F, block.O[h] @ block.V[h] @ F


@pytest.mark.parametrize("name", ["albert", "gpt2", "t5", "llama"])
def test_cores(models, name):
    model = models[name]
    found = spectra(model)
    data = found.data
    assert data.sizes["layer"] == (1 if name == "albert" else 3)
    layer = 0 if name == "albert" else 1
    block = model.block(layer)
    for h in range(block.heads):
        here = data.sel(layer=layer).isel(head=h)
        Q, K, OV = moving(block, h)
        rank = block.V.shape[1]
        np.testing.assert_allclose(nonzero(here["ov"], rank), nonzero(np.linalg.eigvals(OV), rank), atol=1e-9)
        form = Q.T @ K * block.scale
        form = (form + form.T) / 2
        size = here["qk"].size
        np.testing.assert_allclose(nonzero(here["qk"], size), nonzero(np.linalg.eigvalsh(form), size), atol=1e-9)
        np.testing.assert_allclose(here["beta"], np.sqrt(16) * np.linalg.norm(form), rtol=1e-9)
        values, vectors = np.linalg.eig(OV)
        lead = np.argmax(np.abs(values))
        if values[lead].imag == 0:
            phi = vectors[:, lead].real
            np.testing.assert_allclose(here["along"], (Q @ phi) @ (K @ phi), rtol=1e-6)
        full = good_triple(Q, K, OV).holds
        assert {True: 1, False: 0, None: -1}[full] == int(here["good"])
    assert found.good_heads == [(l, h) for (l, h), f in found.triples.items() if f.holds]


def test_value_block(models):
    model = models["bert"]
    W = model.stack.encoder.layer[2].attention.self.value.weight.detach().numpy()
    expected = np.linalg.eigvals(W[4:8, 4:8])
    found = spectra(model, layers=[2]).data["value_block"].sel(layer=2).isel(head=1)
    np.testing.assert_allclose(nonzero(found, 4), nonzero(expected, 4), atol=1e-12)


def test_tokens_behind_an_eigenvector(models):
    """A head whose O V stretches one token's embedding promotes that token."""
    from dataclasses import replace

    from metastable.models.families import FAMILIES

    model = models["bert"]
    E = model.parts.embedded()
    block = model.block(0)
    V, O = 0.01 * block.V, 0.01 * block.O
    V[2, 0], O[2, :, 0] = E[31] / np.linalg.norm(E[31]), E[31] / np.linalg.norm(E[31])
    made = replace(block, V=V, O=O)
    fake = replace(model, family=FAMILIES["bert"]._replace(block=lambda tensors, config, l: made))
    top = next(p for p in spectra(fake, layers=[0], top=1).promotions if p.head == 2)
    assert abs(top.eigenvalue - 1.0) < 0.05
    scores = E @ E[31]
    assert top.toward[0] == f"<{int(np.argmax(np.abs(scores)))}>"
    assert len(top.away) == 6


def test_beta_of_known_scores(models):
    """Standard tokens and Q^T K = I: beta is what multiplies the scores of unit tokens."""
    from dataclasses import replace

    from metastable.models.families import FAMILIES

    model = models["gpt2"]
    block = model.block(0)
    eye = np.broadcast_to(np.eye(16), (4, 16, 16)).copy()
    norm = replace(block.attention_norm, gain=np.full(16, 2.0), bias=np.zeros(16))
    made = replace(block, Q=eye, K=eye, q_bias=None, k_bias=None, scale=0.25, attention_norm=norm)
    fake = replace(model, family=FAMILIES["gpt2"]._replace(block=lambda tensors, config, l: made))
    data = spectra(fake, layers=[0], top=0).data
    # |x|^2 = 16, the norm's gain doubles queries and keys, and its centring leaves 15 of 16 directions
    np.testing.assert_allclose(data["beta"], 0.25 * 4 * np.sqrt(16 * 15))
    np.testing.assert_allclose(data["beta_model"], data["beta"])


def test_value_matrix(models, folders):
    model = models["llama"]
    OV = moving(model.block(2), 3)[2]
    np.testing.assert_allclose(value_matrix(model, head=3, layer=2), OV, rtol=1e-12)
    for top in (1, 2, 3, 4):
        try:
            small = value_matrix(model, head=3, layer=2, top=top)
        except InputError:
            continue
        full = np.linalg.eigvals(OV)
        for value in np.linalg.eigvals(small):
            assert np.abs(full - value).min() < 1e-9
    spec = f"model:{folders['llama']}/layer=2/head=3"
    np.testing.assert_allclose(from_spec(spec), OV, atol=1e-6)


def test_specs_that_make_no_sense(models):
    with pytest.raises(InputError, match="names no head"):
        from_spec("model:reactions-albert")
    with pytest.raises(InputError, match="heads=4; write model:NAME"):
        from_spec("model:reactions-albert/heads=4")
    with pytest.raises(InputError, match="has heads 0 to 3, not 9"):
        value_matrix(models["bert"], head=9)
    with pytest.raises(InputError, match="layers 0 to 2, not 3"):
        value_matrix(models["bert"], head=0, layer=3)
    with pytest.raises(InputError, match="top must lie between 1"):
        value_matrix(models["bert"], head=0, top=5)


@pytest.mark.slow
def test_real_albert(reactions):
    found = spectra(reactions)
    assert found.good_heads == []  # as expected of this model
    assert from_spec("model:reactions-albert/head=4/top=3").shape == (3, 3)
    assert (found.data["beta"] > 5).all()


def stored(name, whole):
    """Of every layer, from the library's own modules: Q, K (h, k, d), V (h, v, d), O (h, d, v), the gain in front."""
    if name == "title-t5":
        blocks = [block.layer[0] for block in whole.block]
        found = [(b.SelfAttention.q, b.SelfAttention.k, b.SelfAttention.v, b.SelfAttention.o) for b in blocks]
        gains, heads = [b.layer_norm.weight for b in blocks], whole.config.num_heads
    else:
        found = [(b.q_proj, b.k_proj, b.v_proj, b.o_proj) for b in (layer.self_attn for layer in whole.layers)]
        gains, heads = [layer.input_layernorm.weight for layer in whole.layers], whole.config.num_attention_heads
    for maps, gain in zip(found, gains):
        Q, K, V, O = (m.weight.detach().double().numpy() for m in maps)
        Q, K, V = (m.reshape(-1, Q.shape[0] // heads, Q.shape[1]) for m in (Q, K, V))
        K, V = (np.repeat(m, heads // len(m), axis=0) for m in (K, V))
        yield Q, K, V, O.reshape(len(O), heads, -1).transpose(1, 0, 2), gain.detach().double().numpy()


def is_good(Q, K, V, O):
    """Definition 1 of O V, as one writes it down: lambda_1 > 0 real and alone at the top, <Q phi_1, K phi_1> > 0."""
    values, w = np.linalg.eig(V @ O)  # the eigenvalues of O V that are not 0
    order = np.argsort(-np.abs(values))
    top, next_one = values[order[0]], values[order[1]]
    phi = (O @ w[:, order[0]]).real
    return bool(top.imag == 0.0 and top.real > abs(next_one) and (Q @ phi) @ (K @ phi) > 0)


def _modulus(V, O):
    """The largest modulus of an eigenvalue of O V."""
    return np.abs(np.linalg.eigvals(V @ O)).max()


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize(
    ("name", "good", "changed", "least", "most", "moduli"),
    [("title-t5", 7, 5, 0.99, 1.11, (0.072, 0.194)), ("smollm2", 53, 28, 0.33, 1.70, (0.054, 0.541))],
)
def test_good_triples_moduli_and_beta_with_folded_gains(name, good, changed, least, most, moduli):
    """Recounted from the library's own weights, with the gains folded in and without; the beta of the stored Q and K,
    for tokens as long as the norm with its gain makes them, is .33 to 1.70 times the folded one."""
    found = spectra(name, top=0)
    layers = list(stored(name, found.model.whole))
    folded = [is_good(q * g, k * g, v * g, o) for Q, K, V, O, g in layers for q, k, v, o in zip(Q, K, V, O)]
    plain = [is_good(q, k, v, o) for Q, K, V, O, _ in layers for q, k, v, o in zip(Q, K, V, O)]
    heads = len(layers[0][0])
    assert found.good_heads == [divmod(i, heads) for i in np.flatnonzero(folded)]
    assert len(found.good_heads) == good
    assert sum(a != b for a, b in zip(folded, plain)) == changed
    leading = [[_modulus(v * g, o), _modulus(v, o)] for Q, K, V, O, g in layers for v, o in zip(V, O)]
    np.testing.assert_allclose(np.abs(found.data["ov"]).max(axis=-1).values.ravel(), np.array(leading)[:, 0], rtol=1e-6)
    times = [folded / plain for folded, plain in leading]
    np.testing.assert_allclose([min(times), max(times)], moduli, atol=0.0005)
    ratios = []
    for layer, betas in zip(found.data.layer.values, found.data["beta_model"].values):
        block = found.model.block(layer)
        length = (block.attention_norm.gain**2).mean()
        for Q, K, beta in zip(block.Q, block.K, betas):
            form = block.scale * (Q.T @ K + K.T @ Q) / 2.0
            ratios.append(np.sqrt(Q.shape[1]) * np.linalg.norm(form) * length / beta)
    np.testing.assert_allclose([min(ratios), max(ratios)], [least, most], atol=0.005)
