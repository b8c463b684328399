"""A loop in the kernel and one in the launcher, both of which end."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    start = tl.program_id(axis=0) * 4 * BLOCK_SIZE
    for step in range(4):
        offsets = start + step * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n_elements
        total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, total, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    block = 16
    while block < 256:
        block *= 2
    if x.numel():
        grid = (triton.cdiv(x.numel(), 4 * block),)
        add_kernel[grid](x, y, out, x.numel(), BLOCK_SIZE=block)
    return out
