"""reduction: the running sum keeps its old scale when the maximum grows

symptom: right up to 1024 columns; in longer rows right only if the maximum comes early
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(
    x_ptr, output_ptr, stride_xr, stride_xc, stride_or, n_cols, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0)
    x_ptr += row * stride_xr
    output_ptr += row * stride_or
    running_max = tl.full((1,), -float("inf"), tl.float32)
    running_sum = tl.zeros((1,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + cols * stride_xc, mask=cols < n_cols, other=-float("inf"))
        x = x.to(tl.float32)
        new_max = tl.maximum(running_max, tl.max(x, axis=0))
        shift = tl.where(new_max == -float("inf"), 0.0, new_max)
        running_sum += tl.sum(tl.exp(x - shift), axis=0)
        running_max = new_max
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + cols * stride_xc, mask=cols < n_cols, other=-float("inf"))
        numerator = tl.exp(x.to(tl.float32) - running_max)
        tl.store(output_ptr + cols, numerator / running_sum, mask=cols < n_cols)


def softmax(x):
    """Softmax along the rows of a matrix."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if output.numel() == 0:
        return output
    softmax_kernel[(n_rows,)](
        x, output, x.stride(0), x.stride(1), output.stride(0), n_cols, BLOCK_SIZE=1024
    )
    return output
