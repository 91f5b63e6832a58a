#!/usr/bin/env python3
"""Losses of a training run of PyTorch + transformers on the CPU, for tools/compare_losses.

Trains the Hugging Face directory --model on the tokens of --ids (a JSON list), rows of --length in
order, and prints the losses as one JSON list. AdamW as ours: matrices decay, norms and biases do not,
gradients are clipped to a norm of 1, the learning rate is constant; bf16 is autocast over fp32, with
--emulate on fp32 arithmetic (emulated_autocast.py).
With --make the directory is written first, with random fp32 weights for its config.json.
"""
import argparse
import contextlib
import json
import os


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--make", action="store_true", help="write random weights and end")
    parser.add_argument("--ids")
    parser.add_argument("--rows", type=int, default=1, help="rows a step")
    parser.add_argument("--length", type=int, default=1, help="tokens a row")
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--learning_rate", type=float, default=3e-4)
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="fp32")
    parser.add_argument("--emulate", action="store_true", help="bf16 products by fp32 arithmetic")
    parser.add_argument("--seed", type=int, default=0, help="of the weights that --make writes")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # before torch is loaded
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    import transformers
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    if options.make:
        config = transformers.AutoConfig.from_pretrained(options.model)
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(options.model)
        return
    model = transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    model.train()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1},
                                   {"params": others, "weight_decay": 0.0}],
                                  lr=options.learning_rate, betas=(0.9, 0.95), eps=1e-8, fused=True)
    with open(options.ids, encoding="utf-8") as file:
        ids = torch.tensor(json.load(file))
    autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.precision == "bf16")
    products = contextlib.nullcontext()
    if options.emulate:
        from emulated_autocast import EmulatedProducts
        products = EmulatedProducts()
    size = options.rows * options.length
    losses = []
    for step in range(options.steps):
        at = step * size
        inputs = ids[at:at + size].view(options.rows, options.length)
        targets = ids[at + 1:at + 1 + size]
        with products:
            with autocast:
                logits = model(input_ids=inputs, use_cache=False).logits
                loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    print(json.dumps(losses))


main()
