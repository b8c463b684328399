"""autotune: x is restored after each trial, and the residual is not

symptom: the first call with a width is far off, every later one is right
"""

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({}, num_warps=w) for w in (4, 8, 16, 32)]


@triton.autotune(configs=CONFIGS, key=["n_cols"], restore_value=["x_ptr"])
@triton.jit
def add_rms_norm_kernel(
    x_ptr, residual_ptr, weight_ptr, y_ptr, n_cols, eps, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    offsets = row * n_cols + cols
    mask = cols < n_cols
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    total = x + residual
    tl.store(residual_ptr + offsets, total, mask=mask)
    mean_square = tl.sum(total * total, axis=0) / n_cols
    rstd = tl.rsqrt(mean_square + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + offsets, total * rstd * weight, mask=mask)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    """Adds x to residual in place; returns it behind its root mean square norm."""
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    if y.numel() == 0:
        return y, residual
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    add_rms_norm_kernel[(n_rows,)](x, residual, weight, y, n_cols, eps, BLOCK_SIZE=BLOCK_SIZE)
    return y, residual
