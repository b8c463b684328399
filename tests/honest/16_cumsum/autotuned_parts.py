"""Parts of 10,000 columns, whose last block is padded, walked with an autotuned block."""

import torch
import triton
import triton.language as tl


PART = 10_000


@triton.jit
def sum_kernel(
    x_ptr, sums_ptr, stride_row, n_cols, n_parts, PART: tl.constexpr, BLOCK: tl.constexpr
):
    part = tl.program_id(0) % n_parts
    row = tl.program_id(0) // n_parts
    end = tl.minimum((part + 1) * PART, n_cols)
    total = 0.0
    for start in range(part * PART, end, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride_row + cols, mask=cols < end, other=0.0)
        total += tl.sum(x.to(tl.float32), axis=0)
    tl.store(sums_ptr + tl.program_id(0), total)


@triton.autotune(
    configs=[triton.Config({"BLOCK": 2048 * k}, num_warps=4 * k) for k in (1, 2, 4)],
    key=["n_cols"],
)
@triton.jit
def scan_kernel(
    x_ptr, sums_ptr, out_ptr, stride_row, n_cols, n_parts, PART: tl.constexpr, BLOCK: tl.constexpr
):
    part = tl.program_id(0) % n_parts
    row = tl.program_id(0) // n_parts
    end = tl.minimum((part + 1) * PART, n_cols)
    carry = 0.0
    for earlier in range(row * n_parts, row * n_parts + part):
        carry += tl.load(sums_ptr + earlier)
    for start in range(part * PART, end, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride_row + cols, mask=cols < end, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * n_cols + cols, carry + tl.cumsum(x), mask=cols < end)
        carry += tl.sum(x)


def cumsum(x):
    """Running sums along the rows of a matrix, in float32."""
    n_rows, n_cols = x.shape
    out = torch.empty((n_rows, n_cols), dtype=torch.float32, device=x.device)
    if out.numel() == 0:
        return out
    n_parts = triton.cdiv(n_cols, PART)
    sums = torch.empty(n_rows * n_parts, dtype=torch.float32, device=x.device)
    grid = (n_rows * n_parts,)
    sum_kernel[grid](x, sums, x.stride(0), n_cols, n_parts, PART=PART, BLOCK=8192)
    scan_kernel[grid](x, sums, out, x.stride(0), n_cols, n_parts, PART=PART)
    return out
