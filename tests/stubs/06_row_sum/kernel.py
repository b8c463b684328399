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
    # TODO(offsets): one program owns one row: where does it start in x, whose rows lie stride_row
    # apart, and where does its sum belong?
    row_ptr = x_ptr
    sum_ptr = out_ptr

    # TODO(accumulate): a sum for every lane, starting at 0. As it stands, in the dtype of x.
    sums = tl.zeros((BLOCK_SIZE,), dtype=x_ptr.dtype.element_ty)

    # TODO(accumulate): go through all of the row. As it stands, only its first block is seen.
    for start in range(0, BLOCK_SIZE, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)

        # TODO(mask): which lanes hold a column of the row, and what the other lanes should hold so
        # that they do not count.
        mask = cols >= 0
        padding = 1.0

        x = tl.load(row_ptr + cols, mask=mask, other=padding)

        # Lane by lane. Where the two dtypes differ, the narrower one is widened first.
        sums += x

    # TODO(reduction): the sums of all lanes, added up to one number.
    total = 0.0

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

    # TODO(grid): a tuple with the number of programs.
    grid = (1,)

    row_sum_kernel[grid](x, out, x.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
    return out
