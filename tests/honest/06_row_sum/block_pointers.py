"""A block pointer that is advanced along the row.

requires: triton<3.9
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, output_ptr, stride_xr, n_rows, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    block = tl.make_block_ptr(
        x_ptr, (n_rows, n_cols), (stride_xr, 1), (row, 0), (1, BLOCK_SIZE), (1, 0)
    )
    acc = tl.zeros((1, BLOCK_SIZE), dtype=tl.float32)
    for _ in range(0, n_cols, BLOCK_SIZE):
        x = tl.load(block, boundary_check=(1,), padding_option="zero")
        acc += x.to(tl.float32)
        block = tl.advance(block, (0, BLOCK_SIZE))
    tl.store(output_ptr + row + tl.arange(0, 1), tl.sum(acc, axis=1))


def row_sum(x):
    """The sums of the rows of a matrix, in float32."""
    n_rows, n_cols = x.shape
    output = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    if n_rows > 0:
        row_sum_kernel[(n_rows,)](x, output, x.stride(0), n_rows, n_cols, BLOCK_SIZE=2048)
    return output
