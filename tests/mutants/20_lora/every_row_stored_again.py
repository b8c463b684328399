"""mask: rows of no adapter are stored too, as they were loaded, but by way of fp32

symptom: right for all numbers; a NaN in a row that nobody wanted touched has other bits
"""

import torch
import triton
import triton.language as tl

BLOCK_SIZE_T = 32


@triton.jit
def load_rows(order_ptr, index_ptr, T, BLOCK_SIZE_T: tl.constexpr):
    pid = tl.program_id(axis=0)

    places = pid * BLOCK_SIZE_T + tl.arange(0, BLOCK_SIZE_T)

    exists = places < T
    rows = tl.load(order_ptr + places, mask=exists, other=0)
    adapters = tl.load(index_ptr + rows, mask=exists, other=-1)

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
    rows, adapters, first, last = load_rows(order_ptr, index_ptr, T, BLOCK_SIZE_T)
    offs_r = tl.arange(0, BLOCK_SIZE_R)

    for adapter in range(first, last + 1):
        mine = adapters == adapter
        if tl.max(mine.to(tl.int32), axis=0) > 0:
            a_adapter_ptr = a_ptr + adapter * R * D_IN

            h = tl.zeros((BLOCK_SIZE_T, BLOCK_SIZE_R), dtype=tl.float32)

            for start in range(0, D_IN, BLOCK_SIZE_IN):
                offs_in = start + tl.arange(0, BLOCK_SIZE_IN)

                x_mask = mine[:, None] & (offs_in[None, :] < D_IN)
                a_mask = (offs_in[:, None] < D_IN) & (offs_r[None, :] < R)

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
    rows, adapters, first, last = load_rows(order_ptr, index_ptr, T, BLOCK_SIZE_T)
    offs_r = tl.arange(0, BLOCK_SIZE_R)

    offs_out = tl.program_id(axis=1) * BLOCK_SIZE_OUT + tl.arange(0, BLOCK_SIZE_OUT)

    for adapter in range(first, last + 1):
        mine = adapters == adapter
        if tl.max(mine.to(tl.int32), axis=0) > 0:
            b_adapter_ptr = b_ptr + adapter * D_OUT * R

            h_mask = mine[:, None] & (offs_r[None, :] < R)
            b_mask = (offs_r[:, None] < R) & (offs_out[None, :] < D_OUT)
            places = tl.program_id(axis=0) * BLOCK_SIZE_T + tl.arange(0, BLOCK_SIZE_T)
            y_mask = (places < T)[:, None] & (offs_out[None, :] < D_OUT)

            h_ptrs = h_ptr + rows[:, None] * R + offs_r[None, :]
            b_ptrs = b_adapter_ptr + offs_out[None, :] * R + offs_r[:, None]
            h = tl.load(h_ptrs, mask=h_mask, other=0.0)
            b = tl.load(b_ptrs, mask=b_mask, other=0.0)
            update = tl.dot(h, b)

            y_ptrs = y_ptr + rows[:, None] * D_OUT + offs_out[None, :]
            y = tl.load(y_ptrs, mask=y_mask, other=0.0).to(tl.float32)

            y = tl.where(mine[:, None], y + scale * update, y)

            tl.store(y_ptrs, y.to(y_ptr.dtype.element_ty), mask=y_mask)


def lora(y, x, a, b, index, scale=1.0):
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

    order = torch.argsort(index)
    h = torch.empty((T, R), device=x.device, dtype=x.dtype)

    BLOCK_SIZE_R = max(triton.next_power_of_2(R), 16)
    BLOCK_SIZE = min(8192 // BLOCK_SIZE_R, 128)

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
