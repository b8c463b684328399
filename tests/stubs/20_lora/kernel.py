"""Kata 20, lora: every row gets the low-rank update of its own adapter, in place.

    lora(y, x, a, b, index, scale=1.0) -> y

    y[t] += scale * b[index[t]] @ (a[index[t]] @ x[t])

y is [T, D_OUT], x is [T, D_IN], a is [L, R, D_IN] and b is [L, D_OUT, R], all fp16 or all bf16;
index is [T], int32; all are contiguous. A row whose index is -1 stays as it is, bit for bit. The R
numbers in between are summed in fp32, and may be rounded to x's dtype; the update is added to y in
fp32 and rounded once. R is 1 to 256, any other size may be 0. PyTorch may sort and count index.

Type `nox -s check-20` to see how far the kernel is; README.md of this kata is the lesson.
"""

import torch
import triton
import triton.language as tl

BLOCK_SIZE_T = 32


@triton.jit
def load_rows(order_ptr, index_ptr, T, BLOCK_SIZE_T: tl.constexpr):
    # The rows of one program: neighbours in an order in which rows of one adapter follow each other.
    pid = tl.program_id(axis=0)

    # TODO(offsets): its places in that order. As it stands, every program takes the first ones.
    places = tl.arange(0, BLOCK_SIZE_T)

    # The last block may hang over the end. A place beyond it holds no row: no adapter either.
    exists = places < T
    rows = tl.load(order_ptr + places, mask=exists, other=0)
    adapters = tl.load(index_ptr + rows, mask=exists, other=-1)

    # TODO(mask): the first adapter of the block to go through. As it stands, the -1 of a row without
    # one counts as well.
    first = tl.min(adapters, axis=0)

    last = tl.max(adapters, axis=0)
    return rows, adapters, first, last


@triton.jit
def lora_shrink_kernel(
    x_ptr,
    a_ptr,
    h_ptr,
    order_ptr,
    index_ptr,
    T,
    D_IN,
    R,
    BLOCK_SIZE_T: tl.constexpr,
    BLOCK_SIZE_IN: tl.constexpr,
    BLOCK_SIZE_R: tl.constexpr,
):
    # h[t] = a[index[t]] @ x[t]: a row of D_IN numbers shrinks to R.
    rows, adapters, first, last = load_rows(order_ptr, index_ptr, T, BLOCK_SIZE_T)
    offs_r = tl.arange(0, BLOCK_SIZE_R)

    # Most blocks have rows of one adapter only, and the loop has one step.
    for adapter in range(first, last + 1):
        mine = adapters == adapter
        if tl.max(mine.to(tl.int32), axis=0) > 0:
            # TODO(layout): where the matrix of this adapter starts in a.
            a_adapter_ptr = a_ptr

            h = tl.zeros((BLOCK_SIZE_T, BLOCK_SIZE_R), dtype=tl.float32)

            # TODO(accumulate): go through all of D_IN. As it stands, only its first block is seen.
            for start in range(0, BLOCK_SIZE_IN, BLOCK_SIZE_IN):
                offs_in = start + tl.arange(0, BLOCK_SIZE_IN)

                # TODO(mask): which elements of these tiles of x and a exist; of x, only rows that are
                # mine.
                x_mask = mine[:, None] & (offs_in[None, :] >= 0)
                a_mask = (offs_in[:, None] >= 0) & (offs_r[None, :] >= 0)

                # a lies there as [R, D_IN], and is read as its transpose: [D_IN, R].
                x_ptrs = x_ptr + rows[:, None] * D_IN + offs_in[None, :]
                a_ptrs = a_adapter_ptr + offs_r[None, :] * D_IN + offs_in[:, None]
                x = tl.load(x_ptrs, mask=x_mask, other=0.0)
                a = tl.load(a_ptrs, mask=a_mask, other=0.0)

                h = tl.dot(x, a, h)

            h_ptrs = h_ptr + rows[:, None] * R + offs_r[None, :]
            h_mask = mine[:, None] & (offs_r[None, :] < R)
            tl.store(h_ptrs, h.to(h_ptr.dtype.element_ty), mask=h_mask)


@triton.jit
def lora_expand_kernel(
    y_ptr,
    h_ptr,
    b_ptr,
    order_ptr,
    index_ptr,
    scale,
    T,
    D_OUT,
    R,
    BLOCK_SIZE_T: tl.constexpr,
    BLOCK_SIZE_OUT: tl.constexpr,
    BLOCK_SIZE_R: tl.constexpr,
):
    # y[t] += scale * b[index[t]] @ h[t]: the R numbers expand to D_OUT.
    rows, adapters, first, last = load_rows(order_ptr, index_ptr, T, BLOCK_SIZE_T)
    offs_r = tl.arange(0, BLOCK_SIZE_R)

    # TODO(offsets): this program's columns of y, by the second axis of the grid.
    offs_out = tl.arange(0, BLOCK_SIZE_OUT)

    for adapter in range(first, last + 1):
        mine = adapters == adapter
        if tl.max(mine.to(tl.int32), axis=0) > 0:
            # TODO(layout): where the matrix of this adapter starts in b.
            b_adapter_ptr = b_ptr

            # TODO(mask): which elements of h, b and y exist; of h and y, only rows that are mine.
            h_mask = mine[:, None] & (offs_r[None, :] >= 0)
            b_mask = (offs_r[:, None] >= 0) & (offs_out[None, :] >= 0)
            y_mask = mine[:, None] & (offs_out[None, :] >= 0)

            h_ptrs = h_ptr + rows[:, None] * R + offs_r[None, :]
            b_ptrs = b_adapter_ptr + offs_out[None, :] * R + offs_r[:, None]
            h = tl.load(h_ptrs, mask=h_mask, other=0.0)
            b = tl.load(b_ptrs, mask=b_mask, other=0.0)
            update = tl.dot(h, b)

            y_ptrs = y_ptr + rows[:, None] * D_OUT + offs_out[None, :]
            y = tl.load(y_ptrs, mask=y_mask, other=0.0).to(tl.float32)

            # TODO(values): what y becomes, in fp32. As it stands, it is overwritten.
            y = update

            tl.store(y_ptrs, y.to(y_ptr.dtype.element_ty), mask=y_mask)


def lora(y, x, a, b, index, scale=1.0):
    """Adds scale * b[index[t]] @ (a[index[t]] @ x[t]) to each row t of y, in place; returns y."""
    if y.dim() != 2 or x.dim() != 2 or a.dim() != 3 or b.dim() != 3:
        raise ValueError(f"shapes do not fit: {y.shape}, {x.shape}, {a.shape}, {b.shape}")
    T, D_IN = x.shape
    D_OUT, (L, R, _) = y.shape[1], a.shape
    if y.shape[0] != T or a.shape[2] != D_IN or b.shape != (L, D_OUT, R) or index.shape != (T,):
        raise ValueError(f"shapes do not fit: {y.shape}, {x.shape}, {a.shape}, {b.shape}")
    if x.dtype not in (torch.float16, torch.bfloat16) or index.dtype != torch.int32:
        raise ValueError(f"x must be fp16 or bf16 and index int32, got {x.dtype}, {index.dtype}")
    if y.dtype != x.dtype or a.dtype != x.dtype or b.dtype != x.dtype:
        raise ValueError(f"all dtypes must be {x.dtype}, got {y.dtype}, {a.dtype}, {b.dtype}")
    if not all(tensor.is_contiguous() for tensor in (y, x, a, b, index)):
        raise ValueError("y, x, a, b and index must be contiguous")
    if not 1 <= R <= 256:
        raise ValueError(f"the rank must be from 1 to 256, got {R}")

    if T == 0 or D_OUT == 0:
        return y

    # Rows of one adapter side by side: one read of its matrices then serves a whole block of rows.
    # Nothing moves in memory; the kernels follow the order.
    order = torch.argsort(index)
    h = torch.empty((T, R), device=x.device, dtype=x.dtype)

    # tl.dot wants 16 at least. The tiles of a and b hold at most 8192 numbers, whatever the rank.
    BLOCK_SIZE_R = max(triton.next_power_of_2(R), 16)
    BLOCK_SIZE = min(8192 // BLOCK_SIZE_R, 128)

    # TODO(grid): tuples with the numbers of programs: to shrink, one for every block of rows; to
    # expand, for every block of rows and of columns.
    shrink_grid = (1,)
    expand_grid = (1, 1)

    lora_shrink_kernel[shrink_grid](
        x,
        a,
        h,
        order,
        index,
        T,
        D_IN,
        R,
        BLOCK_SIZE_T=BLOCK_SIZE_T,
        BLOCK_SIZE_IN=BLOCK_SIZE,
        BLOCK_SIZE_R=BLOCK_SIZE_R,
        num_stages=4,
    )
    lora_expand_kernel[expand_grid](
        y,
        h,
        b,
        order,
        index,
        float(scale),
        T,
        D_OUT,
        R,
        BLOCK_SIZE_T=BLOCK_SIZE_T,
        BLOCK_SIZE_OUT=BLOCK_SIZE,
        BLOCK_SIZE_R=BLOCK_SIZE_R,
    )
    return y
