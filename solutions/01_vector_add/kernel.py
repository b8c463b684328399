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
    # Every program runs this same body; only its id differs. Program 0 takes the first
    # BLOCK_SIZE elements, program 1 the next BLOCK_SIZE, and so on.
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)

    # n_elements is rarely a multiple of BLOCK_SIZE, so the last block hangs over the end. The
    # mask switches those lanes off.
    mask = offsets < n_elements

    # A pointer plus a block of offsets is a block of addresses: one load fetches them all.
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)

    # An operator between two blocks works on every pair of lanes at once.
    total = x + y

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

    # As many programs as it takes to cover all elements, the last block possibly part full: the
    # division rounds up.
    grid = (triton.cdiv(n_elements, BLOCK_SIZE),)

    add_kernel[grid](x, y, out, n_elements, BLOCK_SIZE=BLOCK_SIZE)
    return out
