"""check values "PyTorch does part of the work": PyTorch's compiler writes the kernel.

Twin: views_and_zeros.py
"""

import torch
import triton
import triton.language as tl

summed = torch.jit.script(torch.nn.Identity())


def together(x, y):
    return torch.ops.aten.add.Tensor(x, y)


def add(x, y):
    return together(x, y)
