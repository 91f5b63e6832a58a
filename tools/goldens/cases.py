"""The table of golden cases: what make_goldens.py builds.

Every case has odd shapes, an own seed, and options that a loader or a kernel could get wrong
without any other case noticing. Epsilons are large enough to be visible in fp32. `inputs` is
[rows, length]; `config` goes to the config class of `model_type` as it is.
"""


def _gpt2(**options):
    return {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "bos_token_id": 0,
            "eos_token_id": 0, **options}


def _llama(hidden, heads, kv_heads, head_dim, intermediate, layers, vocab, **options):
    return {"hidden_size": hidden, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "head_dim": head_dim, "intermediate_size": intermediate, "num_hidden_layers": layers,
            "vocab_size": vocab, **options}


CASES = [
    {
        "name": "gpt2_inner", "model_type": "gpt2", "seed": 101, "inputs": [3, 11],
        "note": "n_inner set, scores also divided by layer index + 1, odd sizes, visible epsilon",
        "config": _gpt2(n_embd=36, n_head=3, n_layer=3, n_inner=50, vocab_size=61, n_positions=23,
                        scale_attn_by_inverse_layer_idx=True, layer_norm_epsilon=1e-3),
    },
    {
        "name": "gpt2_untied", "model_type": "gpt2", "seed": 102, "inputs": [2, 13],
        "note": "lm_head of its own, scores not divided by sqrt(head size), exact gelu",
        "config": _gpt2(n_embd=30, n_head=5, n_layer=2, vocab_size=67, n_positions=31,
                        tie_word_embeddings=False, scale_attn_weights=False,
                        activation_function="gelu"),
    },
    {
        "name": "llama_llama3_bias", "model_type": "llama", "seed": 103, "inputs": [2, 19],
        "note": "six query heads on two key heads, llama3 rope, biases in attention and in the mlp",
        "config": _llama(30, 6, 2, 12, 41, 2, 71, max_position_embeddings=80, rms_norm_eps=1e-4,
                         attention_bias=True, mlp_bias=True,
                         rope_parameters={"rope_type": "llama3", "rope_theta": 300.0, "factor": 4.0,
                                          "low_freq_factor": 1.0, "high_freq_factor": 3.0,
                                          "original_max_position_embeddings": 20}),
    },
    {
        "name": "llama_yarn", "model_type": "llama", "seed": 104, "inputs": [3, 14],
        "note": "yarn rope with every optional key given, as many key heads as query heads",
        "config": _llama(30, 3, 3, 16, 33, 2, 53, max_position_embeddings=144, rms_norm_eps=1e-5,
                         rope_parameters={"rope_type": "yarn", "rope_theta": 50.0, "factor": 3.0,
                                          "beta_fast": 4.0, "beta_slow": 0.5,
                                          "attention_factor": 1.2,
                                          "original_max_position_embeddings": 48}),
    },
    {
        "name": "llama_tied", "model_type": "llama", "seed": 105, "inputs": [4, 9],
        "note": "tied head, one key head, head size not hidden size / heads, small rope base",
        "config": _llama(30, 5, 1, 8, 47, 3, 83, max_position_embeddings=33, rms_norm_eps=1e-3,
                         tie_word_embeddings=True,
                         rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    },
    {
        "name": "mistral_window", "model_type": "mistral", "seed": 106, "inputs": [2, 17],
        "note": "window of 4 positions in every layer, head size not hidden size / heads",
        "config": _llama(32, 4, 2, 10, 43, 2, 59, max_position_embeddings=50, rms_norm_eps=1e-4,
                         sliding_window=4,
                         rope_parameters={"rope_type": "default", "rope_theta": 2500.0}),
    },
    {
        "name": "qwen2_layers", "model_type": "qwen2", "seed": 107, "inputs": [2, 16],
        "note": "first layer full, the other two with a window of 5 (max_window_layers 1), untied",
        "config": {k: v for k, v in
                   _llama(28, 7, 1, 0, 39, 3, 73, max_position_embeddings=64, rms_norm_eps=1e-4,
                          use_sliding_window=True, sliding_window=5, max_window_layers=1,
                          tie_word_embeddings=False,
                          rope_parameters={"rope_type": "default", "rope_theta": 9000.0}).items()
                   if k != "head_dim"},
    },
    {
        "name": "llama_shards", "model_type": "llama", "seed": 108, "inputs": [2, 15], "shards": 3,
        "note": "three shards, an index; bf16 and fp16 matrices, fp32 norms; an unused tensor",
        "config": _llama(42, 7, 7, 6, 45, 2, 79, max_position_embeddings=40, rms_norm_eps=1e-5,
                         rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    },
]
