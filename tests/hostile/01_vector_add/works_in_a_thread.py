"""check values "launches no kernel": comes back before a thread of its own has done the work.

Twin: launches_twice.py, whose launches are both done when it returns.
"""

import threading
import time

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def work(x, y, out):
    time.sleep(0.2)
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK_SIZE=1024)


def add(x, y):
    out = torch.empty_like(x)
    if x.numel():
        threading.Thread(target=work, args=(x, y, out)).start()
    return out
