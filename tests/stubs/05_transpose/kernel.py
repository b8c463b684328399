"""Kata 5, transpose: rows become columns, and memory is crossed in whole stretches both ways.

    transpose(x) -> a new contiguous tensor with element [j, i] = x[i, j]

x is [R, C], fp32, fp16, bf16, int8, int32 or int64, with any strides, and is read where it lies. The
result is a new contiguous [C, R] tensor of x's dtype, equal to x bit by bit. R or C may be 0.

Type `nox -s check-5` to see how far the kernel is; README.md of this kata is the lesson.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int32, torch.int64)

# 64 neighbours in a row are 64 to 512 bytes, and as many are written side by side.
BLOCK_ROWS = 64
BLOCK_COLS = 64


@triton.jit
def transpose_kernel(
    x_ptr,
    out_ptr,
    n_rows,
    n_cols,
    stride_row,
    stride_col,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):
    # The grid has two axes: this program owns tile (pid_row, pid_col) of x.
    pid_row = tl.program_id(axis=0)
    pid_col = tl.program_id(axis=1)

    # TODO(offsets): the rows and the columns of x that this program's tile covers.
    rows = tl.arange(0, BLOCK_ROWS)
    cols = tl.arange(0, BLOCK_COLS)

    # TODO(layout): where the tile's elements lie in x, through its two strides. As it stands, x must
    # be contiguous.
    x_offsets = rows[:, None] * n_cols + cols[None, :]

    # A column of x is a row of the result, which has n_rows elements.
    out_offsets = cols[:, None] * n_rows + rows[None, :]

    # TODO(mask): which elements of the tile of x exist, and which of the tile of the result.
    x_mask = (rows[:, None] >= 0) & (cols[None, :] >= 0)
    out_mask = (cols[:, None] >= 0) & (rows[None, :] >= 0)

    tile = tl.load(x_ptr + x_offsets, mask=x_mask)

    # TODO(values): the tile with its rows and columns exchanged. As it stands, tiles go to the right
    # place, but each of them as it was.
    out = tile

    tl.store(out_ptr + out_offsets, out, mask=out_mask)


def transpose(x):
    """x with rows and columns exchanged, in a new contiguous tensor."""
    if x.dim() != 2:
        raise ValueError(f"x must have two dimensions, got shape {x.shape}")
    if x.dtype not in DTYPES:
        raise ValueError(f"x must be fp32, fp16, bf16, int8, int32 or int64, got {x.dtype}")

    n_rows, n_cols = x.shape
    out = torch.empty((n_cols, n_rows), device=x.device, dtype=x.dtype)
    if n_rows == 0 or n_cols == 0:
        return out

    # TODO(grid): a tuple with the number of tiles along the rows and along the columns of x.
    grid = (1, 1)

    transpose_kernel[grid](
        x,
        out,
        n_rows,
        n_cols,
        x.stride(0),
        x.stride(1),
        BLOCK_ROWS=BLOCK_ROWS,
        BLOCK_COLS=BLOCK_COLS,
        num_warps=8,
    )
    return out
