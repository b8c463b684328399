"""An ignored row is left at once, its results being zeros from PyTorch; a scalar maximum and sum."""

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
    ignored,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(axis=0).to(tl.int64)
    logits_ptr += row * stride_row
    grad_ptr += row * n_cols
    target = tl.load(target_ptr + row)
    if target == ignored:
        return
    row_max = -float("inf")
    row_sum = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(logits_ptr + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new_max = tl.maximum(row_max, tl.max(x, axis=0))
        row_sum = row_sum * tl.exp(row_max - new_max) + tl.sum(tl.exp(x - new_max), axis=0)
        row_max = new_max
    target_logit = tl.load(logits_ptr + target).to(tl.float32)
    tl.store(loss_ptr + row, tl.log(row_sum) + row_max - target_logit)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        x = tl.load(logits_ptr + cols, mask=mask, other=-float("inf")).to(tl.float32)
        grad = tl.exp(x - row_max) / row_sum - (cols == target).to(tl.float32)
        tl.store(grad_ptr + cols, grad, mask=mask)


def cross_entropy(logits, target, ignore_index=-100):
    """The cross entropy of every row, and its gradient."""
    n_rows, n_cols = logits.shape
    loss = torch.zeros(n_rows, dtype=torch.float32, device=logits.device)
    grad = torch.zeros_like(logits, memory_format=torch.contiguous_format)
    if n_rows > 0:
        cross_entropy_kernel[(n_rows,)](
            logits, target, loss, grad, logits.stride(0), n_cols, ignore_index, BLOCK_SIZE=4096
        )
    return loss, grad
