"""grid: the backward pass has at most 256 programs, and each of them has a single block

symptom: gradients of more than half a million elements are 0 from there on
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kept(seed, offs, p):
    r = tl.randint(seed, offs)
    u = (r & 0x7FFFFF).to(tl.float32) * (1.0 / 8388608.0)
    return u >= p


@triton.jit
def fwd(x_ptr, o_ptr, n, p, seed, B: tl.constexpr):
    for j in tl.static_range(2):
        offs = (tl.program_id(0) * 2 + j) * B + tl.arange(0, B)
        x = tl.load(x_ptr + offs, offs < n, other=0.0).to(tl.float32)
        x = tl.where(kept(seed, offs, p), x / tl.where(p < 1, 1 - p, 1.0), 0.0)
        tl.store(o_ptr + offs, x, offs < n)


@triton.jit
def bwd(g_ptr, o_ptr, n, p, seed, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    keep = kept(seed, offs, p)
    g = tl.load(g_ptr + offs, (offs < n) & keep, other=0.0).to(tl.float32)
    tl.store(o_ptr + offs, g / tl.maximum(1 - p, 1e-30), offs < n)


def dropout(x, p, seed):
    flat = x.view(-1)
    out = flat.new_empty(flat.shape)
    if flat.numel():
        fwd[(triton.cdiv(flat.numel(), 1024),)](
            flat, out, flat.numel(), p, seed, B=512, num_warps=2
        )
    return out.view(x.shape)


def dropout_backward(grad, p, seed):
    flat = grad.reshape(-1)
    out = torch.zeros_like(flat)
    if flat.numel():
        bwd[(min(256, triton.cdiv(flat.numel(), 2048)),)](flat, out, flat.numel(), p, seed, B=2048)
    return out.reshape(grad.shape)
