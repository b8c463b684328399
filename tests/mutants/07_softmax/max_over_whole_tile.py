"""robust: one maximum over all rows of a tile instead of one a row

symptom: right when all rows are of one size; NaN for a row that lies far below its neighbours
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(
    x_ptr,
    output_ptr,
    stride_xr,
    stride_xc,
    stride_or,
    n_rows,
    n_cols,
    ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    rows = tl.program_id(axis=0) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK_SIZE)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    x_ptrs = x_ptr + rows * stride_xr + cols * stride_xc
    x = tl.load(x_ptrs, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x))
    denominator = tl.sum(numerator, axis=1)[:, None]
    tl.store(output_ptr + rows * stride_or + cols, numerator / denominator, mask=mask)


def softmax(x):
    """Softmax along the rows of a matrix."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if output.numel() == 0:
        return output
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    ROWS = 4 if BLOCK_SIZE <= 1024 else 1
    softmax_kernel[(triton.cdiv(n_rows, ROWS),)](
        x,
        output,
        x.stride(0),
        x.stride(1),
        output.stride(0),
        n_rows,
        n_cols,
        ROWS=ROWS,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=8,
    )
    return output
