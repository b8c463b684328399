"""mask: the load leaves out the last element, the store does not

symptom: the last number of the result is 0 or garbage, whatever x holds there
"""

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements - 1)
    tl.store(output_ptr + offsets, tl.where(x > 0, x, 0.0), mask=mask)


def relu(x):
    """The larger of x and 0, of a contiguous tensor."""
    output = torch.empty_like(x)
    n_elements = output.numel()
    BLOCK_SIZE = 1024
    grid = (triton.cdiv(n_elements, BLOCK_SIZE),)
    relu_kernel[grid](x, output, n_elements, BLOCK_SIZE=BLOCK_SIZE)
    return output
