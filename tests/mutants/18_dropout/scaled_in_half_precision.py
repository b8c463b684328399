"""precision: the factor is rounded to x's dtype, and the product a second time

symptom: fp16 results are off by a last bit here and there
"""

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n_elements, p, scale, seed, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.rand(seed, offsets) >= p
    y = tl.where(keep, x * scale.to(x.dtype), 0.0)
    tl.store(out_ptr + offsets, y, mask=mask)


def dropout(x, p, seed):
    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements == 0:
        return out
    scale = 1 / (1 - p) if p < 1 else 0.0
    grid = (triton.cdiv(n_elements, 1024),)
    dropout_kernel[grid](x, out, n_elements, p, scale, seed, BLOCK_SIZE=1024)
    return out


def dropout_backward(grad, p, seed):
    return dropout(grad, p, seed)
