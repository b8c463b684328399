"""No atomics, no second kernel: each program reads all of x, and counts only the bins that it owns."""

import torch
import triton
import triton.language as tl


@triton.jit
def owner_kernel(x_ptr, out_ptr, n, n_bins, OWN: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * OWN
    counts = tl.zeros((OWN,), dtype=tl.int32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        place = tl.load(x_ptr + i, mask=i < n, other=-1) - first
        mine = (place >= 0) & (place < OWN)
        counts += tl.histogram(tl.where(mine, place, 0).to(tl.int32), OWN, mask=mine)
    bins = first + tl.arange(0, OWN)
    tl.store(out_ptr + bins, counts, mask=bins < n_bins)


def histogram(x, bins):
    out = torch.empty(bins, device=x.device, dtype=torch.int32)
    own = min(max(triton.next_power_of_2(bins) // 8, 1), 256)
    owner_kernel[(triton.cdiv(bins, own),)](
        x, out, x.numel(), bins, OWN=own, BLOCK=8192, num_warps=8
    )
    return out
