"""layout: a program reads a row side by side and writes it as a column

symptom: always right, and several times slower than a copy
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, out_ptr, n_rows, n_cols, stride_row, stride_col, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride_row + cols * stride_col, mask=mask)
    tl.store(out_ptr + cols * n_rows + row, x, mask=mask)


def transpose(x):
    """Rows become columns."""
    n_rows, n_cols = x.shape
    out = torch.empty((n_cols, n_rows), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    row_kernel[(n_rows,)](x, out, n_rows, n_cols, *x.stride(), BLOCK_SIZE=BLOCK_SIZE)
    return out
