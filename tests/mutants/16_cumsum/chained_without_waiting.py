"""accumulate: a program starts from the last sum of the program before it, and does not wait for it

symptom: right where programs run one after the other; on a GPU long rows are garbage
"""

import torch
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(x_ptr, output_ptr, stride_xr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    block = tl.program_id(axis=1)
    cols = block * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    carry = 0.0
    if block > 0:
        carry = tl.load(output_ptr + row * n_cols + block * BLOCK_SIZE - 1)
    x = tl.load(x_ptr + row * stride_xr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(output_ptr + row * n_cols + cols, carry + tl.cumsum(x, axis=0), mask=mask)


def cumsum(x):
    """Running sums along the rows of a matrix, in float32."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=torch.float32, device=x.device)
    if output.numel() == 0:
        return output
    BLOCK_SIZE = 4096
    n_blocks = triton.cdiv(n_cols, BLOCK_SIZE)
    cumsum_kernel[(n_rows, n_blocks)](x, output, x.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE)
    return output
