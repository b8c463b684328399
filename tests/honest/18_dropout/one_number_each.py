"""One number for each element, blocks of 512, x / (1 - p) in the kernel."""

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n_elements, p, seed, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    random = tl.rand(seed, offsets)
    tl.store(out_ptr + offsets, tl.where(random > p, x / (1 - p), 0.0), mask=mask)


def dropout(x, p, seed):
    out = torch.empty_like(x)
    if x.numel():
        grid = (triton.cdiv(x.numel(), 512),)
        dropout_kernel[grid](x, out, x.numel(), p, seed, BLOCK_SIZE=512)
    return out


dropout_backward = dropout
