"""Blocks of 32 elements, and other names for everything."""

import torch
import triton
import triton.language as tl


@triton.jit
def plus(left, right, into, count, WIDTH: tl.constexpr):
    first = tl.program_id(0) * WIDTH
    where = first + tl.arange(0, WIDTH)
    inside = where < count
    p = tl.load(left + where, mask=inside)
    q = tl.load(right + where, mask=inside)
    tl.store(into + where, p + q, mask=inside)


def add(x, y):
    """The sum of two contiguous tensors of the same shape and dtype."""
    result = torch.empty_like(x)
    plus[(triton.cdiv(x.numel(), 32),)](x, y, result, x.numel(), 32)
    return result
