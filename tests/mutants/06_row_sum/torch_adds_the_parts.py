"""values: the kernel sums blocks, PyTorch adds up their sums

symptom: always right; a second trip through memory
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, output_ptr, stride_xr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    part = tl.program_id(axis=1)
    cols = part * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * stride_xr + cols, mask=cols < n_cols, other=0.0)
    total = tl.sum(x.to(tl.float32), axis=0)
    tl.store(output_ptr + row * tl.num_programs(axis=1) + part, total)


def row_sum(x):
    """The sums of the rows of a matrix, in float32."""
    n_rows, n_cols = x.shape
    n_parts = triton.cdiv(n_cols, 1024)
    parts = torch.empty((n_rows, n_parts), dtype=torch.float32, device=x.device)
    if parts.numel() > 0:
        row_sum_kernel[(n_rows, n_parts)](x, parts, x.stride(0), n_cols, BLOCK_SIZE=1024)
    return parts.sum(dim=1)
