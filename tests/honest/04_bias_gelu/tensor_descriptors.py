"""Tensor descriptors where memory is aligned, plain pointers elsewhere."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu(z):
    return 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))


@triton.jit
def with_descriptors(
    x_ptr, bias_ptr, out_ptr, n_rows, n_cols, stride_row, ROWS: tl.constexpr, COLS: tl.constexpr
):
    row = tl.program_id(axis=0) * ROWS
    col = tl.program_id(axis=1) * COLS
    x_desc = tl.make_tensor_descriptor(x_ptr, [n_rows, n_cols], [stride_row, 1], [ROWS, COLS])
    out_desc = tl.make_tensor_descriptor(out_ptr, [n_rows, n_cols], [n_cols, 1], [ROWS, COLS])
    bias_desc = tl.make_tensor_descriptor(bias_ptr, [n_cols], [1], [COLS])
    bias = bias_desc.load([col]).to(tl.float32)
    z = x_desc.load([row, col]).to(tl.float32) + bias[None, :]
    out_desc.store([row, col], gelu(z).to(out_ptr.dtype.element_ty))


@triton.jit
def with_pointers(
    x_ptr, bias_ptr, out_ptr, n_rows, n_cols, stride_row, ROWS: tl.constexpr, COLS: tl.constexpr
):
    rows = tl.program_id(axis=0) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.program_id(axis=1) * COLS + tl.arange(0, COLS)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    bias = tl.load(bias_ptr + cols, mask=cols < n_cols).to(tl.float32)
    z = tl.load(x_ptr + rows * stride_row + cols, mask=mask).to(tl.float32) + bias
    tl.store(out_ptr + rows * n_cols + cols, gelu(z), mask=mask)


def fits_descriptor(t):
    row_bytes = t.stride(0) * t.element_size() if t.dim() == 2 else 16
    return t.data_ptr() % 16 == 0 and t.stride(-1) == 1 and row_bytes % 16 == 0 < row_bytes


def bias_gelu(x, bias):
    """GELU of x + bias."""
    n_rows, n_cols = x.shape
    out = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    triton.set_allocator(
        lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=x.device)
    )
    described = all(fits_descriptor(t) for t in (x, bias, out))
    kernel = with_descriptors if described else with_pointers
    grid = (triton.cdiv(n_rows, 8), triton.cdiv(n_cols, 128))
    kernel[grid](x, bias, out, n_rows, n_cols, x.stride(0), ROWS=8, COLS=128)
    return out
