"""The gradient is stored as if there were no target, whose own element is mended behind a barrier."""

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
    row = tl.program_id(axis=0)
    logits_ptr += row * stride_row
    grad_ptr += row * n_cols
    target = tl.load(target_ptr + row)
    lanes = tl.arange(0, BLOCK_SIZE)
    if target == ignored:
        tl.store(loss_ptr + row, 0.0)
        for start in range(0, n_cols, BLOCK_SIZE):
            tl.store(grad_ptr + start + lanes, 0.0, mask=start + lanes < n_cols)
        return
    target_logit = tl.load(logits_ptr + target).to(tl.float32)
    # The target's logit is a maximum to begin with.
    top = target_logit
    total = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        x = tl.load(logits_ptr + start + lanes, start + lanes < n_cols, -float("inf"))
        x = x.to(tl.float32)
        higher = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - higher) + tl.exp(x - higher)
        top = higher
    lse = tl.log(tl.sum(total, axis=0)) + top
    tl.store(loss_ptr + row, lse - target_logit)
    for start in range(0, n_cols, BLOCK_SIZE):
        mask = start + lanes < n_cols
        x = tl.load(logits_ptr + start + lanes, mask=mask, other=0.0).to(tl.float32)
        tl.store(grad_ptr + start + lanes, tl.exp(x - lse), mask=mask)
    tl.debug_barrier()
    tl.store(grad_ptr + target, tl.exp(target_logit - lse) - 1.0)


def cross_entropy(logits, target, ignore_index=-100):
    """The cross entropy of every row, and its gradient."""
    n_rows, n_cols = logits.shape
    loss = torch.empty(n_rows, dtype=torch.float32, device=logits.device)
    grad = torch.empty((n_rows, n_cols), dtype=logits.dtype, device=logits.device)
    if n_rows > 0:
        cross_entropy_kernel[(n_rows,)](
            logits,
            target,
            loss,
            grad,
            logits.stride(0),
            n_cols,
            ignore_index,
            BLOCK_SIZE=4096,
            num_warps=16,
        )
    return loss, grad
