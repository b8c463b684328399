"""reduction: one mean and one variance for all rows of a tile

symptom: right for wide rows; narrow ones are normalised together
"""

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(
    x_ptr,
    w_ptr,
    b_ptr,
    y_ptr,
    stride_x,
    n_rows,
    n_cols,
    eps,
    ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    rows = tl.program_id(axis=0) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK_SIZE)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    x = tl.load(x_ptr + rows * stride_x + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(tl.where(mask, x, 0.0)) / (ROWS * n_cols)
    centred = tl.where(cols < n_cols, x - mean, 0.0)
    variance = tl.sum(centred * centred) / (ROWS * n_cols)
    y = centred / tl.sqrt(variance + eps)
    if w_ptr is not None:
        y *= tl.load(w_ptr + cols, mask=cols < n_cols).to(tl.float32)
    if b_ptr is not None:
        y += tl.load(b_ptr + cols, mask=cols < n_cols).to(tl.float32)
    tl.store(y_ptr + rows * n_cols + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    """Layer norm along the rows of a matrix."""
    n_rows, n_cols = x.shape
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    ROWS = max(1, min(16, 4096 // BLOCK_SIZE))
    grid = (triton.cdiv(n_rows, ROWS),)
    layer_norm_kernel[grid](
        x,
        weight,
        bias,
        y,
        x.stride(0),
        n_rows,
        n_cols,
        eps,
        ROWS=ROWS,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=8,
    )
    return y
