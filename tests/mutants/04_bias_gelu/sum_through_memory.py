"""fusion: x + bias goes out to memory in one kernel and comes back in another

symptom: always right, at half the speed that it could have
"""

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
    x_ptrs = x_ptr + rows[:, None] * stride_row + cols[None, :]
    out_ptrs = out_ptr + rows[:, None] * n_cols + cols[None, :]
    col_mask = cols < n_cols
    mask = (rows[:, None] < n_rows) & col_mask[None, :]
    x = tl.load(x_ptrs, mask=mask).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=col_mask).to(tl.float32)
    z = x + bias[None, :]
    tl.store(out_ptrs, z, mask=mask)


@triton.jit
def gelu_kernel(z_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    z = tl.load(z_ptr + offsets, mask=mask)
    out = 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=mask)


def bias_gelu(x, bias):
    """GELU of x plus a bias for each column."""
    n_rows, n_cols = x.shape
    out = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    grid = (triton.cdiv(n_rows, 4), triton.cdiv(n_cols, 256))
    total = torch.empty((n_rows, n_cols), dtype=torch.float32, device=x.device)
    bias_gelu_kernel[grid](
        x, bias, total, n_rows, n_cols, x.stride(0), BLOCK_ROWS=4, BLOCK_COLS=256
    )
    gelu_kernel[(triton.cdiv(out.numel(), 1024),)](total, out, out.numel(), BLOCK_SIZE=1024)
    return out
