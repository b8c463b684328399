"""mask: the padding holds 1, and is counted

symptom: right for 1024 columns; with 1000 each sum is 24 too large
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, output_ptr, stride_xr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    acc = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + row * stride_xr + cols, mask=cols < n_cols, other=1.0)
        acc += x.to(tl.float32)
    tl.store(output_ptr + row, tl.sum(acc, axis=0))


def row_sum(x):
    """The sums of the rows of a matrix, in float32."""
    n_rows, n_cols = x.shape
    output = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    if n_rows == 0:
        return output
    BLOCK_SIZE = 1024
    grid = (n_rows,)
    row_sum_kernel[grid](x, output, x.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE)
    return output
