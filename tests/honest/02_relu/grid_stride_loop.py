"""Always eight programs, each of which strides through the tensor."""

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    step = tl.num_programs(axis=0) * BLOCK_SIZE
    for start in range(tl.program_id(axis=0) * BLOCK_SIZE, n_elements, step):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask)
        tl.store(output_ptr + offsets, tl.where(x > 0, x, 0.0), mask=mask)


def relu(x):
    """The larger of x and 0, of a contiguous tensor."""
    output = torch.empty_like(x)
    n_elements = output.numel()
    relu_kernel[(8,)](x, output, n_elements, BLOCK_SIZE=512)
    return output
