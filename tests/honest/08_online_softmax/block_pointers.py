"""Block pointers that advance, whose padding of zeros tl.where turns into -inf.

requires: triton<3.9
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, output_ptr, stride_xr, n_rows, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    x_block = tl.make_block_ptr(
        x_ptr, (n_rows, n_cols), (stride_xr, 1), (row, 0), (1, BLOCK_SIZE), (1, 0)
    )
    output_block = tl.make_block_ptr(
        output_ptr, (n_rows, n_cols), (n_cols, 1), (row, 0), (1, BLOCK_SIZE), (1, 0)
    )
    again = x_block
    lanes = tl.arange(0, BLOCK_SIZE)[None, :]
    row_max = -float("inf")
    row_sum = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        x = tl.load(x_block, boundary_check=(1,), padding_option="zero").to(tl.float32)
        x = tl.where(start + lanes < n_cols, x, -float("inf"))
        new_max = tl.maximum(row_max, tl.max(x))
        shift = tl.where(new_max == -float("inf"), 0.0, new_max)
        row_sum = row_sum * tl.exp(row_max - shift) + tl.sum(tl.exp(x - shift))
        row_max = new_max
        x_block = tl.advance(x_block, (0, BLOCK_SIZE))
    for _ in range(0, n_cols, BLOCK_SIZE):
        x = tl.load(again, boundary_check=(1,), padding_option="zero").to(tl.float32)
        result = tl.exp(x - row_max) / row_sum
        tl.store(output_block, result.to(output_ptr.dtype.element_ty), boundary_check=(1,))
        again = tl.advance(again, (0, BLOCK_SIZE))
        output_block = tl.advance(output_block, (0, BLOCK_SIZE))


def online_softmax(x):
    """Softmax along the rows of a matrix."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if output.numel() > 0:
        softmax_kernel[(n_rows,)](
            x, output, x.stride(0), n_rows, n_cols, BLOCK_SIZE=4096, num_warps=8
        )
    return output
