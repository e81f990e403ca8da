"""TransformerLens: its models and caches as they are, and its maps where the model confirms them."""

from importlib.util import find_spec

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import ladder, load, probe, spectra
from metastable.models.families import FAMILIES
from metastable.models.generic_model import GenericModel
from metastable.models.lens_checks import check_maps, score_scale
from metastable.models.lens_model import LensModel
from tests.models.conftest import IDS, VOCABULARY, build

WIDE = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4}
WIDE |= {"intermediate_size": 24, "max_position_embeddings": 64}
GPT = {"vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 3, "n_head": 4, "n_positions": 64}
needs_lens = pytest.mark.skipif(find_spec("transformer_lens") is None, reason="needs the extra 'lens'")


class Standing:
    """What a HookedTransformer shows, without TransformerLens: a config, parameters, and hooks by name."""

    class cfg:
        n_layers, n_heads, d_model, n_ctx, d_vocab = 3, 4, 16, 64, VOCABULARY
        model_name, attention_dir = "standing", "causal"

    def __init__(self, module):
        self.module = module
        self.tokenizer = None

    def parameters(self):
        return self.module.parameters()

    def named_parameters(self):
        return self.module.named_parameters()

    def named_modules(self, remove_duplicate=True):
        return self.module.named_modules(remove_duplicate=remove_duplicate)

    def activations(self, ids):
        """Names and values in the order in which they are made."""
        out = self.module(ids, output_hidden_states=True, output_attentions=True)
        yield "blocks.0.hook_resid_pre", out.hidden_states[0]
        for l in range(3):
            yield f"blocks.{l}.attn.hook_pattern", out.attentions[l]
            yield f"blocks.{l}.hook_resid_post", out.hidden_states[l + 1]

    def run_with_hooks(self, ids, fwd_hooks):
        hooks = dict(fwd_hooks)
        for name, value in self.activations(ids):
            if name in hooks:
                hooks[name](value, hook=None)


@pytest.fixture
def standing():
    module = build("gpt2")
    module.set_attn_implementation("eager")
    return Standing(module.eval())


def test_a_model_with_its_hooks(standing):
    found, expected = probe(standing, [IDS, IDS[:4]]), probe(standing.module, [IDS, IDS[:4]])
    assert isinstance(found.model, LensModel)
    for name in ("similarity", "heads", "sinks"):
        for key in getattr(expected, name).data_vars:
            np.testing.assert_allclose(getattr(found, name)[key], getattr(expected, name)[key], atol=1e-6)
    assert found.model.causal
    assert (found.model.depth, found.model.vocabulary, found.model.longest) == (3, VOCABULARY, 64)
    with pytest.raises(InputError, match="holds no transformers model"):
        spectra(standing)
    with pytest.raises(InputError, match="between 0 and 49, but 99"):
        probe(standing, [[99]])


@pytest.mark.parametrize("batch", [1, 2])
def test_a_cache(standing, batch):
    import torch

    texts = [IDS, IDS[::-1]][:batch]
    with torch.no_grad():
        cache = dict(standing.activations(torch.tensor(texts)))
    found, expected = probe(cache, tokenizer=texts), probe(standing.module, texts)
    for key in expected.similarity.data_vars:
        np.testing.assert_allclose(found.similarity[key], expected.similarity[key], atol=1e-6, err_msg=key)
    np.testing.assert_allclose(found.heads["correlation"], expected.heads["correlation"], atol=1e-6)
    assert found.texts == batch
    np.testing.assert_allclose(found.x, expected.x, atol=1e-6)
    bare = {name: value for name, value in cache.items() if "pattern" not in name}
    assert probe(bare).heads is None
    del cache["blocks.0.hook_resid_pre"]
    with pytest.raises(InputError, match="holds no 'blocks.0.hook_resid_pre'"):
        probe(cache)


def test_maps_are_checked_against_what_a_layer_computes():
    """Each map is refused when another head's stands in its place."""
    rng = np.random.default_rng(0)
    n, d, h, k = 8, 6, 3, 2
    maps = {name: rng.standard_normal((h, k, d)) for name in "QKV"} | {"O": rng.standard_normal((h, d, k))}
    maps |= {name: rng.standard_normal((h, k)) for name in ("q_bias", "k_bias", "v_bias")}
    maps["o_bias"] = rng.standard_normal(d)
    bias, reads, written = rng.standard_normal((n, n)), [], []
    for _ in range(2):
        y = rng.standard_normal((n, d))
        q, key, v = (y @ maps[m].swapaxes(1, 2) + maps[f"{m.lower()}_bias"][:, None] for m in "QKV")
        A = np.exp(0.3 * q @ key.swapaxes(1, 2) + bias)
        A /= A.sum(-1, keepdims=True)
        z = (A @ v).transpose(1, 0, 2)
        reads.append(y)
        written.append((A, z.reshape(n, -1), np.einsum("ihv,hdv->id", z, maps["O"]) + maps["o_bias"]))
    assert check_maps(maps, reads[0], *written[0])
    np.testing.assert_allclose(score_scale(maps, reads, [one[0] for one in written]), 0.3)
    for name in ("V", "O", "v_bias", "o_bias"):
        other = maps | {name: np.roll(maps[name], 1, axis=0)}
        assert not check_maps(other, reads[0], *written[0]), name
    for name in ("Q", "K", "q_bias"):  # a key bias is the same for all keys of a query
        other = maps | {name: np.roll(maps[name], 1, axis=0)}
        assert score_scale(other, reads, [one[0] for one in written]) is None, name


def causal(kind, **sizes):
    import torch
    import transformers as tf

    torch.manual_seed(4)
    model = tf.AutoModelForCausalLM.from_config(tf.AutoConfig.for_model(kind, **sizes), attn_implementation="eager")
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model.eval()


@needs_lens
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "gpt_neox", "falcon", "bloom", "stablelm"])
def test_its_maps_are_those_of_the_family_file(kind):
    """Where both are there they are the same numbers; the family file is what is used."""
    sizes = {"gpt2": GPT, "bloom": {"vocab_size": VOCABULARY, "hidden_size": 16, "n_layer": 3, "n_head": 4}}
    base = causal(kind, **sizes.get(kind, WIDE | {"num_key_value_heads": 4, "partial_rotary_factor": 0.5})).base_model
    known, asked = load(base), GenericModel(kind, base, base, None)
    before = known.digest
    for l in range(3):
        mine, theirs = known.block(l), asked.block(l)
        for name in ("Q", "K", "V", "O", "q_bias", "k_bias", "v_bias", "o_bias"):
            a, b = getattr(mine, name), getattr(theirs, name)
            if a is None or b is None:
                assert a is None or not a.any()
                assert b is None or not b.any()
            else:
                np.testing.assert_array_equal(a, b, err_msg=name)
        np.testing.assert_allclose(theirs.scale, mine.scale, rtol=1e-4)
        np.testing.assert_array_equal(theirs.attention_norm.gain, mine.attention_norm.gain)
    assert load(base).digest == before
    assert "no ladder" in asked.why_no_ladder
    assert asked.why_no_parts == ""


@needs_lens
@pytest.mark.slow
def test_spectra_of_a_model_without_a_family_file():
    sizes = GPT | {"rotary_dim": 4}
    module = causal("codegen", **sizes)
    assert "codegen" not in FAMILIES
    found = spectra(module)
    assert found.data.sizes["layer"] == 3
    assert len(found.promotions) > 0
    with pytest.raises(InputError, match="gives attention alone, so there is no ladder"):
        ladder(module, IDS)


@needs_lens
@pytest.mark.slow
def test_what_does_not_agree_is_kept_out():
    """A norm of queries is not in W_Q and W_K, so their scores are not the model's."""
    module = causal("exaone4", **WIDE, num_key_value_heads=2, head_dim=4)
    model = load(module)
    assert model.parts is None
    assert "do not give the scores of layer 0" in model.why_no_parts
    assert probe(model, [IDS]).heads is not None


@needs_lens
@pytest.mark.slow
def test_a_bridge_as_it_is(tmp_path):
    import copy

    import torch
    from transformer_lens.model_bridge import TransformerBridge

    module = causal("gpt2", **GPT)
    module.config.architectures = ["GPT2LMHeadModel"]
    module.config.save_pretrained(tmp_path)
    bridge = TransformerBridge.boot_transformers(str(tmp_path), hf_model=copy.deepcopy(module))
    found, expected = probe(bridge, [IDS]), probe(module, [IDS])
    np.testing.assert_allclose(found.x[:-1], expected.x[:-1], atol=1e-5)  # its last state is not normed
    np.testing.assert_allclose(found.heads["received"], expected.heads["received"], atol=1e-6)
    with torch.no_grad():
        _, cache = bridge.run_with_cache(torch.tensor([IDS]))
    np.testing.assert_array_equal(probe(cache).x, found.x)
    np.testing.assert_array_equal(spectra(bridge).data["ov"], spectra(module).data["ov"])
    bridge.enable_compatibility_mode()
    assert probe(bridge, [IDS]).similarity is not None
    with pytest.raises(InputError, match="were processed"):
        spectra(bridge)
