"""values: a tile of rows is scanned along the wrong axis

symptom: running sums of columns, started anew every four rows
"""

import torch
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(x_ptr, output_ptr, stride_xr, n_rows, n_cols, BLOCK_SIZE: tl.constexpr):
    rows = tl.program_id(axis=0) * 4 + tl.arange(0, 4)[:, None]
    carry = tl.zeros((4,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)[None, :]
        mask = (rows < n_rows) & (cols < n_cols)
        x = tl.load(x_ptr + rows * stride_xr + cols, mask=mask, other=0.0).to(tl.float32)
        scan = tl.cumsum(x, axis=0)
        tl.store(output_ptr + rows * n_cols + cols, carry[:, None] + scan, mask=mask)
        carry += tl.sum(x, axis=1)


def cumsum(x):
    """Running sums along the rows of a matrix, in float32."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=torch.float32, device=x.device)
    if output.numel() == 0:
        return output
    BLOCK_SIZE = 512
    cumsum_kernel[(triton.cdiv(n_rows, 4),)](
        x, output, x.stride(0), n_rows, n_cols, BLOCK_SIZE=BLOCK_SIZE
    )
    return output
