#!/usr/bin/env python3
"""Training steps of PyTorch + transformers on several CPU processes, for tools/compare_ranks.

Starts --ranks processes with gloo, --threads each, and prints one JSON line:
  {"seconds": [one per step after the warm-up], "torch": version}
--parallel=fsdp shards each block and the rest (fully_shard), ddp averages gradients. Otherwise a step
is that of pytorch_step.py; --rows are of all ranks together. PyTorch's fused AdamW does not take
sharded parameters, so fsdp runs without it.
"""
import argparse
import json
import os
import sys
import time


def run(rank, options):
    import torch
    import transformers
    import torch.distributed as dist
    torch.set_num_threads(options.threads)
    dist.init_process_group("gloo", rank=rank, world_size=options.ranks)
    config = transformers.AutoConfig.from_pretrained(options.model)
    config.use_cache = False
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="sdpa", dtype=torch.float32).train()
    if options.parallel == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh("cpu", (options.ranks,))
        for module in model.modules():
            if type(module).__name__.endswith(("Block", "DecoderLayer")):
                fully_shard(module, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1, fused=options.parallel == "ddp")
    ids = torch.randint(0, config.vocab_size, (options.rows // options.ranks, options.length))
    seconds = []
    for _ in range(options.warm_up + options.steps):
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.precision == "bf16"):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        seconds.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps({"seconds": seconds[options.warm_up:], "torch": torch.__version__}))
        sys.stdout.flush()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder with a config.json")
    parser.add_argument("--rows", type=int, required=True, help="rows a step, of all ranks")
    parser.add_argument("--length", type=int, required=True, help="tokens a row")
    parser.add_argument("--precision", choices=["bf16", "fp32"], required=True)
    parser.add_argument("--parallel", choices=["fsdp", "ddp"], required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--warm_up", type=int, default=2)
    options = parser.parse_args()
    os.environ.update({"OMP_NUM_THREADS": str(options.threads), "HF_HUB_OFFLINE": "1",
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517",
                       "GLOO_SOCKET_IFNAME": "lo"})
    import torch.multiprocessing
    torch.multiprocessing.spawn(run, args=(options,), nprocs=options.ranks)


if __name__ == "__main__":
    main()
