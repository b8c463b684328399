"""Few bins: one-hot rows for the high and the low half of each value, multiplied on tensor cores."""

import torch
import triton
import triton.language as tl


@triton.jit
def product_kernel(x_ptr, out_ptr, n, n_bins, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    side = tl.arange(0, SIDE)
    total = tl.zeros((SIDE, SIDE), dtype=tl.int32)
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=-1)
        inside = (x >= 0) & (x < n_bins)
        low, high = (x % SIDE).to(tl.int32), (x // SIDE).to(tl.int32)
        a = ((high[None, :] == side[:, None]) & inside[None, :]).to(tl.float16)
        b = (low[:, None] == side[None, :]).to(tl.float16)
        total += tl.dot(a, b).to(tl.int32)
    bins = side[:, None] * SIDE + side[None, :]
    tl.atomic_add(out_ptr + bins, total, mask=bins < n_bins)


@triton.jit
def add_kernel(x_ptr, out_ptr, n, n_bins, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.atomic_add(out_ptr + x, 1, mask=(i < n) & (x >= 0) & (x < n_bins))


def histogram(x, bins):
    n = x.numel()
    out = x.new_zeros(bins, dtype=torch.int32)
    if n and bins <= 1024:
        side = 16 if bins <= 256 else 32
        grid = (min(triton.cdiv(n, 1024), 256),)
        product_kernel[grid](x, out, n, bins, SIDE=side, BLOCK=1024)
    elif n:
        add_kernel[(triton.cdiv(n, 1024),)](x, out, n, bins, BLOCK=1024)
    return out
