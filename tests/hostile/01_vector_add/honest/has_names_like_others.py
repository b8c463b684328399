"""Functions and variables of its own that are called like those of PyTorch and Python."""

import torch
import triton
import triton.language as tl


def equal(a, b):
    return a is b


def load(count, block):
    return triton.cdiv(count, block)


time = json = perf_counter = 1024


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    if not equal(x.numel(), 0):
        add_kernel[(load(x.numel(), time),)](x, y, out, x.numel(), BLOCK_SIZE=perf_counter)
    return out
