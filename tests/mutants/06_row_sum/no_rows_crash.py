"""robust: rows are shared out among at most 64 programs, and 0 rows among none

symptom: right until a batch is empty
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(
    x_ptr, output_ptr, stride_xr, n_rows, n_cols, rows_per_program, BLOCK_SIZE: tl.constexpr
):
    first = tl.program_id(axis=0) * rows_per_program
    for row in range(first, tl.minimum(first + rows_per_program, n_rows)):
        acc = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
        for start in range(0, n_cols, BLOCK_SIZE):
            cols = start + tl.arange(0, BLOCK_SIZE)
            x = tl.load(x_ptr + row * stride_xr + cols, mask=cols < n_cols, other=0.0)
            acc += x.to(tl.float32)
        tl.store(output_ptr + row, tl.sum(acc, axis=0))


def row_sum(x):
    """The sums of the rows of a matrix, in float32."""
    n_rows, n_cols = x.shape
    output = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    BLOCK_SIZE = 1024
    rows_per_program = triton.cdiv(n_rows, min(n_rows, 64))
    grid = (triton.cdiv(n_rows, rows_per_program),)
    row_sum_kernel[grid](
        x, output, x.stride(0), n_rows, n_cols, rows_per_program, BLOCK_SIZE=BLOCK_SIZE
    )
    return output
