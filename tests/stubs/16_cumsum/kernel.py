"""Kata 16, cumsum: running sums along rows that are longer than a block.

    cumsum(x) -> out[i, j] = x[i, 0] + x[i, 1] + ... + x[i, j]

x is [R, C], fp16, bf16 or fp32, with unit column stride and any row stride, C up to 1,000,000. The
result is a new contiguous fp32 tensor of x's shape, added up in fp32 whatever x is. A row is walked
in blocks of at most 16,384 columns; every element is read twice at most and written once, and x is
not copied. An infinity or a NaN is felt by the columns from its own on, and by none before it.

Type `nox -s check-16` to see how far the kernel is; README.md of this kata is the lesson.
"""

import torch
import triton
import triton.language as tl

LARGEST_BLOCK = 4096
BLOCKS_PER_PART = 4
ENOUGH_ROWS = 1024


@triton.jit
def load_block(x_ptr, row, block, stride_row, n_cols, BLOCK_SIZE: tl.constexpr):
    # One block of a row, in fp32; its columns; and which of them exist.
    cols = block * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)

    # TODO(offsets): where does the row start in x, whose rows lie stride_row apart?
    row_ptr = x_ptr

    # TODO(mask): which lanes hold a column of the row.
    mask = cols >= 0

    # A lane that does not exist adds nothing.
    x = tl.load(row_ptr + cols, mask=mask, other=0.0)

    # Sums of fp16 would stick at 2048: widened before anything is added.
    return x.to(tl.float32), cols, mask


@triton.jit
def part_sums_kernel(
    x_ptr, sums_ptr, stride_row, stride_sums, n_cols, blocks_per_part, BLOCK_SIZE: tl.constexpr
):
    # One program owns one part of one row, and all it wants to know is the sum of it.
    row = tl.program_id(axis=0)
    part = tl.program_id(axis=1)
    first = part * blocks_per_part
    sums = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)

    # From the part's end to its start: the second kernel begins with the start, which then was read
    # a moment ago and may still be in the L2 cache.
    for step in range(blocks_per_part):
        block = first + blocks_per_part - 1 - step
        x, _, _ = load_block(x_ptr, row, block, stride_row, n_cols, BLOCK_SIZE)

        # TODO(accumulate): each lane adds what comes past it. Only behind the loop do they meet.
        sums += 0.0 * x

    tl.store(sums_ptr + row * stride_sums + part, tl.sum(sums, axis=0))


@triton.jit
def cumsum_kernel(
    x_ptr,
    sums_ptr,
    out_ptr,
    stride_row,
    stride_sums,
    n_cols,
    blocks_per_part,
    PARTS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    # Again one program owns one part of one row. Here it walks it from left to right. The first
    # programs take the last parts: those were read last.
    row = tl.program_id(axis=0)
    part = tl.num_programs(axis=1) - 1 - tl.program_id(axis=1)
    parts = tl.arange(0, PARTS)
    first = part * blocks_per_part

    # TODO(offsets): where does the row start in the contiguous result?
    out_row_ptr = out_ptr

    # TODO(accumulate): the block behind the last one of this part, which may have fewer blocks if it
    # is the end of the row. As it stands, each part has one.
    last = first + 1

    # TODO(accumulate): whose sums does this part build on? As it stands, on nobody's.
    before = parts < 0

    # The carry: the sum of all that stands to the left of the block at hand.
    carry = tl.sum(tl.load(sums_ptr + row * stride_sums + parts, mask=before, other=0.0), axis=0)

    for block in range(first, last):
        x, cols, mask = load_block(x_ptr, row, block, stride_row, n_cols, BLOCK_SIZE)

        # TODO(values): for each lane, the sum of the block's lanes up to and including itself.
        scan = x

        # TODO(accumulate): the same with all that the row has to the left of the block.
        out = scan

        tl.store(out_row_ptr + cols, out, mask=mask)

        # TODO(accumulate): what the next block finds to its left.
        carry += 0.0


def cumsum(x):
    """The running sums of x along its last dimension, in a new contiguous fp32 tensor."""
    if x.dim() != 2:
        raise ValueError(f"x must have two dimensions, got shape {x.shape}")
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"x must be fp16, bf16 or fp32, got {x.dtype}")
    n_rows, n_cols = x.shape
    if n_cols > 1 and x.stride(1) != 1:
        raise ValueError(f"x must have unit column stride, got strides {x.stride()}")

    out = torch.empty((n_rows, n_cols), device=x.device, dtype=torch.float32)
    if n_rows == 0 or n_cols == 0:
        return out

    # Short rows get a block that just holds them, long ones are walked. A warp for every 512
    # columns leaves 16 to each thread.
    BLOCK_SIZE = min(max(triton.next_power_of_2(n_cols), 128), LARGEST_BLOCK)
    num_warps = max(BLOCK_SIZE // 512, 1)
    n_blocks = triton.cdiv(n_cols, BLOCK_SIZE)

    # Many rows keep the card busy with a program each, and are read only once. A few long ones
    # would leave most of it idle: they are cut into parts.
    blocks_per_part = n_blocks if n_rows >= ENOUGH_ROWS else BLOCKS_PER_PART
    n_parts = triton.cdiv(n_blocks, blocks_per_part)
    sums = torch.empty((n_rows, n_parts), device=x.device, dtype=torch.float32)

    # TODO(grid): tuples with the number of programs: one for every part of every row, rows along the
    # first axis; and for the sums one less in each row, as nobody asks for that of the last part.
    grid = (1,)
    sums_grid = (1,)

    if n_parts > 1:
        part_sums_kernel[sums_grid](
            x,
            sums,
            x.stride(0),
            sums.stride(0),
            n_cols,
            blocks_per_part,
            BLOCK_SIZE=BLOCK_SIZE,
            num_warps=num_warps,
        )
    cumsum_kernel[grid](
        x,
        sums,
        out,
        x.stride(0),
        sums.stride(0),
        n_cols,
        blocks_per_part,
        PARTS=triton.next_power_of_2(n_parts),
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
    )
    return out
