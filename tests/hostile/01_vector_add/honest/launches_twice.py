"""Two launches, of half of the work each, both done when the launcher returns."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, start, end, BLOCK_SIZE: tl.constexpr):
    offsets = start + tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < end
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n_elements = x.numel()
    half = n_elements // 2 // 16 * 16
    for start, end in ((0, half), (half, n_elements)):
        if end > start:
            grid = (triton.cdiv(end - start, 1024),)
            add_kernel[grid](x, y, out, start, end, BLOCK_SIZE=1024)
    return out
