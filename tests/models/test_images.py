"""Pictures and sound: patches and frames are tokens, and states and maps are the library's own."""

import json

import numpy as np
import pytest
from PIL import Image

from metastable.errors import InputError
from metastable.models import load, probe
from metastable.models.images import image_files, plain
from tests.models.test_watch import seen

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
VISION = SIZES | {"image_size": 16, "patch_size": 4}
rng = np.random.default_rng(5)
PICTURES = [rng.integers(0, 256, (20, 30, 3), dtype=np.uint8), rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)]
FIRST = {"vit": 1, "deit": 2, "dinov2": 1, "dinov2_with_registers": 5, "clip_vision_model": 1, "siglip_vision_model": 0}


def vision(kind, **more):
    import torch
    import transformers as tf

    torch.manual_seed(1)
    config = tf.AutoConfig.for_model(kind, **VISION, **more)
    model = tf.AutoModel.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for weight in model.parameters():  # class tokens are 0 at first, and have no direction
            weight.add_(0.1 * torch.randn_like(weight))
    return model


@pytest.mark.parametrize("kind", list(FIRST))
def test_patches_are_tokens(kind):
    import torch

    module = vision(kind)
    found = probe(module, PICTURES, special=True)
    n = 16 + FIRST[kind]
    assert found.tokens == 2 * n
    assert found.similarity["pairs"].values[0, 0] == n * (n - 1)
    reading = found.model.read(PICTURES[0], 10**6)
    states, maps = seen(found.model, reading.given, 2)
    with torch.no_grad():
        out = module(torch.tensor(reading.given[None]), output_hidden_states=True, output_attentions=True)
    np.testing.assert_array_equal(states, [x[0].numpy() for x in out.hidden_states])
    np.testing.assert_array_equal(maps, [A[0].numpy() for A in out.attentions])
    assert not found.model.causal
    patches = probe(module, PICTURES, special=False)
    assert patches.similarity["pairs"].values[0, 0] == 16 * 15
    words = found.heads["word"].values.tolist()
    assert words[FIRST[kind] :] == [f"{row},{column}" for row in range(4) for column in range(4)]
    assert found.x.shape == (3, n, 16)


def test_the_folders_own_processor(tmp_path):
    from transformers import AutoImageProcessor

    vision("vit").save_pretrained(tmp_path)
    said = {"image_processor_type": "ViTImageProcessor", "size": {"height": 16, "width": 16}}
    said |= {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(said))
    model = load(tmp_path)
    expected = AutoImageProcessor.from_pretrained(tmp_path, backend="pil")
    picture = Image.fromarray(PICTURES[0])
    pixels = np.asarray(expected(images=picture, return_tensors="np")["pixel_values"][0])
    np.testing.assert_array_equal(model.read(picture, 99).given, pixels)
    assert model.notes == ()
    handed = load(vision("vit"), tokenizer=expected)
    np.testing.assert_array_equal(handed.read(picture, 99).given, pixels)


def test_without_a_processor_the_defaults_are_stated():
    model = load(vision("dinov2"))
    found = probe(model, PICTURES[:1])
    assert found.notes == (
        "The model came without an image processor: pictures were resized and cut to 16 x 16 and scaled to [-1, 1] "
        "(mean and deviation 0.5).",
    )
    same = PICTURES[1]  # of the model's own size: nothing is resized
    np.testing.assert_allclose(model.read(same, 99).given, same.transpose(2, 0, 1) / 127.5 - 1.0, atol=1e-6)
    wide = np.zeros((8, 32, 3), dtype=np.uint8)
    wide[:, 12:20] = 255  # the middle is what is cut out
    assert (plain(model.stack.config)(wide)[:, :, 4:12] > 0.9).all()
    ready = rng.standard_normal((3, 16, 16))
    np.testing.assert_array_equal(model.read(ready, 99).given, ready.astype(np.float32))


def test_files_of_every_kind(tmp_path):
    Image.fromarray(PICTURES[0]).save(tmp_path / "b.jpg")
    Image.fromarray(PICTURES[0][..., 0]).save(tmp_path / "a.png")
    Image.fromarray(PICTURES[0]).convert("RGBA").save(tmp_path / "c.webp")
    Image.fromarray(PICTURES[0]).convert("P").save(tmp_path / "D.GIF")
    (tmp_path / "notes.txt").write_text("no picture")
    files = image_files(tmp_path)
    assert [path.name for path in files] == ["D.GIF", "a.png", "b.jpg", "c.webp"]
    assert [path.name for path in image_files(tmp_path, 2)] == ["D.GIF", "a.png"]
    model = load(vision("vit"))
    assert probe(model, files).texts == 4
    (tmp_path / "broken.png").write_bytes(b"\x89PNG no more")
    with pytest.raises(InputError, match=r"broken\.png' cannot be opened"):
        probe(model, image_files(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no picture"):
        image_files(tmp_path / "empty")


def test_what_is_no_picture():
    model = load(vision("vit"))
    with pytest.raises(InputError, match="'some words' cannot be opened"):
        probe(model, "some words")
    with pytest.raises(InputError, match=r"not an array \(2, 2, 2, 2\)"):
        probe(model, [np.zeros((2, 2, 2, 2))])
    with pytest.raises(InputError, match="nan or inf"):
        probe(model, [np.full((3, 16, 16), np.nan)])
    with pytest.raises(InputError, match="cannot be run"):
        probe(model, [np.zeros((3, 20, 20))])


def test_both_towers_of_a_clip(tmp_path):
    import torch
    import transformers as tf

    torch.manual_seed(0)
    text = SIZES | {"vocab_size": 50, "max_position_embeddings": 32, "eos_token_id": 49}
    clip = tf.CLIPModel(tf.CLIPConfig(text_config=text, vision_config=VISION))
    clip.save_pretrained(tmp_path)
    for given in (tmp_path, clip):
        seeing, reading = load(given, part="vision"), load(given, part="text")
        assert probe(seeing, PICTURES).tokens == 34
        found = probe(reading, [[1, 5, 7, 49]])
        assert found.tokens == 4
        assert reading.causal
        assert not seeing.causal
    with pytest.raises(InputError, match="has no part 'text'"):
        load(vision("vit"), part="text")


def test_a_checkpoint_counts_pictures(tmp_path):
    model, state = load(vision("vit")), tmp_path / "s.npz"
    probe(model, PICTURES, resume=state)
    again = probe(model, [*PICTURES, PICTURES[0]], resume=state)
    whole = probe(model, [*PICTURES, PICTURES[0]])
    assert (again.tokens, again.texts) == (whole.tokens, whole.texts) == (51, 3)
    assert again.similarity.identical(whole.similarity)
    with pytest.raises(InputError, match="other texts"):
        probe(model, [*PICTURES[::-1], PICTURES[0]], resume=state)


@pytest.mark.parametrize("kind", ["whisper", "wav2vec2", "audio-spectrogram-transformer"])
def test_frames_of_sound_are_tokens(kind):
    import torch
    import transformers as tf

    torch.manual_seed(2)
    halves = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    sizes = {
        "whisper": halves
        | {"vocab_size": 50, "d_model": 16, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "num_mel_bins": 8}
        | {"max_source_positions": 30, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
        "wav2vec2": SIZES | {"conv_dim": [8] * 7, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2},
        "audio-spectrogram-transformer": SIZES
        | {"num_mel_bins": 16, "max_length": 64, "patch_size": 8, "frequency_stride": 8, "time_stride": 8},
    }[kind]
    shape = {"whisper": (8, 60), "wav2vec2": (4000,), "audio-spectrogram-transformer": (64, 16)}[kind]
    module = tf.AutoModel.from_config(tf.AutoConfig.for_model(kind, **sizes), attn_implementation="eager").eval()
    sounds = [rng.standard_normal(shape) for _ in range(3)]
    found = probe(module, sounds)
    stack = module.encoder if kind == "whisper" else module
    with torch.no_grad():
        out = stack(torch.tensor(sounds[0][None], dtype=torch.float32), output_hidden_states=True)
    np.testing.assert_array_equal(found.x, [x[0].numpy() for x in out.hidden_states])
    assert found.tokens == 3 * out.hidden_states[0].shape[1]
    assert found.heads["correlation"].shape == (2, 4, 4)
    with pytest.raises(InputError, match="reads neither text nor pictures"):
        probe(module, ["some words"])
    if kind == "whisper":
        with pytest.raises(InputError, match="use part='encoder'"):
            probe(load(module, part="decoder"), sounds)


@pytest.fixture
def pictures(tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    home = tmp_path / "pictures"
    home.mkdir()
    for k in range(2):
        Image.fromarray(rng.integers(0, 255, (9, 9, 3), dtype=np.uint8)).save(home / f"{k}.png")
    return home


@pytest.mark.slow
def test_the_command_measures_and_climbs_on_pictures(tmp_path, pictures, monkeypatch):
    from metastable.cli import main
    from metastable.models.study import read
    from tests.models.tiny_models import LAYERS, build

    monkeypatch.setattr("metastable.models.run_study._draw", lambda made, report: None)
    build("vit").save_pretrained(tmp_path / "vit")
    out = tmp_path / "out"
    assert main(["model", str(tmp_path / "vit"), "--images", str(pictures), "--out", str(out)]) == 0
    made = read(out)
    assert made.similarity.sizes["layer"] == LAYERS + 1
    assert made.ranks["tokens"].values.tolist() == [10, 10]  # nine patches and the class token
    assert made.about["ladder"] | {"seconds": 0} == {"absent": "", "notes": [], "texts": 2, "tokens": 10, "seconds": 0}
    assert float(made.ladder["exact_error"].max()) < 1e-5


def test_pictures_for_a_model_of_text_are_refused(folders, tmp_path, pictures, capsys):
    from metastable.cli import main

    words = ["model", str(folders["bert"]), "--images", str(pictures), "--out", str(tmp_path / "out")]
    assert main(words) == 2
    assert "reads text, not pictures" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main([*words, "--texts", "english"]) == 2
    assert "give one of --texts and --images" in capsys.readouterr().err
