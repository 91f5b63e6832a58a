#!/usr/bin/env python3
"""Training steps of PyTorch + transformers on the CPU, one turn at a time, for tools/compare_pytorch.

Reads `config.json` of a Hugging Face directory and starts from random weights. Every line `N` on
stdin makes N steps; their answer is one JSON line on stdout:
  {"seconds": [one per step], "peak_bytes": ru_maxrss, "loss": of the last step}
The first line, without being asked, tells {"parameters": ..., "torch": version, ...}. Ends with stdin.

A step is what ours is: loss, gradients, clipping to a norm of 1, AdamW. PyTorch runs as its users
would run it well: fused AdamW, scaled_dot_product_attention, bf16 by autocast over fp32 parameters,
gradients freed between steps, no dropout.
"""
import argparse
import json
import os
import resource
import sys
import time


def say(message):
    print(json.dumps(message), flush=True)


def make_model(options, torch):
    import transformers
    config = transformers.AutoConfig.from_pretrained(options.model)
    config.use_cache = False
    for name in ("attn_pdrop", "resid_pdrop", "embd_pdrop", "attention_dropout"):
        if hasattr(config, name):
            setattr(config, name, 0.0)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="sdpa", dtype=torch.float32)
    return model.train()


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder with a config.json")
    parser.add_argument("--rows", type=int, required=True, help="rows a step")
    parser.add_argument("--length", type=int, required=True, help="tokens a row")
    parser.add_argument("--precision", choices=["bf16", "fp32"], required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # before torch is loaded
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    import transformers
    torch.set_num_threads(options.threads)
    model = make_model(options, torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1, fused=True)
    run = torch.compile(model) if options.compile else model
    ids = torch.randint(0, model.config.vocab_size, (options.rows, options.length))
    autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.precision == "bf16")

    def step():
        with autocast:
            loss = run(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    say({"parameters": sum(p.numel() for p in model.parameters()), "torch": torch.__version__,
         "transformers": transformers.__version__, "threads": torch.get_num_threads()})
    for line in sys.stdin:
        seconds, loss = [], 0
        for _ in range(int(line)):
            start = time.perf_counter()
            loss = step()
            seconds.append(time.perf_counter() - start)
        say({"seconds": seconds, "peak_bytes": peak_bytes(), "loss": loss})


main()
