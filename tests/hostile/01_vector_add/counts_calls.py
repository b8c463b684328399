"""check contract "(n=": works in the first call for a size, and leaves the second to luck.

Twin: counts_its_calls.py, which counts as well and works every time.
"""

import torch
import triton
import triton.language as tl

calls = {}


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x, y):
    calls[x.shape] = calls.get(x.shape, 0) + 1
    if calls[x.shape] > 1:
        return torch.zeros_like(x)
    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements:
        grid = (triton.cdiv(n_elements, 1024),)
        add_kernel[grid](x, y, out, n_elements, BLOCK_SIZE=1024)
    return out
