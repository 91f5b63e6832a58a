"""Runs a Hugging Face causal model for a golden case, and measures how far to trust its numbers.

Three runs of the same code: fp32 (the golden numbers), double precision (their error), and double
precision with every weight moved by half an fp32 ulp (what any fp32 implementation may differ by).
Needs torch and transformers. Eager attention, model.eval(), no cache.
"""
import contextlib
import json
import math
import os
import random
from unittest import mock

import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM

ADAMW = {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1,
         "decay_rule": "tensors that are 2-D on disk"}
STEPS = 3
KEPT_FINALS = 6


def load(directory, dtype, config="config.json"):
    """The model in evaluation mode, weights in `dtype`; `config` is a path below the directory."""
    with open(os.path.join(directory, config), encoding="utf-8") as file:
        described = json.load(file)
    described = AutoConfig.for_model(**described)
    return AutoModelForCausalLM.from_pretrained(
        directory, config=described, dtype=dtype, attn_implementation="eager").eval()


@contextlib.contextmanager
def double_precision():
    """Turns upcasts to float32 in the model code, RoPE tables included, into ones to float64."""
    single = torch.float32
    with mock.patch.object(torch, "float32", torch.float64), \
            mock.patch.object(torch, "float", torch.float64), \
            mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(single)


def tensors_on_disk(directory):
    """{name: [dtype, shape]} and the sorted weight files of a model directory."""
    files = sorted(f for f in os.listdir(directory)
                   if f.endswith(".safetensors") and f != "golden.safetensors")
    found = {}
    for name in files:
        with safe_open(os.path.join(directory, name), "pt") as file:
            for key in file.keys():
                tensor = file.get_tensor(key)
                found[key] = [str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]
    return dict(sorted(found.items())), files


def loss_and_logits(model, inputs):
    """Mean loss over the labels that count, and logits, with the graph attached."""
    out = model(**inputs, use_cache=False)
    return out.loss, out.logits


def train(model, inputs):
    """One backward and three AdamW steps on one batch.

    Returns logits, grads {name: tensor}, loss [4] (before each step and after the last), grad_norm,
    final {name: tensor}. Tied tensors appear once, under the name of the embedding, as on disk.
    """
    named = dict(model.named_parameters())
    groups = [{"params": [p for p in named.values() if p.ndim == 2],
               "weight_decay": ADAMW["weight_decay"]},
              {"params": [p for p in named.values() if p.ndim != 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=ADAMW["lr"], betas=ADAMW["betas"], eps=ADAMW["eps"],
                                  foreach=False)
    result = {"loss": []}
    for step in range(STEPS + 1):
        optimizer.zero_grad()
        loss, logits = loss_and_logits(model, inputs)
        result["loss"].append(loss.item())
        if step == STEPS:
            break
        loss.backward()
        if step == 0:
            result["logits"] = logits.detach().clone()
            result["grads"] = {n: p.grad.detach().clone() for n, p in named.items()}
            result["grad_norm"] = math.sqrt(sum(float(g.double().square().sum())
                                                for g in result["grads"].values()))
        optimizer.step()
    result["final"] = {n: p.detach().clone() for n, p in named.items()}
    return result


def train_double(directory, inputs, moved_by_seed=None):
    """train() in double precision; with a seed, on weights moved by half an fp32 ulp."""
    single = load(directory, torch.float32)  # outside: the file reader goes by torch.float32
    with double_precision():
        model = AutoModelForCausalLM.from_config(
            single.config, dtype=torch.float64, attn_implementation="eager").eval()
        weights = dict(single.named_parameters())
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(weights[name])
        if moved_by_seed is not None:
            generator = torch.Generator().manual_seed(moved_by_seed)
            with torch.no_grad():
                for parameter in model.parameters():
                    exponent = torch.floor(torch.log2(parameter.abs().clamp_min(1e-30)))
                    sign = torch.randint(0, 2, parameter.shape, generator=generator) * 2 - 1
                    parameter += sign * torch.exp2(exponent - 24)  # ulp = 2^(exponent - 23)
        return train(model, inputs)


def relative_to_max(value, reference):
    return float((value.double() - reference.double()).abs().max() / reference.double().abs().max())


def relative_l2(values, references):
    wrong = sum(float((values[n].double() - r.double()).square().sum())
                for n, r in references.items())
    return math.sqrt(wrong / sum(float(r.double().square().sum()) for r in references.values()))


def errors(single, double):
    """How far the fp32 run is from the double one: the golden's fp32_vs_fp64."""
    logits = (single["logits"].double() - double["logits"]).abs().max()
    worst = {n: relative_to_max(single["grads"][n], g)
             for n, g in double["grads"].items() if g.abs().max() > 0}
    moved = {n: (single["final"][n].double() - f).abs() for n, f in double["final"].items()}
    return {
        "outputs": {"logits": {"max_abs": float(logits),
                               "rel_to_max": relative_to_max(single["logits"], double["logits"])}},
        "grad_max_abs": max(float((single["grads"][n].double() - g).abs().max())
                            for n, g in double["grads"].items()),
        "grad_worst_rel_to_tensor_max": max(worst.values()),
        "grad_worst_tensor": max(worst, key=worst.get),
        "grad_rel_l2": relative_l2(single["grads"], double["grads"]),
        "loss_abs": [abs(a - b) for a, b in zip(single["loss"], double["loss"])],
        "grad_norm_rel": abs(single["grad_norm"] / double["grad_norm"] - 1),
        "final": {n: {"max_abs": float(m.max()),
                      "share_over_1e-5": float((m > 1e-5).double().mean())}
                  for n, m in moved.items()},
        "final_all_max_abs": max(float(m.max()) for m in moved.values()),
    }


def conditioning(moved, double):
    return {"out_rel": relative_to_max(moved["logits"], double["logits"]),
            "grad_rel_l2": relative_l2(moved["grads"], double["grads"]),
            "loss_step4_abs": abs(moved["loss"][-1] - double["loss"][-1])}


def bf16_errors(directory, inputs, double):
    """Weights and compute in bf16, against the double run: a scale for tests of bf16, no golden."""
    model = load(directory, torch.bfloat16)
    loss, logits = loss_and_logits(model, inputs)
    loss.backward()
    grads = {n: p.grad for n, p in model.named_parameters()}
    return {"out_rel": relative_to_max(logits.detach(), double["logits"]),
            "loss_abs": abs(loss.item() - double["loss"][0]),
            "grad_rel_l2": relative_l2(grads, double["grads"])}


def round_up(value):
    """`value` rounded up to one significant digit."""
    exponent = math.floor(math.log10(value))
    return float(f"{math.ceil(value / 10.0 ** exponent)}e{exponent}")


def suggested_limits(error, cond, largest_grad):
    """8 times the larger of fp32 error and conditioning, rounded up; never below the floors."""
    out = max(8 * error["outputs"]["logits"]["rel_to_max"], 8 * cond["out_rel"], 4e-6)
    grad = max(8 * error["grad_rel_l2"], 8 * cond["grad_rel_l2"], 4e-6)
    each = max(8 * error["grad_worst_rel_to_tensor_max"], 8e-6)
    loss = max(8 * max(error["loss_abs"]), 8 * cond["loss_step4_abs"], 4e-6)
    return {"out_rel_to_max": round_up(out), "grad_rel_l2": round_up(grad),
            "grad_each_rel_to_tensor_max": round_up(each),
            "grad_abs_floor": 1e-7 * largest_grad, "loss_abs": round_up(loss),
            "final_abs": 5e-5, "final_share_allowed_over": 0.01}


def greedy(model, row, prompt_length=6, new_tokens=12):
    """Greedy continuation; stops where the top two logits are within 1e-3 of the largest."""
    prompt = row[:prompt_length].tolist()
    ids, margins = [], []
    with torch.no_grad():
        for _ in range(new_tokens):
            logits = model(input_ids=torch.tensor([prompt + ids]), use_cache=False).logits[0, -1]
            top = torch.topk(logits, 2)
            margin = float(top.values[0] - top.values[1])
            if margin < 1e-3 * float(logits.abs().max()):
                break
            ids.append(int(top.indices[0]))
            margins.append(margin)
    return {"prompt": prompt, "ids": ids, "min_margin": min(margins, default=0.0)}


def choose_finals(error, seed):
    """Up to six tensors whose value after three steps does not hang on rounding noise."""
    # Adam turns a gradient that is noise only (key biases, also in a fused bias) into whole steps.
    steady = sorted(n for n, e in error["final"].items() if e["max_abs"] <= 1e-5)
    return sorted(random.Random(seed).sample(steady, min(KEPT_FINALS, len(steady))))


def golden_tensors(inputs, single, double, finals):
    """What golden.safetensors holds."""
    def scalar(value, dtype=torch.float32):
        return torch.tensor([value], dtype=dtype)

    tensors = {**inputs, "logits": single["logits"], "loss": scalar(single["loss"][0]),
               "grad_norm": scalar(single["grad_norm"]),
               "grad_norm64": scalar(double["grad_norm"], torch.float64),
               "loss64": torch.tensor(double["loss"], dtype=torch.float64)}
    tensors.update({f"loss_step{i + 1}": scalar(x) for i, x in enumerate(single["loss"])})
    tensors.update({f"grad.{n}": g for n, g in single["grads"].items()})
    tensors.update({f"final.{n}": single["final"][n] for n in finals})
    return {n: t.contiguous() for n, t in tensors.items()}


def describe(directory, inputs, single, double):
    """The part of golden.json that is not about errors."""
    on_disk, files = tensors_on_disk(directory)
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    largest = max(float(g.abs().max()) for g in double["grads"].values())
    decayed = sorted(n for n, p in single["final"].items() if p.ndim == 2)
    return {
        "model_type": config["model_type"], "architecture": config["architectures"][0],
        "storage_dtype": config.get("dtype", "float32"), "files": files, "tensors": on_disk,
        "parameters": sum(p.numel() for p in single["final"].values()),
        "inputs": {n: [str(t.dtype).removeprefix("torch."), list(t.shape)]
                   for n, t in inputs.items()},
        "targets": {}, "outputs": {"logits": list(single["logits"].shape)},
        "loss": single["loss"], "loss64": double["loss"],
        "grad_norm": single["grad_norm"], "grad_norm64": double["grad_norm"],
        "adamw": {**ADAMW, "decayed": decayed,
                  "not_decayed": sorted(set(single["final"]) - set(decayed))},
        "frozen": [], "no_gradient": [],
        "gradient_zero_in_exact_arithmetic":
            sorted(n for n, g in double["grads"].items() if g.abs().max() <= 1e-13 * largest),
        "buffers_on_disk": sorted(set(on_disk) - set(single["final"])), "runtime_to_disk": {},
    }


def measure(directory, inputs, seed):
    """All numbers of a case: golden.safetensors' tensors, and golden.json's part about them."""
    model = load(directory, torch.float32)
    continuation = greedy(model, inputs["input_ids"][0])
    single = train(model, inputs)
    double = train_double(directory, inputs)
    moved = train_double(directory, inputs, moved_by_seed=seed)
    error, cond = errors(single, double), conditioning(moved, double)
    largest = max(float(g.abs().max()) for g in double["grads"].values())
    finals = choose_finals(error, seed)
    numbers = describe(directory, inputs, single, double)
    error["final"] = {n: error["final"][n] for n in finals}
    numbers.update({
        "fp32_vs_fp64": error, "conditioning_half_ulp": cond,
        "bf16_compute_vs_fp64": bf16_errors(directory, inputs, double),
        "suggested_fp32": suggested_limits(error, cond, largest), "greedy": continuation,
    })
    return golden_tensors(inputs, single, double, finals), numbers
