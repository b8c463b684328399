"""grid: no more than 65,535 programs, a limit that the first axis of a grid does not have

symptom: every row beyond the 65,535th comes back as whatever the memory held
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(
    x_ptr, output_ptr, stride_xr, stride_xc, stride_or, n_cols, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x_ptrs = x_ptr + row * stride_xr + cols * stride_xc
    x = tl.load(x_ptrs, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    denominator = tl.sum(numerator, axis=0)
    tl.store(output_ptr + row * stride_or + cols, numerator / denominator, mask=mask)


def softmax(x):
    """Softmax along the rows of a matrix."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if output.numel() == 0:
        return output
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    num_warps = min(16, max(4, BLOCK_SIZE // 512))
    softmax_kernel[(min(n_rows, 65_535),)](
        x,
        output,
        x.stride(0),
        x.stride(1),
        output.stride(0),
        n_cols,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
    )
    return output
