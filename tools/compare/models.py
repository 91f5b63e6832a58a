"""config.json of the models that the comparisons with PyTorch train, as the presets of the same names."""


def gpt2(layers, heads, width, vocabulary, positions):
    return {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": layers,
            "n_head": heads, "n_embd": width, "vocab_size": vocabulary, "n_positions": positions,
            "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
            "bos_token_id": vocabulary - 1, "eos_token_id": vocabulary - 1}


MODELS = {
    "gpt2-tiny": gpt2(4, 4, 128, 257, 256),
    "gpt2-30m": gpt2(6, 6, 384, 50257, 1024),
    "gpt2-124m": gpt2(12, 12, 768, 50257, 1024),
    "llama-100m": {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 12,
        "num_attention_heads": 12, "num_key_value_heads": 4, "hidden_size": 768,
        "intermediate_size": 2048, "vocab_size": 32000, "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2},
}
