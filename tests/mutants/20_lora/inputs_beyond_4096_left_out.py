"""accumulate: at most 4096 of D_IN are summed

symptom: right for models of up to 4096
"""

import torch
import triton
import triton.language as tl

BLOCK_SIZE_T = 32


@triton.jit
def load_rows(order_ptr, index_ptr, T, BLOCK_SIZE_T: tl.constexpr):
    # The rows of one program: neighbours in an order in which rows of one adapter follow each other.
    pid = tl.program_id(axis=0)

    # Its places in that order.
    places = pid * BLOCK_SIZE_T + tl.arange(0, BLOCK_SIZE_T)

    # The last block may hang over the end. A place beyond it holds no row: no adapter either.
    exists = places < T
    rows = tl.load(order_ptr + places, mask=exists, other=0)
    adapters = tl.load(index_ptr + rows, mask=exists, other=-1)

    # The adapters to go through, from the first to the last of the block. A row without one has -1,
    # the smallest number there is, and must not be the one to say where to start.
    first = tl.min(tl.where(adapters >= 0, adapters, 2147483647), axis=0)

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
            # The matrices of the adapters lie one behind the other.
            a_adapter_ptr = a_ptr + adapter * R * D_IN

            h = tl.zeros((BLOCK_SIZE_T, BLOCK_SIZE_R), dtype=tl.float32)

            # All of D_IN, one block at a time: the sum is long, and stays in fp32.
            for start in range(0, tl.minimum(D_IN, 4096), BLOCK_SIZE_IN):
                offs_in = start + tl.arange(0, BLOCK_SIZE_IN)

                # Rows of other adapters are not even read. Whatever does not exist is 0.
                x_mask = mine[:, None] & (offs_in[None, :] < D_IN)
                a_mask = (offs_in[:, None] < D_IN) & (offs_r[None, :] < R)

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

    # The second axis of the grid: this program's columns of y.
    offs_out = tl.program_id(axis=1) * BLOCK_SIZE_OUT + tl.arange(0, BLOCK_SIZE_OUT)

    for adapter in range(first, last + 1):
        mine = adapters == adapter
        if tl.max(mine.to(tl.int32), axis=0) > 0:
            # As above, but for b: a matrix has D_OUT rows of R numbers.
            b_adapter_ptr = b_ptr + adapter * D_OUT * R

            # Which elements of h, b and y exist, and belong to this adapter.
            h_mask = mine[:, None] & (offs_r[None, :] < R)
            b_mask = (offs_r[:, None] < R) & (offs_out[None, :] < D_OUT)
            y_mask = mine[:, None] & (offs_out[None, :] < D_OUT)

            h_ptrs = h_ptr + rows[:, None] * R + offs_r[None, :]
            b_ptrs = b_adapter_ptr + offs_out[None, :] * R + offs_r[:, None]
            h = tl.load(h_ptrs, mask=h_mask, other=0.0)
            b = tl.load(b_ptrs, mask=b_mask, other=0.0)
            update = tl.dot(h, b)

            y_ptrs = y_ptr + rows[:, None] * D_OUT + offs_out[None, :]
            y = tl.load(y_ptrs, mask=y_mask, other=0.0).to(tl.float32)

            # In fp32; the store rounds, once.
            y = y + scale * update

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

    # A program for every block of rows; to expand, for every block of columns besides.
    shrink_grid = (triton.cdiv(T, BLOCK_SIZE_T),)
    expand_grid = (triton.cdiv(T, BLOCK_SIZE_T), triton.cdiv(D_OUT, BLOCK_SIZE))

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
