"""Blocks of 8192 elements with eight warps, output made by new_empty."""

import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = n_elements > offsets
    total = tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask)
    tl.store(output_ptr + offsets, total, mask)


def add(x, y):
    """The sum of two contiguous tensors of the same shape and dtype."""
    output = x.new_empty(x.shape)
    n_elements = x.numel()
    grid = (triton.cdiv(n_elements, 8192), 1, 1)
    add_kernel[grid](x, y, output, n_elements, BLOCK_SIZE=8192, num_warps=8, num_stages=1)
    return output
