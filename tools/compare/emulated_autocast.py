"""bf16 products of PyTorch by fp32 arithmetic, for CPUs on which its own are slow.

  with torch.autocast("cpu", dtype=torch.bfloat16), EmulatedProducts():
      loss = ...
  with EmulatedProducts():
      loss.backward()

Autocast itself runs: it decides what is bf16, forward and backward. Only its products (mm, addmm, bmm,
baddbmm of bf16) are replaced, below autograd: operands are widened, which is exact, multiplied and
added in fp32, and the result is rounded to bf16 once. That is what kernels with bf16 instructions do
but for the order of additions: of the elements of a product of gpt2-30m one in ten thousand
to one in three thousand is rounded to the other neighbour. A few layers on, those have changed most
other roundings. So losses agree with those of PyTorch's own products only as two draws of the same
noise do; `tools/compare_losses --check_emulation=10` prints both beside fp32.
"""
import torch
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default,
            torch.ops.aten.baddbmm.default}


class EmulatedProducts(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in PRODUCTS and args[0].dtype == torch.bfloat16:
            return func(*(x.float() for x in args), **kwargs).bfloat16()
        return func(*args, **kwargs)
