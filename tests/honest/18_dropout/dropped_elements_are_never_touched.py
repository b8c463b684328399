"""What is dropped is neither read nor written: the result starts as zeros."""

import torch
import triton
import triton.language as tl


@triton.jit
def scatter_kernel(x_ptr, out_ptr, n_elements, p, scale, seed, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    kept = (offsets < n_elements) & (tl.rand(seed, offsets) >= p)
    x = tl.load(x_ptr + offsets, mask=kept)
    tl.store(out_ptr + offsets, x.to(tl.float32) * scale, mask=kept)


def scattered(x, p, seed):
    out = torch.zeros_like(x)
    if x.numel() and p < 1:
        grid = (triton.cdiv(x.numel(), 2048),)
        scatter_kernel[grid](x, out, x.numel(), p, 1 / (1 - p), seed, BLOCK_SIZE=2048)
    return out


def dropout(x, p, seed):
    return scattered(x, p, seed)


def dropout_backward(grad, p, seed):
    return scattered(grad, p, seed)
