"""Kata 1, vector_add: add two tensors, element by element.

    add(x, y) -> x + y

x and y have the same shape (any number of dimensions) and the same dtype: fp16, bf16, fp32 or
int32. Both are contiguous. The result is a new tensor like x.

Type `nox -s check-1` to see how far the kernel is; README.md of this kata is the lesson.
"""

import torch
import triton
import triton.language as tl

BLOCK_SIZE = 1024


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    # TODO(offsets): which elements are this program's? tl.program_id(axis=0) is its number; its
    # block starts that many times BLOCK_SIZE further on.
    offsets = tl.arange(0, BLOCK_SIZE)

    # TODO(mask): True in the lanes whose element exists, False in those past the end.
    mask = offsets >= 0

    # A pointer plus a block of offsets is a block of addresses: one load fetches them all.
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)

    # TODO(values): the sum of the two blocks.
    total = x

    tl.store(out_ptr + offsets, total, mask=mask)


def add(x, y):
    """x + y, in a new tensor of x's shape and dtype."""
    if x.shape != y.shape:
        raise ValueError(f"x and y must have the same shape, got {x.shape} and {y.shape}")
    if x.dtype != y.dtype:
        raise ValueError(f"x and y must have the same dtype, got {x.dtype} and {y.dtype}")
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.int32):
        raise ValueError(f"x must be fp16, bf16, fp32 or int32, got {x.dtype}")
    if not (x.is_contiguous() and y.is_contiguous()):
        raise ValueError("x and y must be contiguous")

    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements == 0:
        return out

    # TODO(grid): a tuple with the number of programs, enough to cover every element.
    grid = (1,)

    add_kernel[grid](x, y, out, n_elements, BLOCK_SIZE=BLOCK_SIZE)
    return out
