"""The steps are device functions, and a helper launches on a list for a grid.

needs: a list for a grid, which compiled kernels take and the bare interpreter does not
"""

import torch
import triton
import triton.language as tl


@triton.jit
def block_of(n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    return offsets, offsets < n_elements


@triton.jit
def sum_of(x, y):
    return x + y


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets, mask = block_of(n_elements, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, sum_of(x, y), mask=mask)


def launch(kernel, output, *inputs, block_size=1024):
    grid = [triton.cdiv(output.numel(), block_size)]
    kernel[grid](*inputs, output, output.numel(), BLOCK_SIZE=block_size)
    return output


def add(x, y):
    """The sum of two contiguous tensors of the same shape and dtype."""
    return launch(add_kernel, torch.empty_like(x), x, y)
