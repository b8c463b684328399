"""A kernel for the loss, which leaves log-sum-exps behind, and a second one for the gradient, over tiles."""

import torch
import triton
import triton.language as tl


@triton.jit
def loss_kernel(
    logits_ptr, target_ptr, loss_ptr, lse_ptr, stride_row, n_cols, ignored, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0)
    logits_ptr += row * stride_row
    target = tl.load(target_ptr + row)
    row_max = tl.full((), -float("inf"), tl.float32)
    row_sum = tl.full((), 0.0, tl.float32)
    target_logit = tl.full((), 0.0, tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(logits_ptr + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new_max = tl.maximum(row_max, tl.max(x, axis=0))
        row_sum = row_sum * tl.exp(row_max - new_max) + tl.sum(tl.exp(x - new_max), axis=0)
        row_max = new_max
        # The target's own logit comes past here too.
        target_logit += tl.sum(tl.where(cols == target, x, 0.0), axis=0)
    lse = row_max + tl.log(row_sum)
    tl.store(lse_ptr + row, lse)
    tl.store(loss_ptr + row, tl.where(target == ignored, 0.0, lse - target_logit))


@triton.jit
def grad_kernel(
    logits_ptr,
    target_ptr,
    lse_ptr,
    grad_ptr,
    stride_row,
    n_rows,
    n_cols,
    ignored,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    rows = tl.program_id(axis=0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(axis=1) * COLS + tl.arange(0, COLS)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    target = tl.load(target_ptr + rows, mask=rows < n_rows, other=0)
    lse = tl.load(lse_ptr + rows, mask=rows < n_rows, other=0.0)
    x = tl.load(logits_ptr + rows[:, None] * stride_row + cols[None, :], mask=mask, other=0.0)
    grad = tl.exp(x.to(tl.float32) - lse[:, None])
    grad = tl.where(cols[None, :] == target[:, None], grad - 1.0, grad)
    grad = tl.where(target[:, None] == ignored, 0.0, grad)
    tl.store(grad_ptr + rows[:, None] * n_cols + cols[None, :], grad, mask=mask)


def cross_entropy(logits, target, ignore_index=-100):
    """The cross entropy of every row, and its gradient."""
    n_rows, n_cols = logits.shape
    loss = torch.empty(n_rows, dtype=torch.float32, device=logits.device)
    grad = torch.empty((n_rows, n_cols), dtype=logits.dtype, device=logits.device)
    if n_rows == 0:
        return loss, grad
    lse = torch.empty_like(loss)
    loss_kernel[(n_rows,)](
        logits, target, loss, lse, logits.stride(0), n_cols, ignore_index, BLOCK_SIZE=8192
    )
    if n_cols > 0:
        grid = (triton.cdiv(n_rows, 4), triton.cdiv(n_cols, 2048))
        grad_kernel[grid](
            logits, target, lse, grad, logits.stride(0), n_rows, n_cols, ignore_index, 4, 2048
        )
    return loss, grad
