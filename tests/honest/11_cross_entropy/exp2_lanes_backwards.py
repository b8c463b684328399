"""Base 2 throughout, a maximum and a sum for each lane with two exponentials, and the second pass backwards."""

import torch
import triton
import triton.language as tl


LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


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
    target = tl.load(target_ptr + row)
    x_ptrs = logits_ptr + row * stride_row + tl.arange(0, BLOCK_SIZE)
    g_ptrs = grad_ptr + row * n_cols + tl.arange(0, BLOCK_SIZE)
    maxima = tl.full((BLOCK_SIZE,), -float("inf"), tl.float32)
    sums = tl.zeros((BLOCK_SIZE,), tl.float32)
    for start in tl.range(0, n_cols, BLOCK_SIZE):
        inside = tl.arange(0, BLOCK_SIZE) < n_cols - start
        x = tl.load(x_ptrs + start, mask=inside, other=-float("inf")).to(tl.float32) * LOG2_E
        new = tl.maximum(maxima, x)
        shift = tl.where(new == -float("inf"), 0.0, new)
        sums = sums * tl.exp2(maxima - shift) + tl.exp2(x - shift)
        maxima = new
    row_max = tl.max(maxima, axis=0)
    lse = row_max + tl.log2(tl.sum(sums * tl.exp2(maxima - row_max), axis=0))
    kept = target != ignored
    own = tl.load(logits_ptr + row * stride_row + tl.where(kept, target, 0), mask=kept, other=0.0)
    loss = lse * LN_2 - own.to(tl.float32)
    tl.store(loss_ptr + row, tl.where(kept, loss, 0.0))
    blocks = tl.cdiv(n_cols, BLOCK_SIZE)
    for step in tl.range(0, blocks):
        start = (blocks - 1 - step) * BLOCK_SIZE
        inside = tl.arange(0, BLOCK_SIZE) < n_cols - start
        x = tl.load(x_ptrs + start, mask=inside & kept, other=-float("inf"))
        grad = tl.exp2(x.to(tl.float32) * LOG2_E - lse)
        grad = tl.where(start + tl.arange(0, BLOCK_SIZE) == target, grad - 1.0, grad)
        tl.store(g_ptrs + start, tl.where(kept, grad, 0.0).to(grad_ptr.dtype.element_ty), inside)


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
            BLOCK_SIZE=2048,
            num_warps=8,
        )
    return loss, grad
