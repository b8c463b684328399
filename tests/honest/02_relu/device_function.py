"""The decision is a device function of its own, all arguments are passed by name."""

import torch
import triton
import triton.language as tl


@triton.jit
def positive_part(block):
    return tl.where(block >= 0, block, tl.zeros_like(block))


@triton.jit
def relu_kernel(x_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, positive_part(x), mask=mask)


def relu(x):
    """The larger of x and 0, of a contiguous tensor."""
    output = torch.empty_like(x)
    n_elements = output.numel()
    BLOCK_SIZE = 1024
    grid = (triton.cdiv(n_elements, BLOCK_SIZE),)
    relu_kernel[grid](BLOCK_SIZE=BLOCK_SIZE, n_elements=n_elements, output_ptr=output, x_ptr=x)
    return output
