"""Block pointers, whose padding of zeros tl.where turns into -inf.

requires: triton<3.9
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(
    x_ptr, output_ptr, stride_xr, stride_xc, n_rows, n_cols, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0)
    x_block = tl.make_block_ptr(
        x_ptr, (n_rows, n_cols), (stride_xr, stride_xc), (row, 0), (1, BLOCK_SIZE), (1, 0)
    )
    output_block = tl.make_block_ptr(
        output_ptr, (n_rows, n_cols), (n_cols, 1), (row, 0), (1, BLOCK_SIZE), (1, 0)
    )
    x = tl.load(x_block, boundary_check=(1,), padding_option="zero").to(tl.float32)
    x = tl.where(tl.arange(0, BLOCK_SIZE)[None, :] < n_cols, x, -float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=1)[:, None])
    result = numerator / tl.sum(numerator, axis=1)[:, None]
    tl.store(output_block, result.to(output_ptr.dtype.element_ty), boundary_check=(1,))


def softmax(x):
    """Softmax along the rows of a matrix."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if output.numel() == 0:
        return output
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    softmax_kernel[(n_rows,)](
        x, output, *x.stride(), n_rows, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=8
    )
    return output
