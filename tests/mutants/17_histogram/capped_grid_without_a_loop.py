"""grid: there are at most 1,024 programs, and each of them counts a single block

symptom: right up to 8 million values; those beyond are not counted
"""

import torch
import triton
import triton.language as tl

BLOCK_SIZE = 8192
MOST_PROGRAMS = 1024
MOST_PRIVATE_BINS = 1024


@triton.jit
def load_block(x_ptr, block, n_elements, n_bins, BLOCK_SIZE: tl.constexpr):
    offsets = block * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0)
    counts = mask & (x >= 0) & (x < n_bins)
    return x.to(tl.int32), counts


@triton.jit
def private_kernel(
    x_ptr, out_ptr, n_elements, n_bins, BLOCK_SIZE: tl.constexpr, BINS: tl.constexpr
):
    x, counts = load_block(x_ptr, tl.program_id(axis=0), n_elements, n_bins, BLOCK_SIZE)
    histogram = tl.histogram(x, BINS, mask=counts)
    bins = tl.arange(0, BINS)
    mask = bins < n_bins
    tl.atomic_add(out_ptr + bins, histogram, mask=mask, sem="relaxed")


@triton.jit
def shared_kernel(x_ptr, out_ptr, n_elements, n_bins, BLOCK_SIZE: tl.constexpr):
    x, counts = load_block(x_ptr, tl.program_id(axis=0), n_elements, n_bins, BLOCK_SIZE)
    tl.atomic_add(out_ptr + x, 1, mask=counts, sem="relaxed")


def histogram(x, bins):
    """The number of elements of x that equal b, for b from 0 to bins - 1, in a new int32 tensor."""
    n_elements = x.numel()
    out = torch.zeros(bins, device=x.device, dtype=torch.int32)
    if n_elements == 0 or bins == 0:
        return out
    grid = (min(triton.cdiv(n_elements, BLOCK_SIZE), MOST_PROGRAMS),)
    if bins <= MOST_PRIVATE_BINS:
        BINS = triton.next_power_of_2(bins)
        private_kernel[grid](
            x, out, n_elements, bins, BLOCK_SIZE=BLOCK_SIZE, BINS=BINS, num_warps=8
        )
    else:
        shared_kernel[grid](x, out, n_elements, bins, BLOCK_SIZE=BLOCK_SIZE, num_warps=8)
    return out
