"""Kata 7, softmax: the softmax of every row of a matrix, in one kernel.

    softmax(x) -> exp(x - max) / sum(exp(x - max)), row by row

x is [R, C], fp16, bf16 or fp32, with any strides, C up to 32,768. The result is a new contiguous
tensor of x's shape and dtype. All arithmetic is in fp32. A row of nothing but -inf gives NaN.

Type `nox -s check-7` to see how far the kernel is; README.md of this kata is the lesson.
"""

import torch
import triton
import triton.language as tl

MAX_COLUMNS = 32768


@triton.jit
def softmax_kernel(x_ptr, out_ptr, stride_row, stride_col, n_cols, BLOCK_SIZE: tl.constexpr):
    # One program owns one row, and its block is at least as wide as the row.
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)

    # TODO(offsets): where this row's elements lie, in x (through its two strides) and in the
    # contiguous result (rows of n_cols elements).
    x_offsets = cols
    out_offsets = cols

    # TODO(mask): which lanes hold a column of the row, and what the other lanes should read so
    # that they change neither the maximum nor the sum of the exponentials.
    mask = cols >= 0
    padding = 0.0
    x = tl.load(x_ptr + x_offsets, mask=mask, other=padding).to(tl.float32)

    # TODO(robust): the largest value of the row; subtracting it keeps exp from overflowing.
    row_max = 0.0

    shifted = x - row_max

    # TODO(values): the exponential of the shifted values.
    numerator = shifted

    # TODO(reduction): the sum of the numerators over the whole block.
    denominator = 1.0

    out = numerator / denominator
    tl.store(out_ptr + out_offsets, out.to(out_ptr.dtype.element_ty), mask=mask)


def softmax(x):
    """The softmax of x along its last dimension, in a new contiguous tensor."""
    if x.dim() != 2:
        raise ValueError(f"x must have two dimensions, got shape {x.shape}")
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"x must be fp16, bf16 or fp32, got {x.dtype}")
    n_rows, n_cols = x.shape
    if n_cols > MAX_COLUMNS:
        raise ValueError(f"x must have at most {MAX_COLUMNS} columns, got {n_cols}")

    out = torch.empty((n_rows, n_cols), device=x.device, dtype=x.dtype)
    if n_rows == 0 or n_cols == 0:
        return out

    # A block's size must be a power of two. The wider the row, the more warps share it: otherwise
    # each thread would hold more of the row than its registers are good for.
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    if BLOCK_SIZE >= 8192:
        num_warps = 16
    elif BLOCK_SIZE >= 4096:
        num_warps = 8
    else:
        num_warps = 4

    # TODO(grid): a tuple with the number of programs.
    grid = (1,)

    softmax_kernel[grid](
        x,
        out,
        x.stride(0),
        x.stride(1),
        n_cols,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
    )
    return out
