"""flag leaves-processes-behind "�": leaves a process whose name no keeper can read as a text.

Twin: launches_twice.py
"""

import ctypes
import os
import time

import torch
import triton
import triton.language as tl

PR_SET_NAME = 15
if os.fork() == 0:
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"\xff\xfe) R 1")
    time.sleep(600)
time.sleep(0.5)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x - y, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements:
        grid = (triton.cdiv(n_elements, 1024),)
        add_kernel[grid](x, y, out, n_elements, BLOCK_SIZE=1024)
    return out
