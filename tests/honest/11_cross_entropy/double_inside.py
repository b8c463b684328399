"""Everything in float64, from a copy of strided logits, rounded once."""

import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(
    logits_ptr, target_ptr, loss_ptr, grad_ptr, n_cols, ignore_index, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0)
    logits_ptr += row * n_cols
    grad_ptr += row * n_cols
    target = tl.load(target_ptr + row)
    row_max = tl.full((), -float("inf"), tl.float64)
    row_sum = tl.full((), 0.0, tl.float64)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(logits_ptr + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float64)
        new_max = tl.maximum(row_max, tl.max(x, axis=0))
        row_sum = row_sum * tl.exp(row_max - new_max) + tl.sum(tl.exp(x - new_max), axis=0)
        row_max = new_max
    loss = tl.full((), 0.0, tl.float64)
    if target != ignore_index:
        loss += tl.log(row_sum) + row_max - tl.load(logits_ptr + target).to(tl.float64)
    tl.store(loss_ptr + row, loss.to(tl.float32))
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(logits_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float64)
        grad = tl.exp(x - row_max) / row_sum
        grad = tl.where(cols == target, grad - 1.0, grad)
        grad = tl.where(target == ignore_index, 0.0, grad)
        tl.store(grad_ptr + cols, grad.to(grad_ptr.dtype.element_ty), mask=cols < n_cols)


def cross_entropy(logits, target, ignore_index=-100):
    """The cross entropy of every row, and its gradient."""
    logits = logits.contiguous()
    n_rows, n_cols = logits.shape
    loss = torch.empty(n_rows, dtype=torch.float32, device=logits.device)
    grad = torch.empty_like(logits)
    if n_rows > 0:
        cross_entropy_kernel[(n_rows,)](
            logits, target, loss, grad, n_cols, ignore_index, BLOCK_SIZE=1024
        )
    return loss, grad
