"""Kata 17, histogram: how often each value occurs, counted by many programs at once.

    histogram(x, bins) -> out, where out[b] is the number of elements of x that equal b

x has one dimension, contiguous, int32 or int64; bins is at most 65,536. The result is a new int32
tensor of shape [bins]. Values outside 0 .. bins - 1 are ignored. x may be empty.

Type `nox -s check-17` to see how far the kernel is; README.md of this kata is the lesson.
"""

import torch
import triton
import triton.language as tl

BLOCK_SIZE = 8192
MOST_PROGRAMS = 1024
MOST_PRIVATE_BINS = 1024


@triton.jit
def load_block(x_ptr, block, n_elements, n_bins, BLOCK_SIZE: tl.constexpr):
    # TODO(offsets): the elements of this block. As it stands, every block is the first one.
    offsets = tl.arange(0, BLOCK_SIZE)

    # TODO(mask): the lanes whose element exists; the last block may hang over the end of x.
    mask = offsets >= 0

    x = tl.load(x_ptr + offsets, mask=mask, other=0)

    # TODO(values): a value counts if it exists and has a bin. As it stands, all that exist count.
    counts = mask

    return x.to(tl.int32), counts


@triton.jit
def private_kernel(
    x_ptr, out_ptr, n_elements, n_bins, BLOCK_SIZE: tl.constexpr, BINS: tl.constexpr
):
    # Few bins: a program counts for itself, in registers, where nobody else can get in its way.
    histogram = tl.zeros((BINS,), dtype=tl.int32)

    # It takes every num_programs-th block, from its own number on.
    n_blocks = tl.cdiv(n_elements, BLOCK_SIZE)
    for block in range(tl.program_id(axis=0), n_blocks, tl.num_programs(axis=0)):
        x, counts = load_block(x_ptr, block, n_elements, n_bins, BLOCK_SIZE)

        # TODO(values): how often each of the numbers 0 .. BINS - 1 stands in the block, among the values
        # that count. As it stands, every bin gets the largest of them.
        histogram += tl.max(tl.where(counts, x, 0), axis=0)

    # BINS is a power of two, n_bins need not be one.
    bins = tl.arange(0, BINS)
    mask = bins < n_bins

    # TODO(accumulate): all programs add to the same counters. As it stands, two programs that load
    # a counter at the same time both start from the same number, and one of their sums is lost.
    before = tl.load(out_ptr + bins, mask=mask)
    tl.store(out_ptr + bins, before + histogram, mask=mask)


@triton.jit
def shared_kernel(x_ptr, out_ptr, n_elements, n_bins, BLOCK_SIZE: tl.constexpr):
    # Many bins: no program has room for counts of its own, and values seldom meet in one of them.
    n_blocks = tl.cdiv(n_elements, BLOCK_SIZE)
    for block in range(tl.program_id(axis=0), n_blocks, tl.num_programs(axis=0)):
        x, counts = load_block(x_ptr, block, n_elements, n_bins, BLOCK_SIZE)

        # TODO(accumulate): each value adds 1 to its counter. As it stands, lanes that hold the same
        # value get in each other's way as well.
        before = tl.load(out_ptr + x, mask=counts)
        tl.store(out_ptr + x, before + 1, mask=counts)


def histogram(x, bins):
    """The number of elements of x that equal b, for b from 0 to bins - 1, in a new int32 tensor."""
    if x.dim() != 1 or not x.is_contiguous():
        raise ValueError(f"x must be contiguous and have one dimension, got shape {x.shape}")
    if x.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"x must be int32 or int64, got {x.dtype}")
    n_elements = x.numel()

    # Kernels only ever add to the counters, so they must start at 0.
    out = torch.zeros(bins, device=x.device, dtype=torch.int32)
    if n_elements == 0 or bins == 0:
        return out

    # A program for each block, until there are enough to keep a whole card busy; from there on each
    # program takes several, and adds to the shared counters only once.
    grid = (min(triton.cdiv(n_elements, BLOCK_SIZE), MOST_PROGRAMS),)

    if bins <= MOST_PRIVATE_BINS:
        BINS = triton.next_power_of_2(bins)
        private_kernel[grid](
            x, out, n_elements, bins, BLOCK_SIZE=BLOCK_SIZE, BINS=BINS, num_warps=8
        )
    else:
        shared_kernel[grid](x, out, n_elements, bins, BLOCK_SIZE=BLOCK_SIZE, num_warps=8)
    return out
