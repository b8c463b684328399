"""int64 offsets from a loop variable that is cast with .to(tl.int64).

needs: a loop variable that is a tensor; the bare interpreter hands out a Python int
"""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    n_blocks = tl.cdiv(n_elements, BLOCK_SIZE)
    for block in range(tl.program_id(axis=0), n_blocks, tl.num_programs(axis=0)):
        offsets = block.to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask)
        y = tl.load(y_ptr + offsets, mask=mask)
        tl.store(output_ptr + offsets, x + y, mask=mask)


def add(x, y):
    """The sum of two contiguous tensors of the same shape and dtype."""
    output = torch.empty_like(x)
    n_elements = output.numel()
    n_programs = min(16, triton.cdiv(n_elements, 512))
    add_kernel[(n_programs,)](x, y, output, n_elements, BLOCK_SIZE=512)
    return output
