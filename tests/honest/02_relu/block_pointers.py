"""Block pointers with a boundary check.

requires: triton<3.9
"""

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    start = tl.program_id(axis=0) * BLOCK_SIZE
    x_block = tl.make_block_ptr(x_ptr, (n_elements,), (1,), (start,), (BLOCK_SIZE,), (0,))
    output_block = tl.make_block_ptr(output_ptr, (n_elements,), (1,), (start,), (BLOCK_SIZE,), (0,))
    x = tl.load(x_block, boundary_check=(0,))
    y = tl.where(x > 0, x, 0.0)
    tl.store(output_block, y.to(output_ptr.dtype.element_ty), boundary_check=(0,))


def relu(x):
    """The larger of x and 0, of a contiguous tensor."""
    output = torch.empty_like(x)
    n_elements = output.numel()
    relu_kernel[(triton.cdiv(n_elements, 512),)](x, output, n_elements, BLOCK_SIZE=512)
    return output
