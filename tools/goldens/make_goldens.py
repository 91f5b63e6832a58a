#!/usr/bin/env python3
"""Makes the golden cases under tests/golden: tiny models with the numbers transformers gives them.

Needs torch 2.15.0 and transformers 5.24.0 (pip install them in a virtual environment). The tests of
this repository need neither: they read the files this script wrote.

  make_goldens.py                     rewrites every case under tests/golden
  make_goldens.py --only llama_yarn   rewrites one
  make_goldens.py --check DIR ...     recomputes existing cases and compares; writes nothing

A case is a directory: config.json, generation_config.json and weights as save_pretrained writes
them, alt/ (the same model described by other configs), golden.safetensors and golden.json (the
numbers and the settings they were taken with). The cases are the table in cases.py; how a model is
run and how far its numbers can be trusted is in measure.py. One CPU thread, so a rerun on the same
kind of processor gives the same bytes; on another the fp32 numbers move within their limits.
"""
import argparse
import json
import os
import shutil
import sys

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

import measure
from cases import CASES

HERE = os.path.dirname(os.path.abspath(__file__))
DEFAULT_OUT = os.path.join(HERE, "..", "..", "tests", "golden")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def draw_weight(rng, name, shape, conv1d):
    """One tensor, of a size at which its part of the model matters.

    The usual std of 0.02 leaves attention uniform and would hide mistakes in RoPE, mask and norms.
    """
    if "norm" in name or ".ln_" in name:
        centre, std = (1.0, 0.2) if name.endswith("weight") else (0.0, 0.15)
        return centre + std * rng.standard_normal(shape)
    if len(shape) == 1:
        return 0.15 * rng.standard_normal(shape)
    if any(part in name for part in ("embed_tokens", "wte", "wpe")):
        return 0.4 * rng.standard_normal(shape)
    fan_in = shape[0] if conv1d else shape[1]
    gain = 1.5 if any(p in name for p in ("q_proj", "k_proj", "c_attn")) else 1.0
    return gain / np.sqrt(fan_in) * rng.standard_normal(shape)


def write_model(case, directory):
    """Writes config and weights; returns nothing. REQUIRES: `directory` exists and is empty."""
    config = AutoConfig.for_model(case["model_type"], **case["config"])
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    rng = np.random.default_rng(case["seed"])
    conv1d = case["model_type"] == "gpt2"
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_conv1d = conv1d and "lm_head" not in name
            value = draw_weight(rng, name, tuple(parameter.shape), is_conv1d)
            parameter.copy_(torch.from_numpy(value.astype(np.float32)))
    model.save_pretrained(directory)
    if case.get("shards"):
        shard(directory, case["shards"], rng)


def shard(directory, count, rng):
    """Replaces model.safetensors by `count` shards of mixed dtypes, an index, an unused tensor.

    Matrices become bf16 or fp16, norms stay fp32; tensors go to shards at random. The config says
    bfloat16: a loader must trust each tensor's header instead.
    """
    path = os.path.join(directory, "model.safetensors")
    tensors = load_file(path)
    os.remove(path)
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.full((3,), 0.5)
    files = [f"model-{i + 1:05d}-of-{count:05d}.safetensors" for i in range(count)]
    shards, weight_map, total = [{} for _ in files], {}, 0
    for i, name in enumerate(sorted(tensors)):
        tensor = tensors[name]
        if tensor.ndim == 2:
            tensor = tensor.to(torch.bfloat16 if i % 3 else torch.float16)
        to = int(rng.integers(count))
        shards[to][name] = tensor.contiguous()
        weight_map[name] = files[to]
        total += tensor.numel() * tensor.element_size()
    for name, tensors in zip(files, shards):
        save_file(tensors, os.path.join(directory, name), metadata={"format": "pt"})
    write_json(os.path.join(directory, "model.safetensors.index.json"),
               {"metadata": {"total_size": total}, "weight_map": weight_map})
    config_path = os.path.join(directory, "config.json")
    config = read_json(config_path)
    config["dtype"] = "bfloat16"
    write_json(config_path, config)


def make_inputs(case, rng):
    """input_ids and unshifted labels [rows, length]; -100 = masked.

    About a fifth of the labels is masked at random; the prompt of row 0 and the last row's tail are
    masked whole.
    """
    rows, length = case["inputs"]
    ids = rng.integers(3, case["config"]["vocab_size"], (rows, length))
    labels = np.where(rng.random((rows, length)) < 0.2, -100, ids)
    labels[0, :4] = -100
    labels[-1, -3:] = -100
    return {"input_ids": torch.from_numpy(ids), "labels": torch.from_numpy(labels)}


def v4_config(config):
    """The config as transformers 4 wrote it: rope_theta and rope_scaling, no layer_types."""
    old = {k: v for k, v in config.items() if k not in ("layer_types", "rope_parameters", "dtype")}
    if "rope_parameters" in config:
        rope = dict(config["rope_parameters"])
        old["rope_theta"] = rope.pop("rope_theta")
        old["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    old["torch_dtype"] = config["dtype"]
    old["transformers_version"] = "4.44.2"
    return dict(sorted(old.items()))


def min_config(config):
    """The config without every key that the family's defaults supply."""
    def resolved(d):
        try:
            full = AutoConfig.for_model(**d).to_dict()
        except Exception as error:  # the config class refuses: the key that was left out is needed
            return str(error)
        return {k: v for k, v in full.items() if k not in ("transformers_version", "dtype")}

    kept, want = dict(config), resolved(config)
    for key in sorted(config):
        if key in ("model_type", "architectures"):
            continue
        fewer = {k: v for k, v in kept.items() if k != key}
        if resolved(fewer) == want:
            kept = fewer
    return kept


def write_alt_configs(directory, inputs, logits):
    """Writes alt/*.json, checked to give bit-equal logits. Returns {file: keys that differ}."""
    config = read_json(os.path.join(directory, "config.json"))
    os.makedirs(os.path.join(directory, "alt"))
    changed = {}
    alts = {"config_min.json": min_config(config), "config_v4.json": v4_config(config)}
    for name, alt in alts.items():
        write_json(os.path.join(directory, "alt", name), alt)
        model = measure.load(directory, torch.float32, config=os.path.join("alt", name))
        with torch.no_grad():
            other = model(input_ids=inputs["input_ids"], use_cache=False).logits
        if not torch.equal(other, logits):
            sys.exit(f"{directory}: alt/{name} changes the logits")
        changed[name] = sorted(set(config) ^ set(alt))
    return changed


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")


def make_case(case, out):
    directory = os.path.join(out, case["name"])
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    write_model(case, directory)
    inputs = make_inputs(case, np.random.default_rng(case["seed"] + 1000))
    tensors, numbers = measure.measure(directory, inputs, case["seed"])
    meta = {"name": case["name"], "variant": "a", "head": "clm", "seed": case["seed"],
            "note": case["note"], **numbers}
    meta["alt_configs"] = write_alt_configs(directory, inputs, tensors["logits"])
    meta["config_keys"] = sorted(read_json(os.path.join(directory, "config.json")))
    save_file(tensors, os.path.join(directory, "golden.safetensors"), metadata={"format": "pt"})
    write_json(os.path.join(directory, "golden.json"), meta)
    for name in os.listdir(directory):
        if name.endswith(".safetensors"):
            os.chmod(os.path.join(directory, name), 0o644)
    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(directory) for f in fs)
    print(f"{case['name']}: {meta['parameters']} parameters, {size // 1024} KiB, "
          f"{meta['suggested_fp32']}", flush=True)


def check_case(directory):
    """Recomputes a case from its weights and inputs; true if all numbers are within its limits."""
    golden = load_file(os.path.join(directory, "golden.safetensors"))
    meta = read_json(os.path.join(directory, "golden.json"))
    inputs = {name: golden[name] for name in meta["inputs"]}
    tensors, numbers = measure.measure(directory, inputs, meta["seed"])
    limits = meta["suggested_fp32"]
    grads = {name: tensor for name, tensor in golden.items() if name.startswith("grad.")}

    def largest_difference(name):
        return max(abs(a - b) for a, b in zip(numbers[name], meta[name], strict=True))

    pairs = {
        "logits": (measure.relative_to_max(tensors["logits"], golden["logits"]),
                   limits["out_rel_to_max"]),
        "grads": (measure.relative_l2(tensors, grads), limits["grad_rel_l2"]),
        "loss": (largest_difference("loss"), limits["loss_abs"]),
        "loss64": (largest_difference("loss64"), 1e-11),
        "grad_norm64": (abs(numbers["grad_norm64"] / meta["grad_norm64"] - 1), 1e-11),
    }
    good = all(error <= limit for error, limit in pairs.values())
    good = good and numbers["greedy"]["ids"] == meta["greedy"]["ids"]
    errors = ", ".join(f"{n} {error:.1e}/{limit:.0e}" for n, (error, limit) in pairs.items())
    print(f"{directory}: {'ok' if good else 'DIFFERS'}: {errors}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=DEFAULT_OUT, help="folder of the case directories")
    parser.add_argument("--only", help="name of one case")
    parser.add_argument("--check", nargs="+", metavar="DIR", help="compare these case directories")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.check:
        sys.exit(0 if all([check_case(d) for d in args.check]) else 1)
    chosen = [c for c in CASES if args.only in (None, c["name"])]
    if not chosen:
        sys.exit(f"no case {args.only}; there are: " + ", ".join(c["name"] for c in CASES))
    for case in chosen:
        make_case(case, args.out)


if __name__ == "__main__":
    main()
