"""Which tokens a layer of a TransformerLens model sees, whatever its configuration says."""

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import from_arrays, load, probe
from metastable.models.lens_weights import _no_words
from tests.models import tiny_models
from tests.models.conftest import IDS
from tests.models.test_lens import Standing, causal, needs_lens


class Windowed(Standing):
    """A small model with windows in some layers; the configuration of TransformerLens calls every layer causal."""

    def __init__(self, name):
        super().__init__(tiny_models.build(name).eval())
        self.module.set_attn_implementation("eager")
        self.original_model = self.module


@pytest.mark.parametrize(
    ("name", "masks"),
    [
        ("gpt_neo", ["causal", "window(3, causal)", "window(3, causal)"]),
        ("gemma2", ["window(3, causal)", "causal", "window(3, causal)"]),
        ("mistral", ["window(3, causal)"] * 3),
        ("bert", ["full"] * 3),
    ],
)
def test_masks_are_those_of_the_model(name, masks):
    lens = Windowed(name)
    model = load(lens)
    assert [model.mask(layer) for layer in range(3)] == masks == [load(lens.module).mask(layer) for layer in range(3)]
    assert model.causal == (name != "bert")


def test_heads_are_compared_over_what_they_can_see():
    """Correlations, null and received attention of a model with windows are those of the plain model."""
    lens = Windowed("gpt_neo")
    found, expected = (probe(model, [IDS, IDS[::-1]], measure="heads").heads for model in (lens, lens.module))
    for key in ("correlation", "null_correlation", "received"):
        np.testing.assert_allclose(found[key], expected[key], atol=1e-6, err_msg=key)


def test_a_wide_window_is_the_configuration_s():
    lens = Windowed("gemma2")
    lens.module.config.sliding_window = 600
    assert [load(lens).mask(layer) for layer in range(3)][:2] == ["window(599, causal)", "causal"]


def test_halves_and_pictures_are_refused():
    lens = Windowed("bert")
    lens.encoder_blocks = lens.decoder_blocks = []
    with pytest.raises(InputError, match="give the transformers model itself, with part='encoder'"):
        probe(lens, [IDS])
    picture = Windowed("bert")
    picture.module.main_input_name = "pixel_values"
    with pytest.raises(InputError, match="those that read text are measured"):
        probe(picture, [IDS])
    cache = {f"encoder_blocks.{l}.hook_resid_post": np.zeros((1, 4, 8)) for l in range(2)}
    with pytest.raises(InputError, match="give the transformers model itself, with part='encoder'"):
        probe(cache)
    assert from_arrays(np.random.default_rng(0).normal(size=(2, 4, 8))).layers == 1


def bridged(module, folder):
    """TransformerLens's own view of a copy of a module."""
    import copy

    from transformer_lens.model_bridge import TransformerBridge

    module.config.architectures = [type(module).__name__]
    module.config.save_pretrained(folder)
    words = _no_words(str(folder))
    return TransformerBridge.boot_transformers(str(folder), hf_model=copy.deepcopy(module), tokenizer=words)


@needs_lens
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["gpt_neo", "gemma2", "gemma3_text, both ways", "mistral", "cohere2", "qwen3", "olmo3"]
)
def test_a_real_bridge_agrees_with_the_plain_model(name, tmp_path):
    """States but the last, maps, and the mask of every layer: some have windows, and all bridges call them causal."""
    kind, sizes = tiny_models.ROWS[name]
    module = causal(kind, **sizes)
    lens, plain = load(bridged(module, tmp_path)), load(module)
    assert lens.lens.cfg.attention_dir == "causal"
    assert [lens.mask(layer) for layer in range(3)] == [plain.mask(layer) for layer in range(3)]
    found, expected = (probe(model, [IDS, IDS[::-1]]) for model in (lens, plain))
    np.testing.assert_allclose(found.x[:-1], expected.x[:-1], rtol=1e-5, atol=1e-5)
    for key in ("correlation", "null_correlation", "received"):
        np.testing.assert_allclose(found.heads[key], expected.heads[key], atol=1e-5, err_msg=key)


@needs_lens
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "sentence"), [("t5", "with part='encoder'"), ("vit", "those that read text")])
def test_real_bridges_that_are_refused(kind, sentence, tmp_path):
    import transformers as tf

    sizes = tiny_models.ROWS[kind][1]
    config = tf.AutoConfig.for_model(kind, **sizes)
    make = {"t5": tf.T5ForConditionalGeneration, "vit": tf.ViTForImageClassification}[kind]
    lens = bridged(make(config).eval(), tmp_path)
    with pytest.raises(InputError, match=sentence):
        load(lens)
