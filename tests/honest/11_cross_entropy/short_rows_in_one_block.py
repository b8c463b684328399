"""Rows up to 16,384 are held in one block and read once; longer ones are walked, and autotuned."""

import torch
import triton
import triton.language as tl


@triton.jit
def short_kernel(
    logits_ptr,
    target_ptr,
    loss_ptr,
    grad_ptr,
    stride_row,
    n_cols,
    ignored,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    target = tl.load(target_ptr + row)
    x = tl.load(logits_ptr + row * stride_row + cols, mask=mask, other=-float("inf"))
    x = x.to(tl.float32)
    x -= tl.max(x, axis=0)
    numerator = tl.exp(x)
    total = tl.sum(numerator, axis=0)
    hit = cols == target
    loss = tl.log(total) - tl.sum(tl.where(hit, x, 0.0), axis=0)
    grad = numerator / total - tl.where(hit, 1.0, 0.0)
    if target == ignored:
        loss = 0.0
        grad = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    tl.store(loss_ptr + row, loss)
    tl.store(grad_ptr + row * n_cols + cols, grad, mask=mask)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_SIZE": 4096}, num_warps=8),
        triton.Config({"BLOCK_SIZE": 16384}, num_warps=32),
    ],
    key=["n_cols"],
)
@triton.jit
def long_kernel(
    logits_ptr,
    target_ptr,
    loss_ptr,
    grad_ptr,
    stride_row,
    n_cols,
    ignored,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(axis=0)
    target = tl.load(target_ptr + row)
    keep = target != ignored
    logits_ptr += row * stride_row
    top = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(
            logits_ptr + cols,
            mask=(cols < n_cols) & keep,
            other=-float("inf"),
            eviction_policy="evict_last",
        ).to(tl.float32)
        higher = tl.maximum(top, tl.max(x, axis=0))
        shift = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(top - shift) + tl.sum(tl.exp(x - shift), axis=0)
        top = higher
    own = tl.load(logits_ptr + target, mask=keep, other=0.0).to(tl.float32)
    tl.store(loss_ptr + row, tl.where(keep, tl.log(total) + top - own, 0.0))
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(
            logits_ptr + cols,
            mask=(cols < n_cols) & keep,
            other=-float("inf"),
            eviction_policy="evict_first",
        ).to(tl.float32)
        grad = tl.where(keep, tl.exp(x - top) / total - tl.where(cols == target, 1.0, 0.0), 0.0)
        tl.store(grad_ptr + row * n_cols + cols, grad, mask=cols < n_cols)


def cross_entropy(logits, target, ignore_index=-100):
    """The cross entropy of every row, and its gradient."""
    n_rows, n_cols = logits.shape
    loss = torch.empty(n_rows, dtype=torch.float32, device=logits.device)
    grad = torch.empty((n_rows, n_cols), dtype=logits.dtype, device=logits.device)
    if n_rows == 0:
        return loss, grad
    arguments = (logits, target, loss, grad, logits.stride(0), n_cols, ignore_index)
    if n_cols <= 16384:
        BLOCK_SIZE = max(triton.next_power_of_2(n_cols), 16)
        short_kernel[(n_rows,)](*arguments, BLOCK_SIZE=BLOCK_SIZE, num_warps=8)
    else:
        long_kernel[(n_rows,)](*arguments)
    return loss, grad
