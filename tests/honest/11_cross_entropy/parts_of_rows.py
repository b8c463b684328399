"""Long rows are split in four: partial maxima and sums by one kernel, put together by every program of a second."""

import torch
import triton
import triton.language as tl


@triton.jit
def partial_kernel(
    logits_ptr,
    maxima_ptr,
    sums_ptr,
    stride_row,
    n_cols,
    PARTS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    row, part = tl.program_id(axis=0), tl.program_id(axis=1)
    top = -1e38
    total = 0.0
    for start in range(part * BLOCK_SIZE, n_cols, PARTS * BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(logits_ptr + row * stride_row + cols, cols < n_cols, -float("inf"))
        x = x.to(tl.float32)
        higher = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(x - higher), axis=0)
        top = higher
    tl.store(maxima_ptr + row * PARTS + part, top)
    tl.store(sums_ptr + row * PARTS + part, total)


@triton.jit
def gradient_kernel(
    logits_ptr,
    target_ptr,
    maxima_ptr,
    sums_ptr,
    loss_ptr,
    grad_ptr,
    stride_row,
    n_cols,
    ignored,
    PARTS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    row, part = tl.program_id(axis=0), tl.program_id(axis=1)
    maxima = tl.load(maxima_ptr + row * PARTS + tl.arange(0, PARTS))
    top = tl.max(maxima, axis=0)
    sums = tl.load(sums_ptr + row * PARTS + tl.arange(0, PARTS))
    total = tl.sum(sums * tl.exp(maxima - top), axis=0)
    target = tl.load(target_ptr + row)
    keep = target != ignored
    if part == 0:
        own = tl.load(logits_ptr + row * stride_row + target, keep, 0.0).to(tl.float32)
        tl.store(loss_ptr + row, tl.where(keep, tl.log(total) + top - own, 0.0))
    for start in range(part * BLOCK_SIZE, n_cols, PARTS * BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(logits_ptr + row * stride_row + cols, cols < n_cols, 0.0).to(tl.float32)
        grad = tl.exp(x - top) / total
        grad = tl.where(keep, tl.where(cols == target, grad - 1.0, grad), 0.0)
        tl.store(grad_ptr + row * n_cols + cols, grad, cols < n_cols)


def cross_entropy(logits, target, ignore_index=-100):
    """The cross entropy of every row, and its gradient."""
    n_rows, n_cols = logits.shape
    loss = torch.empty(n_rows, dtype=torch.float32, device=logits.device)
    grad = torch.empty((n_rows, n_cols), dtype=logits.dtype, device=logits.device)
    if n_rows == 0:
        return loss, grad
    PARTS = 4 if n_cols >= 8192 else 1
    maxima, sums = torch.empty((2, n_rows, PARTS), dtype=torch.float32, device=logits.device)
    step = logits.stride(0)
    partial_kernel[(n_rows, PARTS)](logits, maxima, sums, step, n_cols, PARTS, BLOCK_SIZE=2048)
    gradient_kernel[(n_rows, PARTS)](
        logits, target, maxima, sums, loss, grad, step, n_cols, ignore_index, PARTS, BLOCK_SIZE=2048
    )
    return loss, grad
