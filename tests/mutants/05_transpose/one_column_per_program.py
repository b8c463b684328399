"""layout: a program gathers a column of x and writes it side by side

symptom: always right, and several times slower than a copy
"""

import torch
import triton
import triton.language as tl


@triton.jit
def column_kernel(x_ptr, out_ptr, n_rows, stride_row, stride_col, BLOCK_SIZE: tl.constexpr):
    col = tl.program_id(axis=0)
    for start in range(0, n_rows, BLOCK_SIZE):
        rows = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + rows * stride_row + col * stride_col, mask=rows < n_rows)
        tl.store(out_ptr + col * n_rows + rows, x, mask=rows < n_rows)


def transpose(x):
    """Rows become columns."""
    n_rows, n_cols = x.shape
    out = torch.empty((n_cols, n_rows), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    column_kernel[(n_cols,)](x, out, n_rows, *x.stride(), BLOCK_SIZE=1024)
    return out
