"""check accumulate "are wrong": sums up in the type of the input and stores fp32.

Twin: sums_in_fp32.py.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, stride_row, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    sums = tl.zeros((BLOCK_SIZE,), dtype=x_ptr.dtype.element_ty)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + row * stride_row + cols, mask=cols < n_cols, other=0.0)
        sums = (sums + x).to(x_ptr.dtype.element_ty)
    tl.store(out_ptr + row, tl.sum(sums, axis=0))


def row_sum(x):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, device=x.device, dtype=torch.float32)
    if n_rows:
        block = min(max(triton.next_power_of_2(n_cols), 16), 8192)
        row_sum_kernel[(n_rows,)](x, out, x.stride(0), n_cols, BLOCK_SIZE=block)
    return out
