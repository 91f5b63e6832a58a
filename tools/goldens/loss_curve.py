#!/usr/bin/env python3
"""Trains a Hugging Face model with transformers and torch, step for step as a trainer should.

Needs torch and transformers. The curve it writes is what another trainer's is compared with:

  loss_curve.py init --out=model                       random weights, GPT-2 tiny (or --like=DIR)
  loss_curve.py run --model=model --data=FILE --sequence_length=64 --global_batch=8 --steps=200 \\
      --learning_rate=1e-3 --schedule=cosine --warmup_steps=20 --out=curve.jsonl
  loss_curve.py compare curve.jsonl metrics.jsonl --limit=1e-3

`run` computes in fp32 without dropout. Update k (from 0) takes the next global_batch rows of the
byte stream of the files in order (byte_stream.py says how rows are cut); after the last full batch
it starts again. Loss is the mean over all targets. The gradient's L2 norm is clipped to 1.0: factor
min(1, 1 / (norm + 1e-6)). AdamW with betas 0.9 and 0.95, eps 1e-8; decay 0.1, decoupled, on tensors
with exactly two dimensions.

Learning rate of update k: peak * k / warmup_steps while k < warmup_steps; afterwards the peak
("constant") or peak * (1 + cos(pi * (k - warmup_steps) / (steps - warmup_steps))) / 2 ("cosine").

Output, one JSON object a line: step (from 1), loss before the update, grad_norm before clipping,
learning_rate. `compare` reads any two files of JSON lines with step, loss and grad_norm.
"""
import argparse
import json
import math
import sys

import byte_stream


def initialize(args):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config

    if args.like:
        config = AutoConfig.from_pretrained(args.like)
    else:
        config = GPT2Config(n_layer=4, n_head=4, n_embd=128, n_positions=256, bos_token_id=256,
                            eos_token_id=256, vocab_size=byte_stream.VOCABULARY,
                            attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0)
    torch.manual_seed(args.seed)
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(args.out)


def learning_rate(update, args):
    if update < args.warmup_steps:
        return args.learning_rate * update / args.warmup_steps
    if args.schedule == "constant":
        return args.learning_rate
    done = (update - args.warmup_steps) / (args.steps - args.warmup_steps)
    return args.learning_rate * (1 + math.cos(math.pi * done)) / 2


def make_optimizer(model, args):
    import torch

    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if p.ndim == 2], "weight_decay": args.weight_decay},
              {"params": [p for p in parameters if p.ndim != 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=args.learning_rate, betas=(0.9, 0.95), eps=1e-8)


def run(args):
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(args.threads)
    tokens = byte_stream.byte_stream(args.data)
    inputs, targets = byte_stream.full_rows(tokens, args.sequence_length)
    batches = len(inputs) // args.global_batch
    if batches == 0:
        sys.exit(f"{len(inputs)} rows of {args.sequence_length} do not fill one batch of "
                 f"{args.global_batch}: shorten the rows, or give more text")
    model = AutoModelForCausalLM.from_pretrained(
        args.model, dtype=torch.float32, attn_implementation="eager").eval()  # eval: no dropout
    if model.config.vocab_size < byte_stream.VOCABULARY:
        sys.exit(f"{args.model}: vocabulary {model.config.vocab_size}, byte tokens need "
                 f"{byte_stream.VOCABULARY}")
    optimizer = make_optimizer(model, args)
    with open(args.out, "w", encoding="utf-8") as out:
        for update in range(args.steps):
            rate = learning_rate(update, args)
            for group in optimizer.param_groups:
                group["lr"] = rate
            start = update % batches * args.global_batch
            rows = slice(start, start + args.global_batch)
            optimizer.zero_grad()
            logits = model(input_ids=inputs[rows], use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets[rows].flatten())
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip_norm)
            optimizer.step()
            print(json.dumps({"step": update + 1, "loss": loss.item(), "grad_norm": norm.item(),
                              "learning_rate": rate}), file=out, flush=True)
    if args.save:
        model.save_pretrained(args.save)


def read_curve(path):
    with open(path, encoding="utf-8") as file:
        return {point["step"]: point for point in map(json.loads, file)}


def compare(args):
    """Prints the largest differences over the steps both have; exit status 1 beyond the limit."""
    first, second = read_curve(args.first), read_curve(args.second)
    steps = sorted(first.keys() & second.keys())
    if not steps:
        sys.exit(f"{args.first} and {args.second} have no step in common")

    def largest(difference):
        return max((difference(first[s], second[s]), s) for s in steps)

    loss, loss_step = largest(lambda a, b: abs(a["loss"] - b["loss"]))
    norm, norm_step = largest(lambda a, b: abs(a["grad_norm"] / b["grad_norm"] - 1))
    finite = all(math.isfinite(c[s]["loss"]) for c in (first, second) for s in steps)
    print(json.dumps({"steps": len(steps), "only_in_one": len(first.keys() ^ second.keys()),
                      "loss_max_abs": loss, "loss_worst_step": loss_step,
                      "grad_norm_max_rel": norm, "grad_norm_worst_step": norm_step}))
    sys.exit(0 if finite and loss <= args.limit else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    command = commands.add_parser("init", help="write a model with random weights")
    command.add_argument("--out", required=True)
    command.add_argument("--like", help="directory whose config.json is used")
    command.add_argument("--seed", type=int, default=0)
    command.set_defaults(call=initialize)

    command = commands.add_parser("run", help="train and write the curve")
    command.add_argument("--model", required=True, help="Hugging Face directory; vocabulary >= 257")
    command.add_argument("--data", required=True, nargs="+", help="text files")
    command.add_argument("--out", required=True, help="file of JSON lines")
    command.add_argument("--save", help="directory for the trained model")
    command.add_argument("--sequence_length", type=int, default=64)
    command.add_argument("--global_batch", type=int, default=8, help="rows an update")
    command.add_argument("--steps", type=int, default=200)
    command.add_argument("--learning_rate", type=float, default=1e-3)
    command.add_argument("--schedule", choices=["constant", "cosine"], default="constant")
    command.add_argument("--warmup_steps", type=int, default=0)
    command.add_argument("--weight_decay", type=float, default=0.1)
    command.add_argument("--clip_norm", type=float, default=1.0)
    command.add_argument("--threads", type=int, default=1)
    command.set_defaults(call=run)

    command = commands.add_parser("compare", help="compare two curves")
    command.add_argument("first")
    command.add_argument("second")
    command.add_argument("--limit", type=float, default=math.inf, help="largest loss difference")
    command.set_defaults(call=compare)

    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
