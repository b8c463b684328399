"""robust: wide rows are taken to follow one another

symptom: right for narrow rows and for contiguous ones"""

import torch
import triton
import triton.language as tl


@triton.jit
def bias_gelu_kernel(
    x_ptr,
    bias_ptr,
    out_ptr,
    n_rows,
    n_cols,
    stride_row,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):
    pid_row = tl.program_id(axis=0)
    pid_col = tl.program_id(axis=1)
    rows = pid_row * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    cols = pid_col * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    col_mask = cols < n_cols
    mask = (rows[:, None] < n_rows) & col_mask[None, :]
    x = tl.load(x_ptr + rows[:, None] * stride_row + cols[None, :], mask=mask).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=col_mask).to(tl.float32)
    z = x + bias[None, :]
    out = 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))
    tl.store(
        out_ptr + rows[:, None] * n_cols + cols[None, :],
        out.to(out_ptr.dtype.element_ty),
        mask=mask,
    )


def bias_gelu(x, bias):
    n_rows, n_cols = x.shape
    out = torch.empty((n_rows, n_cols), device=x.device, dtype=x.dtype)
    if n_rows == 0 or n_cols == 0:
        return out
    grid = (triton.cdiv(n_rows, 4), triton.cdiv(n_cols, 256))
    bias_gelu_kernel[grid](
        x,
        bias,
        out,
        n_rows,
        n_cols,
        x.stride(0) if n_cols < 1024 else n_cols,
        BLOCK_ROWS=4,
        BLOCK_COLS=256,
    )
    return out
