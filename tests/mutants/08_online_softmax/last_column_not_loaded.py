"""mask: the last column is left out of every load, the store has it

symptom: the last number of each row is 0, and the others are a little too large
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, output_ptr, stride_xr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    x_row = x_ptr + row * stride_xr
    output_row = output_ptr + row * n_cols
    m = -float("inf")
    s = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_row + cols, mask=cols + 1 < n_cols, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, axis=0))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        s = s * tl.exp(m - shift) + tl.sum(tl.exp(x - shift), axis=0)
        m = m_new
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_row + cols, mask=cols + 1 < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(output_row + cols, tl.exp(x - m) / s, mask=cols < n_cols)


def online_softmax(x):
    """Softmax along the rows of a matrix."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if output.numel() == 0:
        return output
    BLOCK_SIZE = 4096
    softmax_kernel[(n_rows,)](x, output, x.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=8)
    return output
