#!/usr/bin/env python3
"""Loads an exported Hugging Face directory with transformers and computes a text's loss in fp32.

Needs torch and transformers (and tokenizers with --tokenizer=export).

  check_export.py --model=DIR --data=FILE --sequence_length=256
  {"loss": 1.8, "bits_per_byte": 2.6, "perplexity": 6.0, "tokens": 71234, "bytes": 70000}

JSON lines are not parsed, whatever the name: compare with evaluate --data_format=fortune (or =text
where no line is a single %).
Rows are those of loss_curve.py (byte_stream.py), and a last, shorter row with what is left, unless
--drop_tail. `loss` is the mean in nats over all targets, `bits_per_byte` their sum / ln 2 / bytes
of text: end tokens count as targets but are no bytes of text. With --tokenizer=export the documents
are encoded by the directory's tokenizer.json and joined by the config's eos_token_id.
"""
import argparse
import json
import math
import os

import torch
from transformers import AutoModelForCausalLM

import byte_stream


def encode_with_export(directory, documents, end):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))
    encoded = [tokenizer.encode(d.decode("utf-8"), add_special_tokens=False).ids for d in documents]
    return byte_stream.join(encoded, end)


def summed_loss(model, inputs, targets):
    """Nats summed over all targets; inputs and targets are [rows, length]."""
    with torch.no_grad():
        logits = model(input_ids=inputs, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).double(), targets.flatten(),
                                             reduction="sum").item()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True, nargs="+", help="text files")
    parser.add_argument("--sequence_length", type=int, required=True)
    parser.add_argument("--batch", type=int, default=16, help="rows computed at a time")
    parser.add_argument("--tokenizer", choices=["bytes", "export"], default="bytes")
    parser.add_argument("--drop_tail", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    documents = byte_stream.read_documents(args.data)
    if args.tokenizer == "export":
        tokens = encode_with_export(args.model, documents, model.config.eos_token_id)
    else:
        tokens = byte_stream.join(documents, byte_stream.END)

    inputs, targets = byte_stream.full_rows(tokens, args.sequence_length)
    total, count = 0.0, targets.numel()
    for first in range(0, len(inputs), args.batch):
        rows = slice(first, first + args.batch)
        total += summed_loss(model, inputs[rows], targets[rows])
    if not args.drop_tail and count < len(tokens) - 1:
        total += summed_loss(model, tokens[None, count:-1], tokens[None, count + 1:])
        count = len(tokens) - 1
    text_bytes = sum(map(len, documents))
    print(json.dumps({"loss": total / count, "bits_per_byte": total / math.log(2) / text_bytes,
                      "perplexity": math.exp(total / count), "tokens": count, "bytes": text_bytes}))


if __name__ == "__main__":
    main()
