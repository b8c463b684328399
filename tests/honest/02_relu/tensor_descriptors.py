"""Tensor descriptors made in the kernel, plain pointers where memory is not aligned."""

import torch
import triton
import triton.language as tl


@triton.jit
def relu_with_descriptors(x_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    start = tl.program_id(axis=0) * BLOCK_SIZE
    x_desc = tl.make_tensor_descriptor(x_ptr, [n_elements], [1], [BLOCK_SIZE])
    output_desc = tl.make_tensor_descriptor(output_ptr, [n_elements], [1], [BLOCK_SIZE])
    x = x_desc.load([start])
    output_desc.store([start], tl.where(x > 0, x, 0.0))


@triton.jit
def relu_with_pointers(x_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, tl.where(x > 0, x, 0.0), mask=mask)


def relu(x):
    """The larger of x and 0, of a contiguous tensor."""
    output = torch.empty_like(x)
    n_elements = output.numel()
    triton.set_allocator(
        lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=x.device)
    )
    aligned = x.data_ptr() % 16 == 0 and output.data_ptr() % 16 == 0
    kernel = relu_with_descriptors if aligned else relu_with_pointers
    kernel[(triton.cdiv(n_elements, 256),)](x, output, n_elements, BLOCK_SIZE=256)
    return output
