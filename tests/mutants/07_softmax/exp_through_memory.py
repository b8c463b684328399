"""fusion: exp goes out to memory in one kernel and comes back in another

symptom: always right, at half the speed that it could have
"""

import torch
import triton
import triton.language as tl


@triton.jit
def exp_kernel(x_ptr, exp_ptr, stride_xr, stride_xc, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride_xr + cols * stride_xc, mask=mask, other=-float("inf"))
    x = x.to(tl.float32)
    tl.store(exp_ptr + row * n_cols + cols, tl.exp(x - tl.max(x, axis=0)), mask=mask)


@triton.jit
def divide_kernel(exp_ptr, output_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    numerator = tl.load(exp_ptr + row * n_cols + cols, mask=mask, other=0.0)
    denominator = tl.sum(numerator, axis=0)
    tl.store(output_ptr + row * n_cols + cols, numerator / denominator, mask=mask)


def softmax(x):
    """Softmax along the rows of a matrix."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if output.numel() == 0:
        return output
    exp = torch.empty((n_rows, n_cols), dtype=torch.float32, device=x.device)
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    exp_kernel[(n_rows,)](x, exp, x.stride(0), x.stride(1), n_cols, BLOCK_SIZE, num_warps=8)
    divide_kernel[(n_rows,)](exp, output, n_cols, BLOCK_SIZE, num_warps=8)
    return output
