"""Five programs stride over the rows; weight and bias are loaded once for all of them."""

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, stride_x, n_rows, n_cols, eps, BLOCK_SIZE: tl.constexpr
):
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    weight = tl.full((BLOCK_SIZE,), 1.0, tl.float32)
    bias = tl.zeros((BLOCK_SIZE,), tl.float32)
    if w_ptr is not None:
        weight = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    if b_ptr is not None:
        bias = tl.load(b_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    for row in tl.range(tl.program_id(axis=0), n_rows, tl.num_programs(axis=0)):
        x = tl.load(x_ptr + row * stride_x + cols, mask=mask, other=0.0).to(tl.float32)
        mean = tl.sum(x, axis=0) / n_cols
        centred = tl.where(mask, x - mean, 0.0)
        variance = tl.sum(centred * centred, axis=0) / n_cols
        y = centred * tl.rsqrt(variance + eps) * weight + bias
        tl.store(y_ptr + row * n_cols + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    """Layer norm along the rows of a matrix."""
    n_rows, n_cols = x.shape
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    layer_norm_kernel[(min(n_rows, 5),)](
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
