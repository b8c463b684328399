"""Tensor descriptors where strides and memory are aligned, plain pointers elsewhere."""

import torch
import triton
import triton.language as tl


@triton.jit
def normalised(x, cols, n_cols, eps, w_ptr, b_ptr):
    mask = cols < n_cols
    mean = tl.sum(x, axis=1, keep_dims=True) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    y = centred / tl.sqrt(tl.sum(centred * centred, axis=1, keep_dims=True) / n_cols + eps)
    if w_ptr is not None:
        y *= tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    if b_ptr is not None:
        y += tl.load(b_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    return y


@triton.jit
def with_descriptors(
    x_ptr, w_ptr, b_ptr, y_ptr, stride_x, n_rows, n_cols, eps, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0)
    x_desc = tl.make_tensor_descriptor(x_ptr, [n_rows, n_cols], [stride_x, 1], [1, BLOCK_SIZE])
    y_desc = tl.make_tensor_descriptor(y_ptr, [n_rows, n_cols], [n_cols, 1], [1, BLOCK_SIZE])
    cols = tl.arange(0, BLOCK_SIZE)[None, :]
    x = x_desc.load([row, 0]).to(tl.float32)
    y = normalised(x, cols, n_cols, eps, w_ptr, b_ptr)
    y_desc.store([row, 0], y.to(y_ptr.dtype.element_ty))


@triton.jit
def with_pointers(
    x_ptr, w_ptr, b_ptr, y_ptr, stride_x, n_rows, n_cols, eps, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)[None, :]
    x = tl.load(x_ptr + row * stride_x + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    y = normalised(x, cols, n_cols, eps, w_ptr, b_ptr)
    tl.store(y_ptr + row * n_cols + cols, y.to(y_ptr.dtype.element_ty), mask=cols < n_cols)


def fits_descriptor(t):
    row_bytes = t.stride(0) * t.element_size()
    return t.data_ptr() % 16 == 0 and row_bytes % 16 == 0 and row_bytes > 0


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    """Layer norm along the rows of a matrix."""
    n_rows, n_cols = x.shape
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    triton.set_allocator(
        lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=x.device)
    )
    fits = n_cols <= 16_384 and fits_descriptor(x) and fits_descriptor(y)  # in shared memory too
    kernel = with_descriptors if fits else with_pointers
    kernel[(n_rows,)](
        x,
        weight,
        bias,
        y,
        x.stride(0),
        n_rows,
        n_cols,
        eps,
        BLOCK_SIZE=max(16, triton.next_power_of_2(n_cols)),
        num_warps=8,
    )
    return y
