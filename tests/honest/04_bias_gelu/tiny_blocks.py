"""Tiles of 2 by 16, and 64-bit offsets."""

import torch
import triton
import triton.language as tl


@triton.jit
def tiny_kernel(x_ptr, bias_ptr, out_ptr, n_rows, n_cols, stride_row):
    rows = tl.program_id(axis=0).to(tl.int64) * 2 + tl.arange(0, 2)[:, None]
    cols = tl.program_id(axis=1).to(tl.int64) * 16 + tl.arange(0, 16)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    z = tl.load(x_ptr + rows * stride_row + cols, mask=mask).to(tl.float32)
    z = z + tl.load(bias_ptr + cols, mask=cols < n_cols).to(tl.float32)
    y = (z + z * tl.erf(z * 0.7071067811865476)) * 0.5
    tl.store(out_ptr + rows * n_cols + cols, y, mask=mask)


def bias_gelu(x, bias):
    """GELU of x + bias."""
    n_rows, n_cols = x.shape
    out = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    grid = (triton.cdiv(n_rows, 2), triton.cdiv(n_cols, 16))
    tiny_kernel[grid](x, bias, out, n_rows, n_cols, x.stride(0), num_warps=1)
    return out
