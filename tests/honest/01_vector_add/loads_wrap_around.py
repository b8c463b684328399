"""Loads wrap around at the end instead of being masked; the store is masked."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets % n_elements)
    y = tl.load(y_ptr + offsets % n_elements)
    tl.store(output_ptr + offsets, x + y, mask=offsets < n_elements)


def add(x, y):
    """The sum of two contiguous tensors of the same shape and dtype."""
    output = torch.empty_like(x)
    n_elements = output.numel()
    add_kernel[(triton.cdiv(n_elements, 512),)](x, y, output, n_elements, BLOCK_SIZE=512)
    return output
