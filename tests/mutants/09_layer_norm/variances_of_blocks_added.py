"""reduction: variances of blocks are averaged, their different means forgotten

symptom: right up to 1024 columns; in longer rows a little too large
"""

import torch
import triton
import triton.language as tl


@triton.jit
def held_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, stride_x, stride_y, n_cols, eps, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride_x + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n_cols
    y = centred * tl.rsqrt(variance + eps)
    if w_ptr is not None:
        y *= tl.load(w_ptr + cols, mask=mask).to(tl.float32)
    if b_ptr is not None:
        y += tl.load(b_ptr + cols, mask=mask).to(tl.float32)
    tl.store(y_ptr + row * stride_y + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def walk_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, stride_x, stride_y, n_cols, eps, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0)
    x_ptr += row * stride_x
    count = 0.0
    mean = 0.0
    squares = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        here = tl.minimum(n_cols - start, BLOCK_SIZE).to(tl.float32)
        block_mean = tl.sum(x, axis=0) / here
        centred = tl.where(cols < n_cols, x - block_mean, 0.0)
        apart = block_mean - mean
        total = count + here
        mean += apart * here / total
        squares += tl.sum(centred * centred, axis=0)
        count = total
    rstd = tl.rsqrt(squares / n_cols + eps)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        y = (tl.load(x_ptr + cols, mask=mask).to(tl.float32) - mean) * rstd
        if w_ptr is not None:
            y *= tl.load(w_ptr + cols, mask=mask).to(tl.float32)
        if b_ptr is not None:
            y += tl.load(b_ptr + cols, mask=mask).to(tl.float32)
        tl.store(y_ptr + row * stride_y + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    """Layer norm along the rows of a matrix."""
    n_rows, n_cols = x.shape
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    BLOCK_SIZE = min(triton.next_power_of_2(n_cols), 1024)
    kernel = held_kernel if n_cols <= 1024 else walk_kernel
    kernel[(n_rows,)](
        x,
        weight,
        bias,
        y,
        x.stride(0),
        y.stride(0),
        n_cols,
        eps,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=4,
    )
    return y
