"""robust: the path for long rows does not subtract the maximum

symptom: right for ordinary numbers; long rows with large ones give NaN
"""

import torch
import triton
import triton.language as tl

MAX_COLUMNS = 32768


@triton.jit
def softmax_kernel(x_ptr, out_ptr, stride_row, stride_col, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    x_offsets = row * stride_row + cols * stride_col
    out_offsets = row * n_cols + cols
    mask = cols < n_cols
    padding = -float("inf")

    x = tl.load(x_ptr + x_offsets, mask=mask, other=padding).to(tl.float32)
    row_max = tl.max(x, axis=0)

    shifted = x - row_max
    numerator = tl.exp(shifted)
    denominator = tl.sum(numerator, axis=0)

    out = numerator / denominator
    tl.store(out_ptr + out_offsets, out.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def long_kernel(x_ptr, out_ptr, stride_row, stride_col, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    m = -float("inf")
    s = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(
            x_ptr + row * stride_row + cols * stride_col, mask=cols < n_cols, other=-float("inf")
        ).to(tl.float32)
        new_m = 0.0
        s = s * tl.exp(m - new_m) + tl.sum(tl.exp(x - new_m), axis=0)
        m = new_m
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(
            x_ptr + row * stride_row + cols * stride_col, mask=cols < n_cols, other=-float("inf")
        ).to(tl.float32)
        out = tl.exp(x - m) / s
        tl.store(
            out_ptr + row * n_cols + cols, out.to(out_ptr.dtype.element_ty), mask=cols < n_cols
        )


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
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    if BLOCK_SIZE >= 8192:
        num_warps = 16
    elif BLOCK_SIZE >= 4096:
        num_warps = 8
    else:
        num_warps = 4
    grid = (n_rows,)

    if n_cols > 4096:
        long_kernel[grid](x, out, x.stride(0), x.stride(1), n_cols, BLOCK_SIZE=1024)
        return out

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
