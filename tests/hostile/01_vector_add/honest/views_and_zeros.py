"""Views, flattens and fills tensors, as a launcher may."""

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


def add(x, y):
    out = torch.zeros_like(x)
    if x.numel():
        flat = [one.contiguous().view(-1) for one in (x, y)]
        grid = (triton.cdiv(x.numel(), 1024),)
        add_kernel[grid](*flat, out.view(-1), x.numel(), BLOCK_SIZE=1024)
    return out
