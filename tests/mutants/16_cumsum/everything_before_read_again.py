"""fusion: every program adds up all blocks before its own by itself

symptom: always right; a row of n blocks is read n / 2 times
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
    sums = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, block * BLOCK_SIZE, BLOCK_SIZE):
        sums += tl.load(x_ptr + row * stride_xr + start + tl.arange(0, BLOCK_SIZE))
    carry = tl.sum(sums, axis=0)
    x = tl.load(x_ptr + row * stride_xr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(output_ptr + row * n_cols + cols, carry + tl.cumsum(x, axis=0), mask=mask)


def cumsum(x):
    """Running sums along the rows of a matrix, in float32."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=torch.float32, device=x.device)
    if output.numel() == 0:
        return output
    BLOCK_SIZE = 16384
    n_blocks = triton.cdiv(n_cols, BLOCK_SIZE)
    cumsum_kernel[(n_rows, n_blocks)](x, output, x.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE)
    return output
