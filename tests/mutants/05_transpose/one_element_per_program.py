"""layout: every program moves a single element

symptom: always right, and a hundred times slower than a copy
"""

import torch
import triton
import triton.language as tl


@triton.jit
def element_kernel(x_ptr, out_ptr, n_rows, stride_row, stride_col):
    row, col = tl.program_id(axis=0), tl.program_id(axis=1)
    x = tl.load(x_ptr + row * stride_row + col * stride_col)
    tl.store(out_ptr + col * n_rows + row, x)


def transpose(x):
    """Rows become columns."""
    n_rows, n_cols = x.shape
    out = torch.empty((n_cols, n_rows), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    element_kernel[(n_rows, n_cols)](x, out, n_rows, *x.stride())
    return out
