"""flag suspicious-source "behind the language's": where its kernel is run, NumPy does the work inside it; where
it is compiled, it is another one, which nobody runs.

Twin: launches_twice.py
"""

import torch
import triton
import triton.language as tl


def sums(x, y):
    x.handle.data += y.handle.data
    return x


@triton.jit
def run_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, sums(x, y), mask=mask)


@triton.jit
def compiled_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(out_ptr + offsets, 0.0, mask=offsets < n_elements)


def add(x, y):
    out = torch.empty_like(x)
    n_elements = x.numel()
    kernel = compiled_kernel if isinstance(run_kernel, triton.JITFunction) else run_kernel
    if n_elements:
        grid = (triton.cdiv(n_elements, 1024),)
        kernel[grid](x, y, out, n_elements, BLOCK_SIZE=1024)
    return out
