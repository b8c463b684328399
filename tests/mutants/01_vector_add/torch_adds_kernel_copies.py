"""values: PyTorch adds, the kernel only copies its result

symptom: always right, and never faster than PyTorch
"""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(total_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    tl.store(output_ptr + offsets, tl.load(total_ptr + offsets, mask=mask), mask=mask)


def add(x, y):
    """The sum of two contiguous tensors of the same shape and dtype."""
    total = x + y
    output = torch.empty_like(total)
    n_elements = output.numel()
    BLOCK_SIZE = 1024
    grid = (triton.cdiv(n_elements, BLOCK_SIZE),)
    add_kernel[grid](total, output, n_elements, BLOCK_SIZE=BLOCK_SIZE)
    return output
