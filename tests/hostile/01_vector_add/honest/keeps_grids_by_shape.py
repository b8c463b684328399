"""Keeps the grid for each shape, and knows some sizes by heart without being lost with others."""

import torch
import triton
import triton.language as tl

grids = {}
USUAL = {1000, 4099, 20_011}


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements:
        if x.shape not in grids:
            grids[x.shape] = (triton.cdiv(n_elements, 1024),)
        warps = 8 if n_elements in USUAL else 4
        add_kernel[grids[x.shape]](x, y, out, n_elements, BLOCK_SIZE=1024, num_warps=warps)
    return out
