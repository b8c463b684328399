"""A grid of two axes, flattened in the kernel."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=1) * tl.num_programs(axis=0) + tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, x + y, mask=mask)


def add(x, y):
    """The sum of two contiguous tensors of the same shape and dtype."""
    output = torch.empty_like(x)
    n_elements = output.numel()
    n_blocks = triton.cdiv(n_elements, 512)
    grid = (min(n_blocks, 4), triton.cdiv(n_blocks, 4))
    add_kernel[grid](x, y, output, n_elements, BLOCK_SIZE=512)
    return output
