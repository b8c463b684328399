"""Each lane keeps moments of its own as Welford does, tl.reduce merges those of the lanes."""

import torch
import triton
import triton.language as tl


@triton.jit
def merge(mean_a, squares_a, count_a, mean_b, squares_b, count_b):
    count = count_a + count_b
    share = tl.where(count > 0, count_b / tl.maximum(count, 1.0), 0.0)
    apart = mean_b - mean_a
    mean = mean_a + apart * share
    return mean, squares_a + squares_b + apart * apart * count_a * share, count


@triton.jit
def scaled(x, mean, rstd, w_ptr, b_ptr, cols, mask):
    y = (x - mean) * rstd
    if w_ptr is not None:
        y *= tl.load(w_ptr + cols, mask=mask).to(tl.float32)
    if b_ptr is not None:
        y += tl.load(b_ptr + cols, mask=mask).to(tl.float32)
    return y


@triton.jit
def layer_norm_kernel(
    x_ptr,
    w_ptr,
    b_ptr,
    y_ptr,
    stride_x,
    n_cols,
    eps,
    BLOCK_SIZE: tl.constexpr,
    ONE_BLOCK: tl.constexpr,
):
    row = tl.program_id(axis=0)
    x_ptr += row * stride_x
    y_ptr += row * n_cols
    lanes = tl.arange(0, BLOCK_SIZE)
    means = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    squares = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    counts = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    if ONE_BLOCK:
        mask = lanes < n_cols
        x = tl.load(x_ptr + lanes, mask=mask, other=0.0).to(tl.float32)
        mean, sum_of_squares, _ = tl.reduce((x, squares, mask.to(tl.float32)), 0, merge)
        rstd = 1.0 / tl.sqrt(sum_of_squares / n_cols + eps)
        y = scaled(x, mean, rstd, w_ptr, b_ptr, lanes, mask)
        tl.store(y_ptr + lanes, y.to(y_ptr.dtype.element_ty), mask=mask)
    else:
        for start in range(0, n_cols, BLOCK_SIZE):
            mask = start + lanes < n_cols
            x = tl.load(x_ptr + start + lanes, mask=mask, other=0.0).to(tl.float32)
            counts += mask.to(tl.float32)
            before = x - means
            means = tl.where(mask, means + before / tl.maximum(counts, 1.0), means)
            squares = tl.where(mask, squares + before * (x - means), squares)
        mean, sum_of_squares, _ = tl.reduce((means, squares, counts), 0, merge)
        rstd = 1.0 / tl.sqrt(sum_of_squares / n_cols + eps)
        for start in range(0, n_cols, BLOCK_SIZE):
            cols = start + lanes
            mask = cols < n_cols
            x = tl.load(x_ptr + cols, mask=mask).to(tl.float32)
            y = scaled(x, mean, rstd, w_ptr, b_ptr, cols, mask)
            tl.store(y_ptr + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    """Layer norm along the rows of a matrix."""
    n_rows, n_cols = x.shape
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    BLOCK_SIZE = max(min(triton.next_power_of_2(n_cols), 1024), 2)
    layer_norm_kernel[(n_rows,)](
        x,
        weight,
        bias,
        y,
        x.stride(0),
        n_cols,
        eps,
        BLOCK_SIZE=BLOCK_SIZE,
        ONE_BLOCK=n_cols <= BLOCK_SIZE,
    )
    return y
