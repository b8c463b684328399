"""The start of a block is worked out from the loop variable and widened to int64."""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, stride_row, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    row_ptr = x_ptr + row * stride_row
    sums = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, tl.cdiv(n_cols, BLOCK_SIZE)):
        cols = (start * BLOCK_SIZE).to(tl.int64) + tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        x = tl.load(row_ptr + cols, mask=mask, other=0.0)
        sums += x
    total = tl.sum(sums, axis=0)
    tl.store(out_ptr + row, total)


def row_sum(x):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, device=x.device, dtype=torch.float32)
    if n_rows == 0:
        return out
    BLOCK_SIZE = min(max(triton.next_power_of_2(n_cols), 128), 8192)
    grid = (n_rows,)
    row_sum_kernel[grid](x, out, x.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=8)
    return out
