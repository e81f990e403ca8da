"""What is left of the network without a part, recomputed with the library's own modules changed by hand."""

import copy

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from metastable.models import ladder
from metastable.models.parts_alone import SIDES, conclusion, effects, verdicts
from metastable.models.token_distances import over_texts
from tests.models.conftest import IDS

TEXTS = [IDS, [2, 9, 30, 4, 44, 12, 6, 21, 7, 33]]
HEAD = 1


def cosines(x):
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return unit @ unit.T


def from_library(changed, real, texts=TEXTS):
    """Gram and Wasserstein distances (texts, layers + 1) of a changed module from the real one."""
    return np.moveaxis([[apart(*pair) for pair in zip(states(changed, t), states(real, t))] for t in texts], -1, 0)


def apart(x, y):
    """Both distances of tokens x from tokens y."""
    return apart_cosines(cosines(x), cosines(y))


def apart_cosines(G, H):
    i, j = np.triu_indices(len(H), 1)
    return np.linalg.norm(G - H) / np.linalg.norm(H), wasserstein_distance(G[i, j], H[i, j])


def states(module, ids):
    import torch

    with torch.no_grad():
        out = module(input_ids=torch.tensor([ids]), output_hidden_states=True)
    return [x[0].double().numpy() for x in out.hidden_states]


# --- where each family keeps what is removed ----------------------------------------------------------------------


def blocks(stack, name):
    """Of every layer: output maps of attention and MLP, query map, maps with biases, holders of norms."""
    found = []
    if name == "bert":
        for layer in stack.encoder.layer:
            att, out = layer.attention.self, layer.attention.output
            maps = [att.query, att.key, att.value, out.dense]
            norms = [(out, "LayerNorm"), (layer.output, "LayerNorm")]
            found.append((out.dense, layer.output.dense, att.query, maps, norms))
    elif name == "gpt2":
        for layer in stack.h:
            maps = [layer.attn.c_attn, layer.attn.c_proj]
            norms = [(layer, "ln_1"), (layer, "ln_2")]
            found.append((layer.attn.c_proj, layer.mlp.c_proj, layer.attn.c_attn, maps, norms))
    elif name == "t5":
        for layer in (block.layer for block in stack.block):
            att, mlp = layer[0].SelfAttention, layer[1].DenseReluDense
            found.append((att.o, mlp.wo, att.q, [], [(layer[0], "layer_norm"), (layer[1], "layer_norm")]))
    else:
        for layer in stack.layers:
            att = layer.self_attn
            norms = [(layer, "input_layernorm"), (layer, "post_attention_layernorm")]
            found.append((att.o_proj, layer.mlp.down_proj, att.q_proj, [], norms))
    return found


def silence(module):
    module.weight.data.zero_()
    if getattr(module, "bias", None) is not None:
        module.bias.data.zero_()


def without(stack, name, part):
    """A copy of the module without one part."""
    import torch

    stack = copy.deepcopy(stack)
    for out, mlp, query, maps, norms in blocks(stack, name):
        if part == "MLP":
            silence(mlp)
        elif part == "attention":
            silence(out)
        elif part == "softmax" and name == "gpt2":  # queries, keys and values side by side
            query.weight.data[:, : stack.config.n_embd] = 0.0
            query.bias.data[: stack.config.n_embd] = 0.0
        elif part == "softmax":
            silence(query)
        elif part == "heads":
            W = out.weight.data.T if name == "gpt2" else out.weight.data  # (d, h v)
            keep = torch.zeros(W.shape[1])
            width = W.shape[1] // stack.config.num_attention_heads
            keep[HEAD * width : (HEAD + 1) * width] = 1.0
            W *= keep
        elif part == "biases":
            for one in maps:
                one.bias.data.zero_()
        elif part == "norms":
            for owner, field in norms:
                setattr(owner, field, torch.nn.Identity())
        elif part == "residual":
            _no_residual(out, mlp, norms, name)
    if part in ("positions", "softmax"):
        _no_positions(stack, name, embedded=part == "positions")
    return stack


def _no_positions(stack, name, embedded):
    if name == "t5":
        stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight.data.zero_()
    elif name == "llama":
        stack.rotary_emb.inv_freq.zero_()
    elif embedded:
        table = stack.wpe if name == "gpt2" else stack.embeddings.position_embeddings
        table.weight.data.zero_()


def _no_residual(out, mlp, norms, name):
    """What a sublayer adds is made less the token it is added to."""
    for module, (owner, field) in zip((out, mlp), norms):
        seen = {}
        if name == "bert":  # BertSelfOutput and BertOutput are called with (what the sublayer gives, the token)
            owner.register_forward_pre_hook(lambda m, args, seen=seen: seen.update(x=args[1]))
        else:  # the token goes through the norm first
            getattr(owner, field).register_forward_pre_hook(lambda m, args, seen=seen: seen.update(x=args[0]))
        module.register_forward_hook(lambda m, args, y, seen=seen: y - seen["x"])


# --- tests --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def climbs(models):
    made = {}

    def get(name):
        if name not in made:
            made[name] = ladder(models[name], TEXTS, head=HEAD)
        return made[name]

    return get


NAMES = ["gpt2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("bert", "llama", "t5"))]


@pytest.mark.parametrize("name", NAMES)
def test_the_network_without_each_part(models, climbs, name):
    stack, parts = models[name].stack, climbs(name).parts
    biased = ["biases"] if name in ("gpt2", "bert") else []
    expected = ["attention", "softmax", "heads", *biased, "positions", "norms", "MLP", "residual"]
    assert parts.part.values.tolist() == expected
    for part in expected:
        gram, pair = from_library(without(stack, name, part), stack)
        here = parts.sel(side=SIDES[0], part=part)
        np.testing.assert_allclose(here["gram_distance"], gram, atol=2e-5, err_msg=part)
        np.testing.assert_allclose(here["wasserstein"], pair, atol=2e-5, err_msg=part)
        assert gram[:, 1:].min() > 1e-3, part
    assert (parts["diverges"] == -1).all()


@pytest.mark.slow
@pytest.mark.network
def test_six_layers_of_smollm2_without_each_part_and_its_baselines():
    """Real weights: what `metastable model smollm2` says, recomputed with the library's own modules changed by hand."""
    from metastable.errors import InputError
    from metastable.models import load

    try:
        model = load("smollm2", dtype="float64")
    except InputError as error:
        pytest.skip(str(error))
    stack = model.stack
    stack.layers, stack.config.num_hidden_layers = stack.layers[:6], 6
    text = "Tokens that agree move together, and heads look at one another's work, layer after layer, to the end."
    ids = model.tokenizer.encode(text)
    texts = [ids[:10], ids[8:18]]
    climb = ladder(model, texts, rungs=(0, 4), head=HEAD)
    assert float(climb.data["exact_error"].max()) < 1e-6  # the library takes the norms of a Llama in float32
    for part in ("attention", "softmax", "heads", "positions", "norms", "MLP", "residual"):
        gram, pair = from_library(without(stack, "llama", part), stack, texts)
        here = climb.parts.sel(side=SIDES[0], part=part)
        there = np.isfinite(gram)  # without norms scores leave float32, in which the library takes its softmax
        assert there[:, :5].all(), part
        assert part == "norms" or there.all(), part
        np.testing.assert_allclose(here["gram_distance"].values[there], gram[there], atol=1e-6, err_msg=part)
        np.testing.assert_allclose(here["wasserstein"].values[there], pair[there], atol=1e-6, err_msg=part)
    real = [states(stack, t) for t in texts]
    n = len(texts[0])
    frozen = np.array([[apart(x[0], y) for y in x] for x in real])
    point = np.array([[apart_cosines(np.ones((n, n)), cosines(y)) for y in x] for x in real])
    constant = [(1 - np.eye(n)) * c + np.eye(n) for c in np.linspace(-1, 1, 401)]
    each = [[[apart_cosines(G, cosines(y)) for y in x[1:]] for x in real] for G in constant]
    least = np.mean(each, axis=(1, 2)).min(axis=0)
    for k, name in enumerate(("gram_distance", "wasserstein")):
        found = climb.baselines[name]
        np.testing.assert_allclose(found.sel(baseline="frozen tokens"), frozen[..., k], atol=1e-8)
        np.testing.assert_allclose(found.sel(baseline="one point"), point[..., k], atol=1e-8)
        best = float(found.sel(baseline="best constant").isel(layer=slice(1, None)).mean())
        assert least[k] - 2e-3 < best <= least[k] + 1e-9


def test_the_bare_system_with_and_without_each_part(climbs):
    climb = climbs("gpt2")
    data, parts = climb.data, climb.parts
    bare, with_it = parts.sel(side=SIDES[1]), parts.sel(side=SIDES[2])
    for name in ("gram_distance", "wasserstein"):
        for part in ("heads", "biases", "norms", "MLP"):
            np.testing.assert_array_equal(bare[name].sel(part=part), data[name].sel(rung=0))
        for part in ("attention", "softmax", "residual", "positions"):
            np.testing.assert_array_equal(with_it[name].sel(part=part), data[name].sel(rung=0))
        np.testing.assert_array_equal(with_it[name].sel(part="heads"), data[name].sel(rung=1))
        frozen = climb.baselines[name].sel(baseline="frozen tokens")
        np.testing.assert_allclose(bare[name].sel(part="attention"), frozen, atol=1e-12)
        np.testing.assert_array_equal(parts[name].sel(side=SIDES[0], part="MLP"), data[name].sel(rung=3))


@pytest.mark.parametrize("name", ["gpt2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("bert", "gemma2"))])
def test_the_bare_system_with_its_mlp_adds_it_beside_attention(models, name):
    """y + attention(y) + MLP(r y)/r, both of the same particle, whatever the model's own order and norms of outputs."""
    import torch

    from metastable.models import load
    from metastable.models.moving_systems import Switches, System, climb
    from metastable.models.sphere_rungs import Length
    from tests.models import tiny_models

    model = load(tiny_models.build(name).double(), dtype="float64") if name == "gemma2" else models[name]
    start, r = np.random.default_rng(0).normal(size=(1, 6, 16)), 3.0
    one = Switches(np.eye(model.heads)[1], biases=0.0, positions=0.0)
    systems = {kind: System(kind, one, start) for kind in ("sphere", "sphere with MLP")}
    (before, _), after = (list(x.values()) for x in climb(model, systems, 1, [Length(r, 2.5)] * 2))
    y = np.asarray(before[0])
    x = torch.tensor(r * y)
    with torch.no_grad():
        if name == "gpt2":
            layer = model.stack.h[0]
            fed = layer.mlp(layer.ln_2(x))
        elif name == "bert":
            layer = model.stack.encoder.layer[0]
            fed = layer.output.dense(layer.intermediate(x))
        else:
            layer = model.stack.layers[0]
            fed = layer.post_feedforward_layernorm(layer.mlp(layer.pre_feedforward_layernorm(x)))
    pulled = attended(model, one, y, r)
    for got, moved in zip(after, (y + pulled, y + pulled + fed.numpy() / r)):
        np.testing.assert_allclose(got[0], moved / np.linalg.norm(moved, axis=1, keepdims=True), atol=1e-6)


def attended(model, switches, y, r):
    """What attention adds to particles y of length r in layer 0, by the maps of one head."""
    from metastable.models.moving_systems import _layer, layer_dynamics, switched
    from metastable.models.sphere_rungs import Length

    made = _layer(model, 0, len(y), Length(r, 2.5), {"float64"})["float64"]
    now = switched(layer_dynamics("sphere", made), switches)
    A, w = np.asarray(now.attention(0.0, y)), now.weights
    values = np.einsum("hvd,jd->hjv", w.V, y)
    out = np.einsum("hij,hjv,hdv->id", A, values, w.O)
    return out if now.block is None else np.asarray(now.block.attention_out(out))


def test_effects(climbs):
    parts = climbs("gpt2").parts
    found = effects(parts)
    assert found["gram_distance"].dims == ("way", "part", "text")
    later = parts["wasserstein"].isel(layer=slice(1, None)).mean("layer")
    without, bare, more = (later.sel(side=side) for side in SIDES)
    np.testing.assert_allclose(found["wasserstein"].sel(way="removed"), without)
    np.testing.assert_allclose(found["wasserstein"].sel(way="added"), bare - more)


def made_up(removed, added, diverges=()):
    """Parts whose effects are as given, the same in four texts but for a little noise, and in both distances."""
    import xarray

    names = list(removed)
    noise = 0.001 * np.array([-1.0, 1.0, -0.5, 0.5])[:, None]
    values = np.empty((3, len(names), 4, 3))
    values[0] = np.array(list(removed.values()))[:, None, None] + noise
    values[1] = 1.0 + noise
    values[2] = values[1] - np.array(list(added.values()))[:, None, None] - noise
    lost = np.full((3, len(names), 4), -1)
    for name in diverges:
        values[0, names.index(name), :, 2:] = np.nan
        lost[0, names.index(name)] = 2
    dims = ("side", "part", "text", "layer")
    coords = {"side": list(SIDES), "part": names}
    both = {key: (dims, values.copy()) for key in ("gram_distance", "wasserstein")}
    return xarray.Dataset({**both, "diverges": (dims[:-1], lost)}, coords)


def test_only_what_both_say_is_concluded():
    agreed = made_up({"MLP": 0.8, "heads": 0.3, "norms": 0.5}, {"MLP": 0.4, "heads": 0.1, "norms": -0.2})
    signs = verdicts(agreed)
    assert signs == {
        "MLP": {"removed": 1, "added": 1},
        "heads": {"removed": 1, "added": 1},
        "norms": {"removed": 1, "added": -1},
    }
    said = conclusion(agreed)
    assert said[0].startswith("The part that matters most, both ways and in both distances, is MLP: off by 0.80")
    assert "norms, off by 0.50 without it, 0.20 farther with it" in said[2]

    disagreed = conclusion(made_up({"MLP": 0.8, "heads": 0.3}, {"MLP": 0.1, "heads": 0.4}))
    assert "both distances: removing hurts most for MLP, adding helps most for heads" in disagreed[0]

    close = conclusion(made_up({"MLP": 0.8, "heads": 0.3}, {"MLP": 0.1, "heads": 0.1}))
    assert "removing hurts most for MLP, adding helps most for no one part" in close[0]

    nothing = conclusion(made_up({"MLP": 0.8, "biases": 0.001}, {"MLP": 0.0, "biases": 0.01}))
    assert nothing[1].startswith(
        "Nothing is concluded, for removing and adding do not both say so in both distances: MLP, off by 0.80"
    )
    assert nothing[2].startswith("No effect either way: biases, off by 0.00 without it, 0.01 nearer with it")


def test_an_effect_in_one_distance_is_not_called_none():
    """The page said "No effect either way: biases, off by 0.11 without it"; the Wasserstein distance had none."""
    given = made_up({"MLP": 0.8, "biases": 0.11}, {"MLP": 0.4, "biases": 0.07})
    small = made_up({"MLP": 0.8, "biases": 0.01}, {"MLP": 0.4, "biases": 0.001})
    given["wasserstein"] = small["wasserstein"]
    assert verdicts(given)["biases"] == {"removed": 0, "added": 0}
    said = conclusion(given)
    assert not any(sentence.startswith("No effect") for sentence in said)
    assert said[-1].endswith("both say so in both distances: biases, off by 0.11 without it, 0.07 nearer with it.")


def test_tokens_that_overflow():
    lost = made_up({"MLP": 0.8, "norms": 0.1}, {"MLP": 0.1, "norms": 0.4}, diverges=["norms"])
    assert np.isnan(over_texts(effects(lost)["gram_distance"])[0].sel(way="removed", part="norms"))
    assert verdicts(lost)["norms"] == {"removed": 1, "added": 1}
    assert "is norms: tokens overflow without it in state 2, 0.40 nearer with it" in conclusion(lost)[0]


def test_a_bare_system_that_overflows():
    """It is told, and never said to have no effect: with the part it is led away, without it the part is needed."""
    names = ("heads", "MLP", "norms", "softmax")
    given = made_up(dict.fromkeys(names, 0.001), dict.fromkeys(names, 0.001))
    for side, part in ((2, "MLP"), (1, "norms"), (1, "softmax"), (2, "softmax")):
        for key in ("gram_distance", "wasserstein"):
            given[key].values[side, names.index(part), :, 1:] = np.nan
        given["diverges"].values[side, names.index(part), 1:] = 1
    assert {part: sign["added"] for part, sign in verdicts(given).items()} == {
        "heads": 0, "MLP": -1, "norms": 1, "softmax": 0
    }  # fmt: skip
    first, *rest = conclusion(given)
    assert "adding helps most for norms" in first
    said = dict(sentence.split(": ", 1) for sentence in rest)
    assert said["No effect either way"].startswith("heads")
    assert "MLP" not in said["No effect either way"]
    assert "softmax" not in said["No effect either way"]
    unclear = said["Nothing is concluded, for removing and adding do not both say so in both distances"]
    assert "MLP, off by 0.00 without it, and the bare system's tokens overflow with it in state 1" in unclear
    assert "tokens overflow without it in state 1 and overflow with it in state 1" in unclear
