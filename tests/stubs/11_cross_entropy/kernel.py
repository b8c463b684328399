"""Kata 11, cross_entropy: the loss of every row of logits and its gradient, in one kernel.

    cross_entropy(logits, target, ignore_index=-100) -> (loss, grad)

logits is [R, V], fp16, bf16 or fp32, with unit column stride and any row stride, V up to 200,000;
target is [R], int64, the right class of each row. loss is fp32 [R], the negative logarithm of the
probability that a row gives to its target; grad is [R, V] of logits' dtype and contiguous, the
derivative of each loss by its own row of logits. Neither is averaged over rows. Where target is
ignore_index both are 0, whatever the logits are. logits are read at most twice.

Type `nox -s check-11` to see how far the kernel is; README.md of this kata is the lesson.
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
    # TODO(offsets): one program owns one row. Where does it start in logits, whose rows lie
    # stride_row apart, and in the contiguous gradient? Where are its target and its loss?
    row_ptr = logits_ptr
    grad_row_ptr = grad_ptr
    target_ptr += 0
    loss_ptr += 0

    target = tl.load(target_ptr)

    # TODO(robust): False for an ignored row, True for the others. As it stands, no row is ignored.
    keep = target == target

    target_logit = tl.load(row_ptr + target, mask=keep, other=0.0).to(tl.float32)

    # Forward: every lane keeps the largest logit that it has seen, and the sum of exp(logit -
    # largest). The first maximum is the lowest of numbers, not -inf: -inf minus -inf would be NaN.
    maxima = tl.full((BLOCK_SIZE,), -3.4028235e38, dtype=tl.float32)
    sums = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)

    # TODO(accumulate): go through all of the row. As it stands, only its first block is seen.
    for start in range(0, BLOCK_SIZE, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)

        # TODO(mask): which lanes hold a class, and what the other lanes should read so that they
        # change neither the maximum nor the sum of the exponentials.
        mask = cols >= 0
        padding = 0.0

        x = tl.load(row_ptr + cols, mask=mask, other=padding, eviction_policy="evict_last")
        x = x.to(tl.float32)

        # TODO(accumulate): in each lane the maximum so far and the sum so far of exp(x - maximum),
        # rescaled where the maximum grows. As it stands, a lane knows its latest logit alone.
        sums = tl.where(mask, 1.0, 0.0)
        maxima = x

    # The lanes meet: each sum is rescaled to the row's maximum.
    row_max = tl.max(maxima, axis=0)
    row_sum = tl.sum(sums * tl.exp(maxima - row_max), axis=0)

    # TODO(values): the loss, from the row's sum, its maximum and the target's logit.
    loss = row_max - target_logit + row_sum

    tl.store(loss_ptr, tl.where(keep, loss, 0.0))

    # Backward, in the same program: everything that it needs is at hand but the logits themselves,
    # which are read once more. Last block first: it was read a moment ago, and is still in the L2
    # cache, which was asked above to let go of it last. Now all of it may make room.
    scale = 1.0 / row_sum
    last_block = (tl.cdiv(n_cols, BLOCK_SIZE) - 1) * BLOCK_SIZE

    # TODO(accumulate): the same walk as above.
    for start in range(0, BLOCK_SIZE, BLOCK_SIZE):
        cols = last_block - start + tl.arange(0, BLOCK_SIZE)

        # TODO(mask): which lanes hold a class.
        mask = cols >= 0

        x = tl.load(row_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_first")
        x = x.to(tl.float32)

        # TODO(values): the gradient by each logit.
        grad = x * scale

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

    # TODO(grid): a tuple with the number of programs.
    grid = (1,)

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
