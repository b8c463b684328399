"""Both walks read x and the residual; the second one stores."""

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_SIZE": 512}, num_warps=4),
    triton.Config({"BLOCK_SIZE": 256}, num_warps=2),
    triton.Config({"BLOCK_SIZE": 128}, num_warps=1),
    triton.Config({"BLOCK_SIZE": 64}, num_warps=1),
]


@triton.autotune(configs=CONFIGS, key=["n_cols"], restore_value=["residual_ptr"])
@triton.jit
def add_rms_norm_kernel(
    x_ptr, residual_ptr, weight_ptr, y_ptr, n_cols, eps, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0).to(tl.int64)
    first = row * n_cols
    squares = tl.zeros((BLOCK_SIZE,), tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        x = tl.load(x_ptr + first + cols, mask=mask, other=0.0).to(tl.float32)
        total = x + tl.load(residual_ptr + first + cols, mask=mask, other=0.0).to(tl.float32)
        squares += total * total
    root = tl.sqrt(tl.sum(squares) / n_cols + eps)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        x = tl.load(x_ptr + first + cols, mask=mask).to(tl.float32)
        total = x + tl.load(residual_ptr + first + cols, mask=mask).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=mask).to(tl.float32)
        tl.store(residual_ptr + first + cols, total, mask=mask)
        tl.store(y_ptr + first + cols, total / root * weight, mask=mask)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    """Adds x to residual in place; returns it behind its root mean square norm."""
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    if y.numel() == 0:
        return y, residual
    add_rms_norm_kernel[(n_rows,)](x, residual, weight, y, n_cols, eps)
    return y, residual
