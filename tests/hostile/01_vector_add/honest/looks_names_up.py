"""Looks up types and settings by name, and has names that are not written in ASCII."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr, TYPE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, (x + y).to(TYPE), mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    größe = x.numel()
    if größe:
        card = torch.cuda.get_device_properties(0)
        block = 1024 if getattr(card, "multi_processor_count", 1) > 16 else 512
        kind = getattr(tl, str(x.dtype).split(".")[1])
        add_kernel[(triton.cdiv(größe, block),)](x, y, out, größe, BLOCK_SIZE=block, TYPE=kind)
    return out
