"""Tensor descriptors where strides and memory are aligned, plain pointers elsewhere."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_of(x):
    numerator = tl.exp(x - tl.max(x, axis=1)[:, None])
    return numerator / tl.sum(numerator, axis=1)[:, None]


@triton.jit
def softmax_with_descriptors(
    x_ptr, output_ptr, stride_xr, stride_xc, n_rows, n_cols, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0)
    x_desc = tl.make_tensor_descriptor(x_ptr, [n_rows, n_cols], [stride_xr, 1], [1, BLOCK_SIZE])
    output_desc = tl.make_tensor_descriptor(
        output_ptr, [n_rows, n_cols], [n_cols, 1], [1, BLOCK_SIZE]
    )
    mask = tl.arange(0, BLOCK_SIZE)[None, :] < n_cols
    x = tl.where(mask, x_desc.load([row, 0]).to(tl.float32), -float("inf"))
    output_desc.store([row, 0], softmax_of(x).to(output_ptr.dtype.element_ty))


@triton.jit
def softmax_with_pointers(
    x_ptr, output_ptr, stride_xr, stride_xc, n_rows, n_cols, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)[None, :]
    x_ptrs = x_ptr + row * stride_xr + cols * stride_xc
    x = tl.load(x_ptrs, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    tl.store(output_ptr + row * n_cols + cols, softmax_of(x), mask=cols < n_cols)


def fits_descriptor(t):
    row_bytes = t.stride(0) * t.element_size()
    return t.data_ptr() % 16 == 0 and t.stride(1) == 1 and row_bytes % 16 == 0 and row_bytes > 0


def softmax(x):
    """Softmax along the rows of a matrix."""
    n_rows, n_cols = x.shape
    output = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if output.numel() == 0:
        return output
    triton.set_allocator(
        lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=x.device)
    )
    BLOCK_SIZE = max(16, triton.next_power_of_2(n_cols))
    described = fits_descriptor(x) and fits_descriptor(output)
    kernel = softmax_with_descriptors if described else softmax_with_pointers
    kernel[(n_rows,)](x, output, *x.stride(), n_rows, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=8)
    return output
