"""Always eight programs, each of which strides through the tensor."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    step = tl.num_programs(axis=0) * BLOCK_SIZE
    for start in range(tl.program_id(axis=0) * BLOCK_SIZE, n_elements, step):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask)
        y = tl.load(y_ptr + offsets, mask=mask)
        tl.store(output_ptr + offsets, x + y, mask=mask)


def add(x, y):
    """The sum of two contiguous tensors of the same shape and dtype."""
    output = torch.empty_like(x)
    add_kernel[(8,)](x, y, output, x.numel(), BLOCK_SIZE=256)
    return output
