"""One rank of PyTorch's all_reduce over gloo; started by tools/compare_gloo, which tells the rest.

  gloo_all_reduce.py RANK RANKS FILE BYTES[,BYTES...] SECONDS

Ranks meet through FILE. Rank 0 prints a JSON object a size: the median of all repetitions, of each
the slowest rank's time.
"""
import json
import sys
import time

import torch
import torch.distributed as dist


def measure(tensor, seconds):
    for _ in range(3):
        dist.all_reduce(tensor)
    start = time.perf_counter()
    dist.all_reduce(tensor)
    first = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
    dist.all_reduce(first, op=dist.ReduceOp.MAX)
    repetitions = max(5, min(20000, int(seconds / first.item())))
    times = torch.empty(repetitions, dtype=torch.float64)
    dist.barrier()
    for i in range(repetitions):
        start = time.perf_counter()
        dist.all_reduce(tensor)
        times[i] = time.perf_counter() - start
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return times


def main():
    rank, ranks, path, sizes, seconds = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + path, rank=int(rank),
                            world_size=int(ranks))
    for size in map(int, sizes.split(",")):
        times = measure(torch.full((size // 4,), 1e-30), float(seconds))
        if int(rank) == 0:
            print(json.dumps({"backend": "gloo", "ranks": int(ranks), "bytes": size,
                              "seconds": times.median().item(), "least": times.min().item(),
                              "repetitions": len(times)}), flush=True)
    dist.destroy_process_group()


main()
