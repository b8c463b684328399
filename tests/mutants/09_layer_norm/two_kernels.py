"""fusion: one kernel takes the moments, another one reads x again

symptom: always right; x is read twice where once would do
"""

import torch
import triton
import triton.language as tl


@triton.jit
def moments_kernel(x_ptr, mean_ptr, rstd_ptr, stride_x, n_cols, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride_x + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, tl.rsqrt(tl.sum(centred * centred, axis=0) / n_cols + eps))


@triton.jit
def apply_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, stride_x, n_cols, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride_x + cols, mask=mask).to(tl.float32)
    y = (x - tl.load(mean_ptr + row)) * tl.load(rstd_ptr + row)
    if w_ptr is not None:
        y *= tl.load(w_ptr + cols, mask=mask).to(tl.float32)
    if b_ptr is not None:
        y += tl.load(b_ptr + cols, mask=mask).to(tl.float32)
    tl.store(y_ptr + row * n_cols + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    """Layer norm along the rows of a matrix."""
    n_rows, n_cols = x.shape
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    mean = torch.empty((n_rows,), dtype=torch.float32, device=x.device)
    rstd = torch.empty((n_rows,), dtype=torch.float32, device=x.device)
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    grid = (n_rows,)
    moments_kernel[grid](x, mean, rstd, x.stride(0), n_cols, eps, BLOCK_SIZE=BLOCK_SIZE)
    apply_kernel[grid](
        x, weight, bias, y, mean, rstd, x.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=8
    )
    return y
