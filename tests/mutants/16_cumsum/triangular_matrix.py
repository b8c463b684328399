"""robust: the scan is a product with a triangular matrix of ones and zeros, and 0 * inf is NaN

symptom: right for finite numbers; an infinity turns columns before its own into NaN
"""

import torch
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(x_ptr, output_ptr, stride_xr, n_cols, SIDE: tl.constexpr):
    row = tl.program_id(axis=0)
    carry = 0.0
    for start in range(0, n_cols, SIDE * SIDE):
        runs = tl.arange(0, SIDE)[:, None]
        lanes = tl.arange(0, SIDE)[None, :]
        cols = start + runs * SIDE + lanes
        mask = cols < n_cols
        x = tl.load(x_ptr + row * stride_xr + cols, mask=mask, other=0.0).to(tl.float32)
        scan = tl.dot(x, (runs <= lanes).to(tl.float32), input_precision="ieee")
        sums = tl.sum(x, axis=1)
        scan += tl.sum(tl.where(lanes < runs, sums[None, :], 0.0), axis=1)[:, None]
        tl.store(output_ptr + row * n_cols + cols, carry + scan, mask=mask)
        carry += tl.sum(sums, axis=0)


def cumsum(x):
    """Running sums along the rows of a matrix, in float32."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=torch.float32, device=x.device)
    if output.numel() == 0:
        return output
    SIDE = 64
    cumsum_kernel[(n_rows,)](x, output, x.stride(0), n_cols, SIDE=SIDE)
    return output
