"""Tensor descriptors where strides and memory are aligned, plain pointers elsewhere."""

import torch
import triton
import triton.language as tl


@triton.jit
def sum_with_descriptor(x_ptr, output_ptr, stride_xr, n_rows, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    desc = tl.make_tensor_descriptor(x_ptr, [n_rows, n_cols], [stride_xr, 1], [1, BLOCK_SIZE])
    acc = tl.zeros((1, BLOCK_SIZE), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        acc += desc.load([row, start]).to(tl.float32)
    tl.store(output_ptr + row, tl.sum(tl.sum(acc, axis=1), axis=0))


@triton.jit
def sum_with_pointers(x_ptr, output_ptr, stride_xr, n_rows, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    acc = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + row * stride_xr + cols, mask=cols < n_cols, other=0.0)
        acc += x.to(tl.float32)
    tl.store(output_ptr + row, tl.sum(acc, axis=0))


def row_sum(x):
    """The sums of the rows of a matrix, in float32."""
    n_rows, n_cols = x.shape
    output = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    if n_rows == 0:
        return output
    triton.set_allocator(
        lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=x.device)
    )
    row_bytes = x.stride(0) * x.element_size()
    aligned = x.data_ptr() % 16 == 0 and row_bytes % 16 == 0 and row_bytes > 0 and n_cols > 0
    kernel = sum_with_descriptor if aligned else sum_with_pointers
    kernel[(n_rows,)](x, output, x.stride(0), n_rows, n_cols, BLOCK_SIZE=256)
    return output
