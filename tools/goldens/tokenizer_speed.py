#!/usr/bin/env python3
"""Compares the speed of Encode with that of the `tokenizers` library on one thread, run by hand.

  bazel build //shardformer/tokenizer:bpe_benchmark
  tools/goldens/tokenizer_speed.py --tokenizer DIR/tokenizer.json --text FILE

Runs A B A B A B over the whole text and line by line, and prints medians in MB/s and their ratio.
Needs tokenizers.
"""
import argparse
import json
import os
import statistics
import subprocess
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import Tokenizer  # noqa: E402  reads the environment


def library_speed(tokenizer, texts, size):
    start = time.perf_counter()
    for text in texts:
        tokenizer.encode(text, add_special_tokens=False)
    return size / (time.perf_counter() - start) / 1e6


def own_speeds(args):
    run = subprocess.run([args.binary, "--benchmark_format=json", "--benchmark_min_time=0.5",
                          args.tokenizer, args.text], capture_output=True, text=True, check=True)
    rows = json.loads(run.stdout)["benchmarks"]
    return {row["name"]: row["bytes_per_second"] / 1e6 for row in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="out/bin/shardformer/tokenizer/bpe_benchmark")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(args.tokenizer)
    with open(args.text, encoding="utf-8", newline="") as file:
        text = file.read()
    size = len(text.encode("utf-8"))
    inputs = {"whole_text": [text], "lines": text.split("\n")}
    own = {name: [] for name in inputs}
    library = {name: [] for name in inputs}
    for _ in range(args.rounds):
        for name, speed in own_speeds(args).items():
            own[name].append(speed)
        for name, texts in inputs.items():
            library[name].append(library_speed(tokenizer, texts, size))
    for name in inputs:
        a, b = statistics.median(own[name]), statistics.median(library[name])
        print(f"{name}: {a:.1f} MB/s, tokenizers {b:.1f} MB/s, ratio {a / b:.1f}")


if __name__ == "__main__":
    main()
