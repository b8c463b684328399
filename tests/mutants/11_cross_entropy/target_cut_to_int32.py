"""robust: the target is cut to 32 bits before it is compared with ignore_index

symptom: right for every class; an ignore_index beyond 32 bits counts as a class
"""

import torch
import triton
import triton.language as tl

LARGEST_BLOCK = 8192


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
    # One program owns one row. Rows of logits lie stride_row apart, those of the gradient n_cols;
    # targets and losses lie side by side.
    row = tl.program_id(axis=0)
    row_ptr = logits_ptr + row * stride_row
    grad_row_ptr = grad_ptr + row * n_cols
    target_ptr += row
    loss_ptr += row

    target = tl.load(target_ptr).to(tl.int32)

    # An ignored row has no target: what stands there may point anywhere.
    keep = target != ignore_index

    target_logit = tl.load(row_ptr + target, mask=keep, other=0.0).to(tl.float32)

    # Forward: every lane keeps the largest logit that it has seen, and the sum of exp(logit -
    # largest). The first maximum is the lowest of numbers, not -inf: -inf minus -inf would be NaN.
    maxima = tl.full((BLOCK_SIZE,), -3.4028235e38, dtype=tl.float32)
    sums = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)

    # The walk along the row, as in a long sum.
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)

        # exp(-inf) is 0: lanes past the row count for nothing.
        mask = cols < n_cols
        padding = -float("inf")

        x = tl.load(row_ptr + cols, mask=mask, other=padding, eviction_policy="evict_last")
        x = x.to(tl.float32)

        # A new maximum rescales the sum, and its own term is exp(0). An old one stays, and the
        # term is rescaled. Either way one exponential will do.
        smaller = tl.exp(-tl.abs(x - maxima))
        sums = tl.where(x > maxima, sums * smaller + 1.0, sums + smaller)
        maxima = tl.maximum(maxima, x)

    # The lanes meet: each sum is rescaled to the row's maximum.
    row_max = tl.max(maxima, axis=0)
    row_sum = tl.sum(sums * tl.exp(maxima - row_max), axis=0)

    # -log(exp(target_logit - row_max) / row_sum), without ever forming the quotient.
    loss = tl.log(row_sum) + row_max - target_logit

    tl.store(loss_ptr, tl.where(keep, loss, 0.0))

    # Backward, in the same program: everything that it needs is at hand but the logits themselves,
    # which are read once more. Last block first: it was read a moment ago, and is still in the L2
    # cache, which was asked above to let go of it last. Now all of it may make room.
    scale = 1.0 / row_sum
    last_block = (tl.cdiv(n_cols, BLOCK_SIZE) - 1) * BLOCK_SIZE

    # And once more.
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = last_block - start + tl.arange(0, BLOCK_SIZE)

        # Lanes past the row have no gradient to store.
        mask = cols < n_cols

        x = tl.load(row_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_first")
        x = x.to(tl.float32)

        # The probabilities, and 1 less for the target. In fp32, so that the difference is rounded
        # once, by the store.
        probabilities = tl.exp(x - row_max) * scale
        grad = tl.where(cols == target, probabilities - 1.0, probabilities)

        # Not grad * keep: 0 times inf is NaN.
        grad = tl.where(keep, grad, 0.0)
        tl.store(grad_row_ptr + cols, grad, mask=mask, eviction_policy="evict_first")


def cross_entropy(logits, target, ignore_index=-100):
    """The loss of each row of logits, fp32, and its gradient, in two new tensors."""
    if logits.dim() != 2 or target.shape != logits.shape[:1]:
        raise ValueError(
            f"logits must be [R, V] and target [R], got {logits.shape} and {target.shape}"
        )
    if logits.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"logits must be fp16, bf16 or fp32, got {logits.dtype}")
    if target.dtype != torch.int64:
        raise ValueError(f"target must be int64, got {target.dtype}")
    n_rows, n_cols = logits.shape
    if n_cols > 1 and logits.stride(1) != 1:
        raise ValueError(f"logits must have unit column stride, got strides {logits.stride()}")

    loss = torch.empty(n_rows, device=logits.device, dtype=torch.float32)
    grad = torch.empty((n_rows, n_cols), device=logits.device, dtype=logits.dtype)
    if n_rows == 0:
        return loss, grad

    # Wide rows are walked. A warp for every 256 classes and, where rows are long, the larger blocks:
    # of a dozen ways these were the fastest on an H200.
    largest = LARGEST_BLOCK if n_cols > 65536 else LARGEST_BLOCK // 2
    BLOCK_SIZE = min(max(triton.next_power_of_2(n_cols), 128), largest)
    num_warps = max(BLOCK_SIZE // 256, 1)

    # One program a row.
    grid = (n_rows,)

    cross_entropy_kernel[grid](
        logits,
        target,
        loss,
        grad,
        logits.stride(0),
        n_cols,
        ignore_index,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
        num_stages=1,  # nothing to be gained from loading blocks ahead, with so many warps
    )
    return loss, grad
