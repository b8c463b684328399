"""accumulate: every value loads its counter, adds 1 and stores it, without an atomic

symptom: values that occur once are right, frequent ones are counted a few times
"""

import torch
import triton
import triton.language as tl


@triton.jit
def each_kernel(x_ptr, out_ptr, n_elements, n_bins, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=-1)
    counts = mask & (x >= 0) & (x < n_bins)
    before = tl.load(out_ptr + x, mask=counts)
    tl.store(out_ptr + x, before + 1, mask=counts)


def histogram(x, bins):
    n_elements = x.numel()
    out = torch.zeros(bins, device=x.device, dtype=torch.int32)
    if n_elements == 0:
        return out
    grid = (triton.cdiv(n_elements, 4096),)
    each_kernel[grid](x, out, n_elements, bins, BLOCK_SIZE=4096)
    return out
