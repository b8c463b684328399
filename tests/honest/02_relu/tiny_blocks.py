"""Blocks of 32 elements, and other names for everything."""

import torch
import triton
import triton.language as tl


@triton.jit
def keep_positive(source, target, count, WIDTH: tl.constexpr):
    where = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = where < count
    v = tl.load(source + where, inside)
    tl.store(target + where, tl.where(v > 0, v, 0.0), inside)


def relu(x):
    """The larger of x and 0, of a contiguous tensor."""
    result = torch.zeros_like(x)
    keep_positive[(triton.cdiv(x.numel(), 32),)](x, result, x.numel(), 32)
    return result
