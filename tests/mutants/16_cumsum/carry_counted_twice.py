"""accumulate: the last sum of a block, which holds the carry already, is added to the carry

symptom: right up to two blocks; from the third on the earlier ones count twice and more
"""

import torch
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(x_ptr, output_ptr, stride_xr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    carry = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * stride_xr + cols, mask=mask, other=0.0).to(tl.float32)
        scan = tl.cumsum(x, axis=0)
        out = carry + scan
        tl.store(output_ptr + row * n_cols + cols, out, mask=mask)
        last = tl.arange(0, BLOCK_SIZE) == BLOCK_SIZE - 1
        carry += tl.sum(tl.where(last, out, 0.0), axis=0)


def cumsum(x):
    """Running sums along the rows of a matrix, in float32."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=torch.float32, device=x.device)
    if output.numel() == 0:
        return output
    BLOCK_SIZE = 2048
    cumsum_kernel[(n_rows,)](x, output, x.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE)
    return output
