"""Tensor descriptors made by the launcher, plain pointers where memory is not aligned."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def add_with_descriptors(x_desc, y_desc, output_desc, BLOCK_SIZE: tl.constexpr):
    start = tl.program_id(axis=0) * BLOCK_SIZE
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
    if n_elements == 0:
        return output
    grid = (triton.cdiv(n_elements, 256),)
    if all(t.data_ptr() % 16 == 0 for t in (x, y, output)):
        flat = [TensorDescriptor.from_tensor(t.view(-1), [256]) for t in (x, y, output)]
        add_with_descriptors[grid](*flat, BLOCK_SIZE=256)
    else:
        add_with_pointers[grid](x, y, output, n_elements, BLOCK_SIZE=256)
    return output
