"""A range over rows whose loop variable is cast with .to(tl.int64).

needs: a loop variable that is a tensor and a list for a grid; the bare interpreter takes neither
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(
    x_ptr, output_ptr, stride_xr, stride_xc, n_rows, n_cols, BLOCK_SIZE: tl.constexpr
):
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    for row in range(tl.program_id(axis=0), n_rows, tl.num_programs(axis=0)):
        row_64 = row.to(tl.int64)
        x_ptrs = x_ptr + row_64 * stride_xr + cols * stride_xc
        x = tl.load(x_ptrs, mask=mask, other=-float("inf")).to(tl.float32)
        numerator = tl.exp(x - tl.max(x, axis=0))
        denominator = tl.sum(numerator, axis=0)
        tl.store(output_ptr + row_64 * n_cols + cols, numerator / denominator, mask=mask)


def softmax(x):
    """Softmax along the rows of a matrix."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if output.numel() == 0:
        return output
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    grid = [min(n_rows, 8)]
    softmax_kernel[grid](x, output, *x.stride(), n_rows, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=8)
    return output
