"""fusion: the forward pass keeps its result, the backward pass looks where it is 0

symptom: right in training; a gradient check by itself fails, and results stay in memory
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
    y = tl.where(keep, x.to(tl.float32) * scale, 0.0)
    tl.store(out_ptr + offsets, y, mask=mask)


@triton.jit
def backward_kernel(grad_ptr, y_ptr, out_ptr, n_elements, scale, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    grad = tl.load(grad_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.where(y != 0, grad.to(tl.float32) * scale, 0.0), mask=mask)


RESULTS = {}


def dropout(x, p, seed):
    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements == 0:
        return out
    scale = 1 / (1 - p) if p < 1 else 0.0
    grid = (triton.cdiv(n_elements, 1024),)
    dropout_kernel[grid](x, out, n_elements, p, scale, seed, BLOCK_SIZE=1024)
    RESULTS[n_elements, p, seed] = out
    return out


def dropout_backward(grad, p, seed):
    out = torch.empty_like(grad)
    n = grad.numel()
    if n == 0:
        return out
    y = RESULTS.get((n, p, seed))
    if y is None:
        y = dropout(grad, p, seed)
    scale = 1 / (1 - p) if p < 1 else 0.0
    backward_kernel[(triton.cdiv(n, 1024),)](grad, y, out, n, scale, BLOCK_SIZE=1024)
    return out
