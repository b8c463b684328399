"""Block pointers with boundary checks in place of masks.

requires: triton<3.9
"""

import torch
import triton
import triton.language as tl


@triton.jit
def block_kernel(
    x_ptr, bias_ptr, out_ptr, n_rows, n_cols, stride_row, ROWS: tl.constexpr, COLS: tl.constexpr
):
    row = tl.program_id(axis=0) * ROWS
    col = tl.program_id(axis=1) * COLS
    x_block = tl.make_block_ptr(
        x_ptr, (n_rows, n_cols), (stride_row, 1), (row, col), (ROWS, COLS), (1, 0)
    )
    bias_block = tl.make_block_ptr(bias_ptr, (n_cols,), (1,), (col,), (COLS,), (0,))
    out_block = tl.make_block_ptr(
        out_ptr, (n_rows, n_cols), (n_cols, 1), (row, col), (ROWS, COLS), (1, 0)
    )
    x = tl.load(x_block, boundary_check=(0, 1), padding_option="zero").to(tl.float32)
    bias = tl.load(bias_block, boundary_check=(0,), padding_option="zero").to(tl.float32)
    z = x + bias[None, :]
    y = 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))
    tl.store(out_block, y.to(out_ptr.dtype.element_ty), boundary_check=(0, 1))


def bias_gelu(x, bias):
    """GELU of x + bias."""
    n_rows, n_cols = x.shape
    out = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    grid = (triton.cdiv(n_rows, 8), triton.cdiv(n_cols, 64))
    block_kernel[grid](x, bias, out, n_rows, n_cols, x.stride(0), ROWS=8, COLS=64)
    return out
