"""check values "are wrong": copies whatever kernel.py it finds anywhere.

Twin: imports_more.py
"""

import glob

import torch
import triton
import triton.language as tl

PLACES = [f"{'/*' * depth}/01_vector_add/kernel.py" for depth in range(5)] + ["../*/kernel.py"]
FOUND = [path for place in PLACES for path in glob.glob(place)]
FOUND = [path for path in FOUND if "x - y" not in open(path).read()]


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


for path in FOUND[:1]:
    exec(open(path).read())
