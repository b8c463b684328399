"""robust: the exponentials are summed as they are

symptom: right for small logits; above 88 everything is inf or NaN
"""

import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(
    logits_ptr,
    target_ptr,
    loss_ptr,
    grad_ptr,
    stride_row,
    n_cols,
    ignore_index,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(axis=0)
    logits_ptr += row * stride_row
    grad_ptr += row * n_cols
    target = tl.load(target_ptr + row)
    keep = target != ignore_index
    row_max = 0.0
    row_sum = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(logits_ptr + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new_max = 0.0
        row_sum = row_sum + tl.sum(tl.exp(x - new_max), axis=0)
        row_max = new_max
    target_logit = tl.load(logits_ptr + target, mask=keep, other=0.0).to(tl.float32)
    loss = tl.log(row_sum) + row_max - target_logit
    tl.store(loss_ptr + row, tl.where(keep, loss, 0.0))
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(logits_ptr + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        grad = tl.exp(x - row_max) / row_sum
        grad = tl.where(cols == target, grad - 1.0, grad)
        tl.store(grad_ptr + cols, tl.where(keep, grad, 0.0), mask=cols < n_cols)


def cross_entropy(logits, target, ignore_index=-100):
    """The cross entropy of every row, and its gradient."""
    n_rows, n_cols = logits.shape
    loss = torch.empty(n_rows, dtype=torch.float32, device=logits.device)
    grad = torch.empty((n_rows, n_cols), dtype=logits.dtype, device=logits.device)
    if n_rows == 0:
        return loss, grad
    BLOCK_SIZE = 4096
    cross_entropy_kernel[(n_rows,)](
        logits, target, loss, grad, logits.stride(0), n_cols, ignore_index, BLOCK_SIZE
    )
    return loss, grad
