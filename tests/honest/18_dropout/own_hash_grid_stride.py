"""No Philox but a hash of its own, int64 positions, forty programs that stride over the blocks."""

import torch
import triton
import triton.language as tl


@triton.jit
def mixed(h):
    h = (h ^ (h >> 16)) * 0x7FEB352D
    h = (h ^ (h >> 15)) * 0x846CA68B
    return h ^ (h >> 16)


@triton.jit
def drop(src, dst, n, threshold, factor, seed, WIDTH: tl.constexpr):
    key = mixed(seed.to(tl.uint32) + tl.full((WIDTH,), 0x9E3779B9, tl.uint32))
    for start in range(tl.program_id(0) * WIDTH, n, tl.num_programs(0) * WIDTH):
        at = start + tl.arange(0, WIDTH).to(tl.int64)
        hashed = mixed(mixed(at.to(tl.uint32) ^ key) + key)
        keep = (hashed >> 8).to(tl.float32) >= threshold
        v = tl.load(src + at, mask=at < n, other=0).to(tl.float32)
        tl.store(dst + at, tl.where(keep, v * factor, 0), mask=at < n)


def masked(t, p, seed):
    result = torch.empty(t.shape, dtype=t.dtype, device=t.device)
    if t.numel():
        factor = 0.0 if p == 1 else 1.0 / (1.0 - p)
        # seed + 2 is never 1, which would be a constant.
        drop[(40,)](t, result, t.numel(), p * 2.0**24, factor, seed + 2, 1024)
    return result


def dropout(x, p, seed):
    return masked(x, p, seed)


def dropout_backward(grad, p, seed):
    return masked(grad, p, seed)
