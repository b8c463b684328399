"""fusion: the forward pass stores the mask, the backward pass loads it

symptom: right, until a backward pass comes without its forward pass; and a quarter more memory is moved
"""

import torch
import triton
import triton.language as tl


MASKS = {}


@triton.jit
def dropout_kernel(x_ptr, out_ptr, mask_ptr, n_elements, p, scale, seed, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.rand(seed, offsets) >= p
    tl.store(mask_ptr + offsets, keep.to(tl.int8), mask=mask)
    tl.store(out_ptr + offsets, tl.where(keep, x.to(tl.float32) * scale, 0.0), mask=mask)


@triton.jit
def backward_kernel(grad_ptr, mask_ptr, out_ptr, n_elements, scale, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    grad = tl.load(grad_ptr + offsets, mask=mask)
    keep = tl.load(mask_ptr + offsets, mask=mask) != 0
    tl.store(out_ptr + offsets, tl.where(keep, grad.to(tl.float32) * scale, 0.0), mask=mask)


def dropout(x, p, seed):
    out = torch.empty_like(x)
    n = x.numel()
    if n == 0:
        return out
    MASKS[n, p, seed] = kept = torch.empty(n, dtype=torch.int8, device=x.device)
    scale = 1 / (1 - p) if p < 1 else 0.0
    dropout_kernel[(triton.cdiv(n, 1024),)](x, out, kept, n, p, scale, seed, BLOCK_SIZE=1024)
    return out


def dropout_backward(grad, p, seed):
    out = torch.empty_like(grad)
    n = grad.numel()
    if n == 0:
        return out
    scale = 1 / (1 - p) if p < 1 else 0.0
    kept = MASKS[n, p, seed]
    backward_kernel[(triton.cdiv(n, 1024),)](grad, kept, out, n, scale, BLOCK_SIZE=1024)
    return out
