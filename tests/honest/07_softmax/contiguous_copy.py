"""A strided input is copied first, the kernel knows one row stride alone."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, output_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    start = tl.program_id(axis=0) * n_cols
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + start + cols, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    denominator = tl.sum(numerator, axis=0)
    tl.store(output_ptr + start + cols, numerator / denominator, mask=mask)


def softmax(x):
    """Softmax along the rows of a matrix."""
    x = x.contiguous()
    output = torch.empty_like(x)
    n_rows, n_cols = x.shape
    if n_rows > 0 and n_cols > 0:
        BLOCK_SIZE = triton.next_power_of_2(n_cols)
        softmax_kernel[(n_rows,)](x, output, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=8)
    return output
