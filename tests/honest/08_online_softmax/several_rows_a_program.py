"""Tiles of four rows, one maximum and one sum for each."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(
    x_ptr, output_ptr, stride_xr, n_rows, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr
):
    rows = tl.program_id(axis=0) * ROWS + tl.arange(0, ROWS)[:, None]
    row_max = tl.full((ROWS, 1), -float("inf"), tl.float32)
    row_sum = tl.zeros((ROWS, 1), tl.float32)
    for start in range(0, n_cols, COLS):
        cols = start + tl.arange(0, COLS)[None, :]
        mask = (rows < n_rows) & (cols < n_cols)
        x = tl.load(x_ptr + rows * stride_xr + cols, mask=mask, other=-float("inf"))
        x = x.to(tl.float32)
        new_max = tl.maximum(row_max, tl.max(x, axis=1, keep_dims=True))
        shift = tl.where(new_max == -float("inf"), 0.0, new_max)
        numerator = tl.exp(x - shift)
        row_sum = row_sum * tl.exp(row_max - shift) + tl.sum(numerator, axis=1, keep_dims=True)
        row_max = new_max
    for start in range(0, n_cols, COLS):
        cols = start + tl.arange(0, COLS)[None, :]
        mask = (rows < n_rows) & (cols < n_cols)
        x = tl.load(x_ptr + rows * stride_xr + cols, mask=mask, other=-float("inf"))
        result = tl.exp(x.to(tl.float32) - row_max) / row_sum
        tl.store(output_ptr + rows * n_cols + cols, result, mask=mask)


def online_softmax(x):
    """Softmax along the rows of a matrix."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if output.numel() > 0:
        grid = (triton.cdiv(n_rows, 4),)
        softmax_kernel[grid](
            x, output, x.stride(0), n_rows, n_cols, ROWS=4, COLS=8192, num_warps=16
        )
    return output
