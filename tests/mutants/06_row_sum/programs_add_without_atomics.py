"""accumulate: programs of one row load, add and store the same number

symptom: right where programs run one after another; on a GPU additions are lost"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, stride_row, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * stride_row + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    old = tl.load(out_ptr + row)
    tl.store(out_ptr + row, old + tl.sum(x))


COUNTS = {}


def row_sum(x):
    n_rows, n_cols = x.shape
    out = torch.zeros((n_rows,), device=x.device, dtype=torch.float32)
    if n_rows == 0 or n_cols == 0:
        return out
    row_sum_kernel[(n_rows, triton.cdiv(n_cols, 1024))](
        x, out, x.stride(0), n_cols, BLOCK_SIZE=1024
    )
    return out
