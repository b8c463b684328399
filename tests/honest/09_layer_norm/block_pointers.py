"""Block pointers for the matrices and for weight and bias.

requires: triton<3.9
"""

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, stride_x, n_rows, n_cols, eps, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0)
    x_block = tl.make_block_ptr(
        x_ptr, (n_rows, n_cols), (stride_x, 1), (row, 0), (1, BLOCK_SIZE), (1, 0)
    )
    y_block = tl.make_block_ptr(
        y_ptr, (n_rows, n_cols), (n_cols, 1), (row, 0), (1, BLOCK_SIZE), (1, 0)
    )
    x = tl.load(x_block, boundary_check=(1,), padding_option="zero").to(tl.float32)
    mean = tl.sum(x, axis=1) / n_cols
    inside = tl.arange(0, BLOCK_SIZE)[None, :] < n_cols
    centred = tl.where(inside, x - mean[:, None], 0.0)
    squares = tl.sum(centred * centred, axis=1)
    y = centred * tl.rsqrt(squares / n_cols + eps)[:, None]
    if w_ptr is not None:
        w_block = tl.make_block_ptr(w_ptr, (n_cols,), (1,), (0,), (BLOCK_SIZE,), (0,))
        y *= tl.load(w_block, boundary_check=(0,)).to(tl.float32)[None, :]
    if b_ptr is not None:
        b_block = tl.make_block_ptr(b_ptr, (n_cols,), (1,), (0,), (BLOCK_SIZE,), (0,))
        y += tl.load(b_block, boundary_check=(0,)).to(tl.float32)[None, :]
    tl.store(y_block, y.to(y_ptr.dtype.element_ty), boundary_check=(1,))


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    """Layer norm along the rows of a matrix."""
    n_rows, n_cols = x.shape
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    layer_norm_kernel[(n_rows,)](
        x,
        weight,
        bias,
        y,
        x.stride(0),
        n_rows,
        n_cols,
        eps,
        BLOCK_SIZE=triton.next_power_of_2(n_cols),
        num_warps=8,
    )
    return y
