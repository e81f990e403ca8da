"""A small random model for every family and every form of it that its file tells apart: a new one is a row here."""

from typing import Any

from metastable.models.families import FAMILIES

VOCABULARY, LAYERS, HEADS, WIDTH, INNER, LONGEST = 50, 3, 4, 16, 24, 64
PLAIN = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "max_position_embeddings": LONGEST,
}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = PLAIN | SPECIAL | {"num_key_value_heads": 2, "head_dim": 4}
EVERY = PLAIN | SPECIAL
GPT = {"vocab_size": VOCABULARY, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": LONGEST} | SPECIAL
FALCON = {key: value for key, value in EVERY.items() if key != "intermediate_size"} | {"ffn_hidden_size": INNER}
BLOOM = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "n_layer": LAYERS, "n_head": HEADS} | SPECIAL
T5 = {"vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": 6, "d_ff": INNER, "num_layers": LAYERS, "num_heads": 3}
OPT = FALCON | {"ffn_dim": INNER}
BART = {"vocab_size": VOCABULARY, "d_model": WIDTH, "max_position_embeddings": LONGEST, "encoder_layers": LAYERS}
BART |= {"decoder_layers": 2, "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS}
BART |= {"encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER}
IMAGES = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "image_size": 6,
    "patch_size": 2,
}
SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]
PARTIAL = {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5}}
LONG = {"short_factor": [1.0, 1.5], "long_factor": [2.0, 4.0], "original_max_position_embeddings": 8}
SCALED = {
    "linear": {"rope_type": "linear", "rope_theta": 100.0, "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "rope_theta": 100.0, "factor": 4.0},
    "llama3": {
        "rope_type": "llama3", "rope_theta": 100.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    },
    "yarn": {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16},
    "longrope": {"rope_type": "longrope", "rope_theta": 100.0, **LONG},
}  # fmt: skip

# name -> (model type, its configuration)
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "albert": ("albert", EVERY | {"embedding_size": 8}),
    "bart": ("bart", BART),
    "bart scaled": ("bart", BART | {"scale_embedding": True}),
    "bert": ("bert", EVERY),
    "bloom": ("bloom", BLOOM),
    "bloom, three heads": ("bloom", BLOOM | {"hidden_size": 12, "n_head": 3}),
    "camembert": ("camembert", EVERY),
    "clip_vision_model": ("clip_vision_model", IMAGES | {"intermediate_size": INNER}),
    "cohere": ("cohere", GROUPED),
    "cohere, normed": ("cohere", GROUPED | {"use_qk_norm": True, "attention_bias": True}),
    "cohere2": ("cohere2", GROUPED | {"sliding_window": 4, "layer_types": SLIDING}),
    "deit": ("deit", IMAGES | {"intermediate_size": INNER}),
    "dinov2": ("dinov2", IMAGES | {"mlp_ratio": 2}),
    "dinov2, gated": ("dinov2", IMAGES | {"use_swiglu_ffn": True}),
    "distilbert": (
        "distilbert",
        {"vocab_size": VOCABULARY, "dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": INNER}
        | {"max_position_embeddings": LONGEST},
    ),
    "electra": ("electra", EVERY | {"embedding_size": 8}),
    "electra, wide": ("electra", EVERY | {"embedding_size": WIDTH}),
    "falcon": ("falcon", FALCON),
    "falcon, new": ("falcon", FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon, new with one norm": (
        "falcon",
        FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
    ),
    "falcon, old": ("falcon", FALCON | {"multi_query": False, "parallel_attn": False, "bias": True}),
    "falcon, alibi": ("falcon", FALCON | {"alibi": True, "multi_query": False, "parallel_attn": False, "bias": True}),
    "gemma": ("gemma", GROUPED),
    "gemma2": ("gemma2", GROUPED | {"sliding_window": 4, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 2.0}),
    "gemma2, uncapped": ("gemma2", GROUPED | {"sliding_window": 4, "attn_logit_softcapping": None}),
    "gemma3_text": ("gemma3_text", GROUPED | {"sliding_window": 4, "layer_types": SLIDING}),
    "gemma3_text, both ways": (
        "gemma3_text",
        GROUPED | {"sliding_window": 4, "layer_types": SLIDING, "use_bidirectional_attention": True},
    ),
    "gpt2": ("gpt2", GPT | {"n_inner": INNER}),
    "gpt2, scaled by layer": ("gpt2", GPT | {"n_inner": INNER, "scale_attn_by_inverse_layer_idx": True}),
    "gpt_neo": (
        "gpt_neo",
        EVERY
        | {
            "num_layers": LAYERS,
            "num_heads": HEADS,
            "window_size": 4,
            "attention_types": [[["global", "local"], 1], [["local"], 1]],
        },
    ),
    "gpt_neox": ("gpt_neox", EVERY | PARTIAL),
    "gpt_neox, one after the other": ("gpt_neox", EVERY | {"use_parallel_residual": False, "attention_bias": False}),
    "gptj": ("gptj", GPT | {"n_inner": INNER, "rotary_dim": 2}),
    "granite": (
        "granite",
        GROUPED | {"embedding_multiplier": 3.0, "residual_multiplier": 0.3, "attention_multiplier": 0.2},
    ),
    "llama": ("llama", GROUPED | {"attention_bias": True, "mlp_bias": True}),
    **{f"llama, {kind}": ("llama", GROUPED | {"rope_parameters": given}) for kind, given in SCALED.items()},
    "mistral": ("mistral", GROUPED | {"sliding_window": 4}),
    "mixtral": ("mixtral", GROUPED | {"num_local_experts": 3, "num_experts_per_tok": 2, "sliding_window": 4}),
    "modernbert": ("modernbert", EVERY | {"local_attention": 6, "global_attn_every_n_layers": 2}),
    "modernbert, biased": (
        "modernbert",
        EVERY | {"local_attention": 6, "norm_bias": True, "attention_bias": True, "mlp_bias": True},
    ),
    "mpnet": ("mpnet", EVERY),
    "mt5": ("mt5", T5),
    "olmo": ("olmo", GROUPED),
    "olmo2": ("olmo2", GROUPED),
    "olmo3": ("olmo3", GROUPED | {"sliding_window": 4, "layer_types": SLIDING}),
    "opt": ("opt", OPT),
    "opt-350m": ("opt", OPT | {"do_layer_norm_before": False, "word_embed_proj_dim": 8}),
    "opt, no biases": ("opt", OPT | {"enable_bias": False, "layer_norm_elementwise_affine": False}),
    "phi": ("phi", EVERY | {"num_key_value_heads": 2}),
    "phi, normed": ("phi", EVERY | {"qk_layernorm": True}),
    "phi3": ("phi3", EVERY | {"num_key_value_heads": 2, "sliding_window": 5}),
    "phi3, longrope": ("phi3", EVERY | {"rope_parameters": SCALED["longrope"]}),
    "qwen2": ("qwen2", EVERY | {"num_key_value_heads": 2}),
    "qwen3": (
        "qwen3",
        GROUPED | {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1, "attention_bias": True},
    ),
    "qwen3_moe": (
        "qwen3_moe",
        GROUPED | {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "mlp_only_layers": [1]},
    ),
    "roberta": ("roberta", EVERY),
    "smollm3": ("smollm3", GROUPED | {"no_rope_layer_interval": 2}),
    "stablelm": ("stablelm", EVERY | {"num_key_value_heads": 2} | PARTIAL),
    "stablelm, parallel": (
        "stablelm",
        EVERY
        | {"num_key_value_heads": 2, "use_parallel_residual": True, "qk_layernorm": True, "use_qkv_bias": True}
        | PARTIAL,
    ),
    "starcoder2": ("starcoder2", EVERY | {"num_key_value_heads": 2, "sliding_window": 5}),
    "t5": ("t5", T5 | {"feed_forward_proj": "gated-gelu"}),
    "t5, relu": ("t5", T5),
    "vit": ("vit", IMAGES | {"intermediate_size": INNER}),
    "xlm-roberta": ("xlm-roberta", EVERY),
}
assert {kind for kind, _ in ROWS.values()} == set(FAMILIES)


def build(name: str) -> Any:
    """The random model of a row, every weight moved so that no gain is 1 and no bias is 0."""
    import torch
    import transformers as tf

    kind, given = ROWS[name]
    torch.manual_seed(sum(map(ord, name)))
    config = tf.AutoConfig.for_model(kind, **given)
    model = tf.AutoModel.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model
