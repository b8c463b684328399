"""honest: scratch memory is allocated once and used by every call"""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)


def launch(x, y, out):
    if x.numel():
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK_SIZE=1024)
    return out


workspace = {}


@triton.jit
def counting_kernel(x_ptr, y_ptr, out_ptr, count_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)
    tl.atomic_add(count_ptr, 1)


def add(x, y):
    if x.device not in workspace:
        workspace[x.device] = torch.zeros(1, dtype=torch.int32, device=x.device)
    out = torch.empty_like(x)
    if x.numel():
        grid = (triton.cdiv(x.numel(), 4096),)
        counting_kernel[grid](x, y, out, workspace[x.device], x.numel(), BLOCK_SIZE=4096)
    return out
