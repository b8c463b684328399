"""Imports what comes with Python and PyTorch, and uses it for the launch."""

from __future__ import annotations

import functools
import math
import os  # noqa: F401
import sys  # noqa: F401

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@functools.lru_cache(None)
def block_for(n_elements):
    return 1 << min(max(math.ceil(math.log2(n_elements)), 4), 10)


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements:
        block = block_for(1024)
        grid = (triton.cdiv(n_elements, block),)
        add_kernel[grid](x, y, out, n_elements, BLOCK_SIZE=block)
    return out
