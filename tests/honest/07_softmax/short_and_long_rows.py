"""Short rows in one block, long rows in blocks by a second kernel."""

import torch
import triton
import triton.language as tl


@triton.jit
def short_rows_kernel(x_ptr, output_ptr, stride_xr, stride_xc, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride_xr + cols * stride_xc, mask=mask, other=-float("inf"))
    x = x.to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(output_ptr + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


@triton.jit
def long_rows_kernel(x_ptr, output_ptr, stride_xr, stride_xc, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    # One maximum and one sum for each lane, put together after the loop.
    maxima = tl.full((BLOCK_SIZE,), -float("inf"), dtype=tl.float32)
    sums = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x_ptrs = x_ptr + row * stride_xr + cols * stride_xc
        x = tl.load(x_ptrs, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new_maxima = tl.maximum(maxima, x)
        shift = tl.where(new_maxima == -float("inf"), 0.0, new_maxima)
        sums = sums * tl.exp(maxima - shift) + tl.exp(x - shift)
        maxima = new_maxima
    row_max = tl.max(maxima, axis=0)
    row_sum = tl.sum(sums * tl.exp(maxima - row_max), axis=0)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x_ptrs = x_ptr + row * stride_xr + cols * stride_xc
        x = tl.load(x_ptrs, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        result = tl.exp(x - row_max) / row_sum
        tl.store(output_ptr + row * n_cols + cols, result, mask=cols < n_cols)


def softmax(x):
    """Softmax along the rows of a matrix."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if output.numel() == 0:
        return output
    if n_cols <= 2048:
        kernel, BLOCK_SIZE = short_rows_kernel, triton.next_power_of_2(n_cols)
    else:
        kernel, BLOCK_SIZE = long_rows_kernel, 1024
    kernel[(n_rows,)](x, output, *x.stride(), n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=8)
    return output
