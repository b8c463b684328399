"""Rows and columns past the end start again from the first: no mask, and the same numbers twice."""

import torch
import triton
import triton.language as tl


@triton.jit
def bias_gelu_kernel(
    x_ptr, bias_ptr, out_ptr, n_rows, n_cols, stride_row, ROWS: tl.constexpr, COLS: tl.constexpr
):
    rows = ((tl.program_id(axis=0) * ROWS + tl.arange(0, ROWS)) % n_rows)[:, None]
    cols = ((tl.program_id(axis=1) * COLS + tl.arange(0, COLS)) % n_cols)[None, :]
    z = tl.load(x_ptr + rows * stride_row + cols).to(tl.float32)
    z += tl.load(bias_ptr + cols).to(tl.float32)
    out = 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))
    tl.store(out_ptr + rows * n_cols + cols, out.to(out_ptr.dtype.element_ty))


def bias_gelu(x, bias):
    """gelu(x + bias), in its exact form."""
    n_rows, n_cols = x.shape
    out = torch.empty((n_rows, n_cols), device=x.device, dtype=x.dtype)
    if out.numel() == 0:
        return out
    grid = (triton.cdiv(n_rows, 8), triton.cdiv(n_cols, 128))
    bias_gelu_kernel[grid](x, bias, out, n_rows, n_cols, x.stride(0), ROWS=8, COLS=128)
    return out
