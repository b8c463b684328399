"""A program for every part of a row; a second kernel puts the parts together and divides."""

import torch
import triton
import triton.language as tl


@triton.jit
def part_kernel(x_ptr, max_ptr, sum_ptr, stride_xr, n_cols, n_parts, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0) // n_parts
    part = tl.program_id(axis=0) % n_parts
    cols = part * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * stride_xr + cols, mask=cols < n_cols, other=-float("inf"))
    x = x.to(tl.float32)
    part_max = tl.max(x, axis=0)
    numerator = tl.where(x == -float("inf"), 0.0, tl.exp(x - part_max))
    tl.store(max_ptr + row * n_parts + part, part_max)
    tl.store(sum_ptr + row * n_parts + part, tl.sum(numerator, axis=0))


@triton.jit
def finish_kernel(
    x_ptr,
    output_ptr,
    max_ptr,
    sum_ptr,
    stride_xr,
    n_cols,
    n_parts,
    PARTS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(axis=0) // n_parts
    part = tl.program_id(axis=0) % n_parts
    parts = tl.arange(0, PARTS)
    there = parts < n_parts
    maxima = tl.load(max_ptr + row * n_parts + parts, mask=there, other=-float("inf"))
    sums = tl.load(sum_ptr + row * n_parts + parts, mask=there, other=0.0)
    row_max = tl.max(maxima, axis=0)
    row_sum = tl.sum(sums * tl.exp(maxima - row_max), axis=0)
    cols = part * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * stride_xr + cols, mask=cols < n_cols, other=-float("inf"))
    result = tl.exp(x.to(tl.float32) - row_max) / row_sum
    tl.store(output_ptr + row * n_cols + cols, result, mask=cols < n_cols)


def online_softmax(x):
    """Softmax along the rows of a matrix."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if output.numel() == 0:
        return output
    BLOCK_SIZE = 4096
    n_parts = triton.cdiv(n_cols, BLOCK_SIZE)
    maxima = torch.empty((n_rows, n_parts), dtype=torch.float32, device=x.device)
    sums = torch.empty((n_rows, n_parts), dtype=torch.float32, device=x.device)
    grid = (n_rows * n_parts,)
    part_kernel[grid](
        x, maxima, sums, x.stride(0), n_cols, n_parts, BLOCK_SIZE=BLOCK_SIZE, num_warps=8
    )
    finish_kernel[grid](
        x,
        output,
        maxima,
        sums,
        x.stride(0),
        n_cols,
        n_parts,
        PARTS=triton.next_power_of_2(n_parts),
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=8,
    )
    return output
