"""Kata 4, bias_gelu: a bias added to every row of a matrix, then GELU, in one kernel.

    bias_gelu(x, bias) -> gelu(x + bias),  gelu(z) = z * (1 + erf(z / sqrt(2))) / 2

x is [R, C], fp16, bf16 or fp32; its columns lie side by side, its rows any distance apart. bias
is [C], of the same dtype, and is added to every row. The result is a new contiguous [R, C] tensor
of x's dtype. All arithmetic is in fp32 and rounded once. R or C may be 0.

Type `nox -s check-4` to see how far the kernel is; README.md of this kata is the lesson.
"""

import torch
import triton
import triton.language as tl

BLOCK_ROWS = 4
BLOCK_COLS = 256


@triton.jit
def bias_gelu_kernel(
    x_ptr,
    bias_ptr,
    out_ptr,
    n_rows,
    n_cols,
    stride_row,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):
    # The grid has two axes: this program owns tile (pid_row, pid_col) of the matrix.
    pid_row = tl.program_id(axis=0)
    pid_col = tl.program_id(axis=1)

    # TODO(offsets): the rows and the columns of this program's own tile, and where its elements
    # lie in x, whose rows begin stride_row elements apart. As it stands, all work on the first tile.
    rows = tl.arange(0, BLOCK_ROWS)
    cols = tl.arange(0, BLOCK_COLS)
    x_offsets = rows[:, None] * n_cols + cols[None, :]

    # The result is contiguous: its rows follow one another.
    out_offsets = rows[:, None] * n_cols + cols[None, :]

    # TODO(mask): which columns exist (for the bias), and which elements of the tile do.
    col_mask = cols >= 0
    mask = (rows[:, None] >= 0) & col_mask[None, :]

    x = tl.load(x_ptr + x_offsets, mask=mask).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=col_mask).to(tl.float32)

    # TODO(values): add the bias, a vector with one number a column, to every row of the tile.
    z = x

    # TODO(fusion): the sum goes out to memory and comes back, as it does between two operations of
    # PyTorch. Leave that out.
    tl.store(out_ptr + out_offsets, z.to(out_ptr.dtype.element_ty), mask=mask)
    z = tl.load(out_ptr + out_offsets, mask=mask).to(tl.float32)

    # TODO(values): GELU of z, in the exact form, with tl.erf.
    out = z

    tl.store(out_ptr + out_offsets, out.to(out_ptr.dtype.element_ty), mask=mask)


def bias_gelu(x, bias):
    """gelu(x + bias), in a new contiguous tensor of x's shape and dtype."""
    if x.dim() != 2:
        raise ValueError(f"x must have two dimensions, got shape {x.shape}")
    if bias.shape != x.shape[1:]:
        raise ValueError(f"bias must have one number a column, got {bias.shape} for {x.shape}")
    if x.dtype != bias.dtype:
        raise ValueError(f"x and bias must have the same dtype, got {x.dtype} and {bias.dtype}")
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"x must be fp16, bf16 or fp32, got {x.dtype}")
    n_rows, n_cols = x.shape
    if n_cols > 1 and (x.stride(1) != 1 or bias.stride(0) != 1):
        raise ValueError("the columns of x and the elements of bias must lie side by side")

    out = torch.empty((n_rows, n_cols), device=x.device, dtype=x.dtype)
    if n_rows == 0 or n_cols == 0:
        return out

    # TODO(grid): a tuple with the number of tiles along the rows and along the columns.
    grid = (1, 1)

    bias_gelu_kernel[grid](
        x,
        bias,
        out,
        n_rows,
        n_cols,
        x.stride(0),
        BLOCK_ROWS=BLOCK_ROWS,
        BLOCK_COLS=BLOCK_COLS,
    )
    return out
