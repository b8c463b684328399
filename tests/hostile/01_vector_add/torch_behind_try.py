"""check values "PyTorch does part of the work: add": a kernel that fails, and a way out.

Twin: catches_an_import_error.py, which has a way out that is a kernel as well.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, no_such_name, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    try:
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK_SIZE=1024)
    except Exception:
        out = torch.add(x, y)
    return out
