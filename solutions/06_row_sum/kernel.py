"""Kata 6, row_sum: the sum of every row of a matrix, rows being longer than a block.

    row_sum(x) -> the sum over j of x[i, j], for every row i

x is [R, C], fp16, bf16 or fp32, with unit column stride and any row stride, C up to 200,000. The
result is fp32, of shape [R], and summed in fp32 whatever x is. No columns give zeros. A row is
walked in blocks of at most 16,384 columns.

Type `nox -s check-6` to see how far the kernel is; README.md of this kata is the lesson.
"""

import torch
import triton
import triton.language as tl

LARGEST_BLOCK = 8192


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, stride_row, n_cols, BLOCK_SIZE: tl.constexpr):
    # One program owns one row. Rows of x lie stride_row apart, which may be more than n_cols (or
    # less); the sums lie side by side.
    row = tl.program_id(axis=0)
    row_ptr = x_ptr + row * stride_row
    sum_ptr = out_ptr + row

    # Each lane keeps a sum of its own, and in fp32: fp16 could not even count to 2049.
    sums = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)

    # The walk along the row. The last block may hang over its end.
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)

        # A lane past the end must not change the sum, so it holds 0. Left unsaid, it would hold
        # anything.
        mask = cols < n_cols
        padding = 0.0

        x = tl.load(row_ptr + cols, mask=mask, other=padding)

        # Lane by lane. Where the two dtypes differ, the narrower one is widened first.
        sums += x

    # Only now do the lanes talk to each other. Once a row is enough; in the loop, each step would
    # have to wait for it.
    total = tl.sum(sums, axis=0)

    tl.store(sum_ptr, total)


def row_sum(x):
    """The sums of the rows of x, in a new fp32 tensor."""
    if x.dim() != 2:
        raise ValueError(f"x must have two dimensions, got shape {x.shape}")
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"x must be fp16, bf16 or fp32, got {x.dtype}")
    n_rows, n_cols = x.shape
    if n_cols > 1 and x.stride(1) != 1:
        raise ValueError(f"x must have unit column stride, got strides {x.stride()}")

    out = torch.empty(n_rows, device=x.device, dtype=torch.float32)
    if n_rows == 0:
        return out

    # Short rows get a block that just holds them, long ones are walked. A warp for every 512
    # columns leaves 16 to each thread: enough loads in flight, and few enough registers.
    BLOCK_SIZE = min(max(triton.next_power_of_2(n_cols), 128), LARGEST_BLOCK)
    num_warps = max(BLOCK_SIZE // 512, 1)

    # One program a row.
    grid = (n_rows,)

    row_sum_kernel[grid](x, out, x.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
    return out
