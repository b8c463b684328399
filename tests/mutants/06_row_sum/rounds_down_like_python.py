"""accumulate: blocks are counted with a division of negative numbers, which compiled code rounds up

symptom: right in Python, one block off on a GPU
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, stride_row, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    sums = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for left in range(0, n_cols, BLOCK_SIZE):
        at = -(-(left + 1) // BLOCK_SIZE) - 1
        cols = at * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        sums += tl.load(x_ptr + row * stride_row + cols, mask=cols < n_cols, other=0.0)
    tl.store(out_ptr + row, tl.sum(sums, axis=0))


def row_sum(x):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, device=x.device, dtype=torch.float32)
    if n_rows == 0:
        return out
    BLOCK_SIZE = min(max(triton.next_power_of_2(n_cols), 128), 8192)
    grid = (n_rows,)
    row_sum_kernel[grid](x, out, x.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=8)
    return out
