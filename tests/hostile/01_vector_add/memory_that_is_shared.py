"""check values "Operation not permitted": its processes share memory that is in no file, and so in no count of
any of them.

Twin: uses_a_workspace.py
"""

import mmap
import os
import time

import torch
import triton
import triton.language as tl

PIECE = 300 << 20
for _ in range(4):
    if os.fork() == 0:
        shared = mmap.mmap(-1, PIECE)
        shared[:] = bytes(PIECE)
        time.sleep(600)
shared = mmap.mmap(-1, PIECE)
time.sleep(3)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements:
        grid = (triton.cdiv(n_elements, 1024),)
        add_kernel[grid](x, y, out, n_elements, BLOCK_SIZE=1024)
    return out
