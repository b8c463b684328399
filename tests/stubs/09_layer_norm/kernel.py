"""Kata 9, layer_norm: every row of a matrix brought to mean 0 and variance 1, in one kernel.

    layer_norm(x, weight, bias, eps) -> (x - mean) / sqrt(variance + eps) * weight + bias

x is [R, C], fp16, bf16 or fp32, with unit column stride and any row stride, C up to 65,536. weight
and bias are [C], of x's dtype; each may be None. Mean and variance are those of the row, the
variance being the mean square of what is left after taking off the mean. The result is a new
contiguous tensor of x's shape and dtype. All arithmetic is in fp32 and rounded once. x is read once
where a row fits a block, at most three times where it does not.

Type `nox -s check-9` to see how far the kernel is; README.md of this kata is the lesson.
"""

import torch
import triton
import triton.language as tl

MAX_COLUMNS = 65536


@triton.jit
def layer_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, stride_row, n_cols, eps, BLOCK_SIZE: tl.constexpr
):
    # One program owns one row, and its block is at least as wide as the row.
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)

    # TODO(offsets): where this row's elements lie, in x (rows stride_row apart) and in the
    # contiguous result (rows of n_cols elements).
    x_offsets = cols
    out_offsets = cols

    # TODO(mask): which lanes hold a column of the row, and what the other lanes should hold so
    # that they do not change its sum.
    mask = cols >= 0
    padding = 1.0

    x = tl.load(x_ptr + x_offsets, mask=mask, other=padding).to(tl.float32)

    # TODO(reduction): the mean of the row.
    mean = 0.0

    # TODO(reduction): the mean square of the centred values. What do the lanes past the row hold
    # once the mean is taken off, and what should they hold?
    centred = x - mean
    variance = 1.0

    # TODO(robust): eps has its place here, or a row of equal numbers is divided by 0.
    rstd = 1.0 / tl.sqrt(variance)

    out = centred * rstd

    # TODO(values): times weight and plus bias, column by column and in fp32; either may be None.
    # As it stands, both are ignored.

    tl.store(out_ptr + out_offsets, out.to(out_ptr.dtype.element_ty), mask=mask)


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    """x normalised along its last dimension, in a new contiguous tensor of its shape and dtype."""
    if x.dim() != 2:
        raise ValueError(f"x must have two dimensions, got shape {x.shape}")
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"x must be fp16, bf16 or fp32, got {x.dtype}")
    n_rows, n_cols = x.shape
    if n_cols > MAX_COLUMNS:
        raise ValueError(f"x must have at most {MAX_COLUMNS} columns, got {n_cols}")
    if n_cols > 1 and x.stride(1) != 1:
        raise ValueError(f"x must have unit column stride, got strides {x.stride()}")
    for name, vector in (("weight", weight), ("bias", bias)):
        if vector is None:
            continue
        if vector.shape != x.shape[1:] or vector.dtype != x.dtype:
            raise ValueError(f"{name} must have one number a column, of x's dtype")
        if n_cols > 1 and vector.stride(0) != 1:
            raise ValueError(f"the elements of {name} must lie side by side")

    out = torch.empty((n_rows, n_cols), device=x.device, dtype=x.dtype)
    if n_rows == 0 or n_cols == 0:
        return out

    # The whole row is held in registers, so the wider it is, the more warps share it: 64 elements a
    # thread were the fastest on an H200.
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    num_warps = min(max(BLOCK_SIZE // 2048, 1), 16)

    # TODO(grid): a tuple with the number of programs.
    grid = (1,)

    layer_norm_kernel[grid](
        x,
        weight,
        bias,
        out,
        x.stride(0),
        n_cols,
        eps,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
    )
    return out
