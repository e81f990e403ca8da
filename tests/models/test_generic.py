"""Models without a family file, and models that are already in memory: the library's own states and maps."""

import numpy as np
import pytest

from metastable.errors import InputError
from metastable.models import ladder, load, probe, spectra
from metastable.models.generic_model import GenericModel
from metastable.models.torch_model import TorchModel
from tests.models.conftest import IDS, VOCABULARY, build, plain
from tests.models.test_watch import seen

WIDE = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 24}


def unknown_kinds():
    """Small models that have no family file: an encoder, a causal one with windows, an encoder-decoder."""
    import torch
    import transformers as tf

    torch.manual_seed(3)
    sizes = {"vocab_size": VOCABULARY, "max_position_embeddings": 64}
    bart = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4}
    bart |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}
    return {
        "mobilebert": tf.MobileBertModel(
            tf.MobileBertConfig(**sizes, **WIDE, intra_bottleneck_size=16, embedding_size=16)
        ),
        "ministral": tf.MinistralModel(
            tf.MinistralConfig(
                **sizes, **WIDE, num_key_value_heads=2, head_dim=4, sliding_window=4,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            )
        ),
        "blenderbot": tf.BlenderbotModel(tf.BlenderbotConfig(**sizes, **bart)),
    }  # fmt: skip


@pytest.fixture(scope="module")
def unknown(tmp_path_factory):
    home = tmp_path_factory.mktemp("unknown")
    for name, model in unknown_kinds().items():
        model.save_pretrained(home / name)
    return home


@pytest.mark.parametrize("name", ["mobilebert", "ministral", "blenderbot"])
def test_states_and_maps_are_the_librarys(unknown, name):
    model = load(unknown / name, dtype="float64")
    assert isinstance(model, GenericModel)
    for mine, theirs in zip(seen(model, IDS, model.depth), plain(model, IDS)):
        for x, y in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(x, y)
    assert model.causal == (name == "ministral")
    assert model.longest == 64
    found = probe(model, [IDS, IDS[:4]])
    assert found.similarity.sizes["layer"] == model.depth + 1
    assert found.heads["correlation"].shape == (model.depth, 4, 4)
    assert found.sinks["mass"].sizes["head"] == 4
    assert found.notes == ()


def test_windows_are_those_of_the_configuration(unknown):
    model = load(unknown / "ministral")
    assert [model.mask(layer) for layer in range(3)] == ["window(3, causal)", "causal", "window(3, causal)"]


def test_weights_without_a_meaning(unknown):
    model = load(unknown / "mobilebert")
    assert model.parts is None
    for refused in (lambda: spectra(model), lambda: ladder(model, IDS), lambda: model.block(0)):
        with pytest.raises(
            InputError, match="Which weights of a 'mobilebert' model are Q, K, V and O is not known"
        ) as e:
            refused()
        assert "did you mean" not in str(e.value)


def test_a_decoder_of_any_kind(unknown):
    import torch

    model = load(unknown / "blenderbot", dtype="float64", part="decoder")
    states, maps = seen(model, IDS, 2)
    with torch.no_grad():
        out = model.whole(
            input_ids=torch.tensor([IDS]),
            decoder_input_ids=torch.tensor([model.seen(IDS)]),
            output_hidden_states=True,
            output_attentions=True,
        )
    np.testing.assert_array_equal(states, [x[0].numpy() for x in out.decoder_hidden_states])
    np.testing.assert_array_equal(maps, [A[0].numpy() for A in out.decoder_attentions])
    assert model.causal


def test_a_model_in_memory_is_left_as_it_was():
    """Fused attention and training mode are put aside while it is measured, and nothing else is touched."""
    import torch
    import transformers as tf

    torch.manual_seed(0)
    live = tf.BertForMaskedLM(tf.BertConfig(vocab_size=VOCABULARY, max_position_embeddings=64, **WIDE))
    live.set_attn_implementation("sdpa")
    live.train()
    live.bert.encoder.layer[1].eval()
    kinds = [module.training for module in live.modules()]
    found = probe(live, [IDS])
    assert isinstance(found.model, TorchModel)
    assert live.config._attn_implementation == "sdpa"
    assert [module.training for module in live.modules()] == kinds
    assert all(p.requires_grad and p.grad is None for p in live.parameters())
    live.set_attn_implementation("eager")
    with torch.no_grad():
        states = live.eval()(torch.tensor([IDS]), output_hidden_states=True).hidden_states
    np.testing.assert_array_equal(found.x, [x[0].numpy() for x in states])
    assert spectra(live).data.sizes["layer"] == 3


def test_a_model_in_memory_with_its_tokenizer(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: i for i, word in enumerate(["[UNK]", "the", "cat", "sat", "."])}
    backend = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]")
    for given in (backend, fast):
        found = probe(build("gpt2"), ["the cat sat."], tokenizer=given)
        assert found.tokens == 4
        assert found.heads["word"].values.tolist() == ["the", "cat", "sat", "."]
    with pytest.raises(InputError, match="without a tokenizer"):
        probe(build("gpt2"), ["the cat sat."])
    with pytest.raises(InputError, match="not int"):
        probe(build("gpt2"), ["the cat sat."], tokenizer=3)
    saved = build("gpt2")
    saved.save_pretrained(tmp_path)
    fast.save_pretrained(tmp_path)
    again = type(saved).from_pretrained(tmp_path)
    assert probe(again, ["the cat sat."]).tokens == 4  # the folder it came from holds one


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_half_precision_in_memory(kind):
    import torch

    live = build("llama").to(getattr(torch, kind))
    live.set_attn_implementation("eager")
    found = probe(live, [IDS])
    assert found.model.dtype == kind
    assert found.x.dtype == np.float64
    with torch.no_grad():
        states = live(torch.tensor([IDS]), output_hidden_states=True).hidden_states
    np.testing.assert_array_equal(found.x, [x[0].double().numpy() for x in states])
    assert float(ladder(live, IDS, rungs=(4,)).data["exact_error"].max()) < 1e-5
    assert {p.dtype for p in live.parameters()} == {getattr(torch, kind)}


def test_what_is_no_model():
    import torch

    with pytest.raises(InputError, match="not int"):
        load(3)
    with pytest.raises(InputError, match="not Linear"):
        load(torch.nn.Linear(2, 2))


def test_models_that_show_no_maps_or_change_their_tokens():
    import transformers as tf

    fnet = tf.FNetModel(tf.FNetConfig(vocab_size=VOCABULARY, max_position_embeddings=64, **_without(WIDE)))
    found = probe(fnet, [IDS])
    assert found.heads is None
    assert found.similarity.sizes["layer"] == 4
    assert found.notes == ("FNetModel does not show attention maps of every layer, so heads and sinks are left out.",)
    with pytest.raises(InputError, match="does not show attention maps"):
        probe(fnet, [IDS], measure=("heads",))
    sizes = {"block_sizes": [1, 1], "n_head": 2, "d_model": 16, "d_head": 8, "d_inner": 24, "vocab_size": VOCABULARY}
    with pytest.raises(InputError, match="number of its tokens"):
        probe(tf.FunnelBaseModel(tf.FunnelConfig(**sizes)), [IDS])


def _without(sizes):
    return {key: value for key, value in sizes.items() if key != "num_attention_heads"}


def test_the_wrong_token_id_is_named(models):
    for ids, wrong in (([3, 50, 7, 99], 50), ([-2, 40], -2), ([3, -1, 99], -1)):
        with pytest.raises(InputError, match=f"between 0 and 49, but {wrong} was given"):
            probe(models["bert"], [ids])


def test_every_tensor_has_its_own_digits(folders, tmp_path):
    """Models that share their first layers are told apart."""
    import torch

    live = build("bert")
    before = load(live).digest
    with torch.no_grad():
        live.encoder.layer[2].output.dense.bias[3] += 1.0
    assert load(live).digest != before
    assert load(folders["bert"]).digest == load(folders["bert"]).digest == before


def test_states_that_are_no_tokens(tmp_path):
    import transformers as tf

    config = tf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1])
    tf.ResNetModel(config).save_pretrained(tmp_path / "resnet")
    with pytest.raises(InputError, match=r"shows states of the shape \(8, \d+, \d+\), which are no tokens"):
        probe(load(tmp_path / "resnet"), [np.zeros((3, 32, 32), dtype=np.float32)])


def test_a_digest_widens_no_whole_table(models, monkeypatch):
    from metastable.models.families import Tensors
    from metastable.models.module_tensors import ModuleTensors
    from metastable.models.parts import digest

    tensors = ModuleTensors(models["bert"].stack)
    for name in tensors:
        shape, values = Tensors.spaced(tensors, name, 7)
        np.testing.assert_array_equal(tensors.spaced(name, 7)[1], values)
        assert tensors.spaced(name, 7)[0] == shape
    before = digest(tensors)
    monkeypatch.setattr(ModuleTensors, "rows", None)  # what makes a float64 copy of a tensor
    assert digest(tensors) == before


def test_a_length_below_zero_is_no_limit():
    """XLNet states -1; a trial on no tokens at all would fail."""
    import transformers as tf

    from metastable.models.library import faced

    model = faced(
        "m", tf.XLNetModel(tf.XLNetConfig(vocab_size=50, d_model=16, n_layer=2, n_head=4, d_inner=24)), None, "encoder"
    )
    assert model.longest > 10_000
    assert model.heads == 4


def test_a_model_without_maps_says_so():
    import transformers as tf

    from metastable.models.library import faced

    small = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 24}
    model = faced("m", tf.FNetModel(tf.FNetConfig(**small, max_position_embeddings=64)).eval(), None, "encoder")
    assert model.why_no_parts.startswith("A 'fnet' model does not show maps from token to token")
    with pytest.raises(InputError, match="does not show maps"):
        spectra(model)


def test_a_model_of_text_and_pictures_reads_text():
    import transformers as tf

    from metastable.models.library import faced

    text = WIDE | {"vocab_size": 50, "max_position_embeddings": 64, "num_key_value_heads": 2, "head_dim": 4}
    text |= {"pad_token_id": 0, "model_type": "llama"}
    seen_by = WIDE | {"image_size": 8, "patch_size": 4, "model_type": "clip_vision_model"}
    config = tf.LlavaConfig(text_config=text, vision_config=seen_by, image_token_index=49)
    model = faced("m", tf.LlavaModel(config).eval(), None, "encoder")
    assert (model.vocabulary, model.longest) == (50, 64)
    assert probe(model, [IDS]).similarity.sizes["layer"] == 4


def test_sound_is_measured_from_python_only(tmp_path, capsys):
    import transformers as tf

    from metastable.cli import main

    small = WIDE | {"conv_dim": (8, 8), "conv_stride": (5, 4), "conv_kernel": (10, 8), "vocab_size": 32}
    small |= {"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "num_feat_extract_layers": 2}
    tf.Wav2Vec2Model(tf.Wav2Vec2Config(**small)).save_pretrained(tmp_path / "sound")
    for more, says in (
        ([], "reads no text; give arrays"),
        (["--images", str(tmp_path)], "reads no pictures; give arrays"),
    ):
        assert main(["model", str(tmp_path / "sound"), "--out", str(tmp_path / "out"), *more]) == 2
        assert says in capsys.readouterr().err
