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

    # Rows of x lie stride_row apart, those of the result follow one another.
    x_offsets = row * stride_row + cols
    out_offsets = row * n_cols + cols

    # A 0 in the lanes past the row leaves the sum of the row as it is. The division below is by
    # n_cols, which does not count those lanes either.
    mask = cols < n_cols
    padding = 0.0

    x = tl.load(x_ptr + x_offsets, mask=mask, other=padding).to(tl.float32)

    # The first moment.
    mean = tl.sum(x, axis=0) / n_cols

    # The second moment, around the mean. The lanes past the row held 0, and 0 - mean is not 0:
    # left like that, each of them would add mean^2 to the sum.
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n_cols

    # A row of equal numbers has the variance 0. Thanks to eps nothing is divided by 0 then.
    rstd = 1.0 / tl.sqrt(variance + eps)

    out = centred * rstd

    # All rows share weight and bias, so all but the first few programs find them in cache. An
    # argument that is None is known when the kernel is compiled: the branch costs nothing.
    if weight_ptr is not None:
        out *= tl.load(weight_ptr + cols, mask=mask).to(tl.float32)
    if bias_ptr is not None:
        out += tl.load(bias_ptr + cols, mask=mask).to(tl.float32)

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

    # One program a row.
    grid = (n_rows,)

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
