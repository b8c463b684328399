"""Tensor descriptors made in the kernel, plain pointers where memory is not aligned."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_with_descriptors(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    start = tl.program_id(axis=0) * BLOCK_SIZE
    x_desc = tl.make_tensor_descriptor(x_ptr, [n_elements], [1], [BLOCK_SIZE])
    y_desc = tl.make_tensor_descriptor(y_ptr, [n_elements], [1], [BLOCK_SIZE])
    output_desc = tl.make_tensor_descriptor(output_ptr, [n_elements], [1], [BLOCK_SIZE])
    output_desc.store([start], x_desc.load([start]) + y_desc.load([start]))


@triton.jit
def add_with_pointers(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, total, mask=mask)


def add(x, y):
    """The sum of two contiguous tensors of the same shape and dtype."""
    output = torch.empty_like(x)
    n_elements = output.numel()
    triton.set_allocator(
        lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=x.device)
    )
    aligned = all(t.data_ptr() % 16 == 0 for t in (x, y, output))
    kernel = add_with_descriptors if aligned else add_with_pointers
    kernel[(triton.cdiv(n_elements, 256),)](x, y, output, n_elements, BLOCK_SIZE=256)
    return output
