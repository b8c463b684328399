"""reduction: a tile holds four rows, and the sum has no axis

symptom: four sums in a row are the same
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, output_ptr, stride_xr, n_rows, n_cols, BLOCK_SIZE: tl.constexpr):
    rows = tl.program_id(axis=0) * 4 + tl.arange(0, 4)
    acc = tl.zeros((4, BLOCK_SIZE), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
        x_ptrs = x_ptr + rows[:, None] * stride_xr + cols[None, :]
        acc += tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)
    total = tl.zeros((4,), dtype=tl.float32) + tl.sum(acc)
    tl.store(output_ptr + rows, total, mask=rows < n_rows)


def row_sum(x):
    """The sums of the rows of a matrix, in float32."""
    n_rows, n_cols = x.shape
    output = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    if n_rows == 0:
        return output
    BLOCK_SIZE = 1024
    grid = (triton.cdiv(n_rows, 4),)
    row_sum_kernel[grid](x, output, x.stride(0), n_rows, n_cols, BLOCK_SIZE=BLOCK_SIZE)
    return output
