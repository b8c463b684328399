"""Counts its calls and keeps a workspace that is never returned; works every time."""

import torch
import triton
import triton.language as tl

calls = 0
workspace = torch.empty(0)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x, y):
    global calls, workspace
    calls += 1
    out = torch.empty_like(x)
    if x.numel():
        workspace = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 1024),)
        add_kernel[grid](x, y, out, x.numel(), BLOCK_SIZE=1024)
    return out
