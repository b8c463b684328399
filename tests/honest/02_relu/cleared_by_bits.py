"""The sign bit is turned into a mask of bits: no comparison of numbers at all."""

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    # All bits are 1 in lanes whose sign bit is 0, and 0 elsewhere.
    if x.dtype.primitive_bitwidth == 32:
        bits = x.to(tl.int32, bitcast=True)
        y = (bits & ~(bits >> 31)).to(x.dtype, bitcast=True)
    else:
        bits = x.to(tl.int16, bitcast=True)
        y = (bits & ~(bits >> 15)).to(x.dtype, bitcast=True)
    tl.store(output_ptr + offsets, y, mask=mask)


def relu(x):
    """The larger of x and 0, of a contiguous tensor."""
    output = torch.empty_like(x)
    n_elements = output.numel()
    BLOCK_SIZE = 1024
    grid = (triton.cdiv(n_elements, BLOCK_SIZE),)
    relu_kernel[grid](x, output, n_elements, BLOCK_SIZE=BLOCK_SIZE)
    return output
