"""Kata 8, online_softmax: the softmax of rows that are longer than a block.

    online_softmax(x) -> exp(x - max) / sum(exp(x - max)), row by row

x is [R, C], fp16, bf16 or fp32, with unit column stride and any row stride, C up to 1,000,000. The
result is a new contiguous tensor of x's shape and dtype. All arithmetic is in fp32. A row is walked
in blocks of at most 16,384 columns and read twice at most: once for the maximum and the sum
together, once for the result. x is not copied. A row of nothing but -inf gives NaN, and so does a
row with +inf in it.

Type `nox -s check-8` to see how far the kernel is; README.md of this kata is the lesson.
"""

import torch
import triton
import triton.language as tl

LARGEST_BLOCK = 16384


@triton.jit
def load_block(row_ptr, block, n_cols, POLICY: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    # One block of a row, in fp32; its columns; and which of them exist.
    cols = block * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)

    # TODO(mask): which lanes hold a column of the row, and what the other lanes should read so
    # that they change neither the maximum nor the sum of the exponentials.
    mask = cols >= 0
    padding = 0.0

    x = tl.load(row_ptr + cols, mask=mask, other=padding, eviction_policy=POLICY).to(tl.float32)
    return x, cols, mask


@triton.jit
def online_softmax_kernel(x_ptr, out_ptr, stride_row, n_cols, BLOCK_SIZE: tl.constexpr):
    # TODO(offsets): one program owns one row: where does it start in x, whose rows lie stride_row
    # apart, and where in the contiguous result?
    x_row_ptr = x_ptr
    out_row_ptr = out_ptr

    # TODO(accumulate): how many blocks make up the row. As it stands, both passes see only the
    # first one.
    n_blocks = 1

    # The first pass carries two numbers from block to block: the largest value so far, and the sum
    # so far of exp(x - running_max). Nothing has been seen yet.
    running_max = -float("inf")
    running_sum = 0.0

    for block in range(n_blocks):
        x, _, _ = load_block(x_row_ptr, block, n_cols, "evict_last", BLOCK_SIZE)

        # TODO(reduction): the largest value of this block.
        block_max = 0.0

        # TODO(accumulate): the largest value of this block and all before it.
        new_max = block_max

        # TODO(accumulate): what to subtract from x before exp. As it stands, the maximum so far;
        # but where that is -inf, the exponentials must come out as 0, not as NaN.
        shift = new_max

        # TODO(reduction): the sum over this block of the exponentials of x - shift.
        block_sum = 1.0

        # TODO(accumulate): the old sum was taken with the old maximum subtracted. Which factor
        # makes it what it would be with the new one?
        rescale = 1.0

        running_sum = running_sum * rescale + block_sum
        running_max = new_max

    # The second pass goes backwards: the end of the row was read a moment ago, and that part of it
    # is still in the L2 cache. The first pass asked the cache to let go of it last; now nobody
    # needs it again, nor the result, and both may make room first.
    for step in range(n_blocks):
        block = n_blocks - 1 - step
        x, cols, mask = load_block(x_row_ptr, block, n_cols, "evict_first", BLOCK_SIZE)
        out = (tl.exp(x - running_max) / running_sum).to(out_ptr.dtype.element_ty)
        tl.store(out_row_ptr + cols, out, mask=mask, eviction_policy="evict_first")


def online_softmax(x):
    """The softmax of x along its last dimension, in a new contiguous tensor."""
    if x.dim() != 2:
        raise ValueError(f"x must have two dimensions, got shape {x.shape}")
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"x must be fp16, bf16 or fp32, got {x.dtype}")
    n_rows, n_cols = x.shape
    if n_cols > 1 and x.stride(1) != 1:
        raise ValueError(f"x must have unit column stride, got strides {x.stride()}")

    out = torch.empty((n_rows, n_cols), device=x.device, dtype=x.dtype)
    if n_rows == 0 or n_cols == 0:
        return out

    # Short rows get a block that just holds them, long ones are walked. A warp for every 512
    # columns leaves 16 to each thread.
    BLOCK_SIZE = min(max(triton.next_power_of_2(n_cols), 128), LARGEST_BLOCK)
    num_warps = max(BLOCK_SIZE // 512, 1)

    # TODO(grid): a tuple with the number of programs.
    grid = (1,)

    online_softmax_kernel[grid](
        x, out, x.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps
    )
    return out
