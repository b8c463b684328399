"""One kernel of 48 programs, each with a while loop over tiles of one adapter; tiles lie transposed, columns first."""

import torch
import triton
import triton.language as tl


@triton.jit
def update_tile(
    y_ptr, x_ptr, a_ptr, b_ptr, rows, mine, adapter, col, scale, D_IN, D_OUT,
    R: tl.constexpr, BT: tl.constexpr, BI: tl.constexpr, BO: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    r = tl.arange(0, BR)
    h = tl.zeros((BR, BT), dtype=tl.float32)
    start = 0
    while start < D_IN:
        i = start + tl.arange(0, BI)
        x = tl.load(
            x_ptr + rows[None, :].to(tl.int64) * D_IN + i[:, None],
            mask=mine[None, :] & (i[:, None] < D_IN),
            other=0,
        )
        a = tl.load(
            a_ptr + adapter.to(tl.int64) * R * D_IN + r[:, None] * D_IN + i[None, :],
            mask=(r[:, None] < R) & (i[None, :] < D_IN),
            other=0,
        )
        h += tl.dot(a, x)
        start += BI
    o = col * BO + tl.arange(0, BO)
    b = tl.load(
        b_ptr + adapter.to(tl.int64) * R * D_OUT + o[:, None] * R + r[None, :],
        mask=(o[:, None] < D_OUT) & (r[None, :] < R),
        other=0,
    )
    update = tl.dot(b, h.to(b.dtype))
    mask = mine[None, :] & (o[:, None] < D_OUT)
    y_ptrs = y_ptr + rows[None, :].to(tl.int64) * D_OUT + o[:, None]
    y = tl.load(y_ptrs, mask=mask).to(tl.float32)
    tl.store(y_ptrs, (y + scale * update).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def tiles_kernel(
    y_ptr, x_ptr, a_ptr, b_ptr, order_ptr, first_ptr, begin_ptr, who_ptr, scale, n_blocks, D_IN,
    D_OUT, R: tl.constexpr, BT: tl.constexpr, BI: tl.constexpr, BO: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    cols = tl.cdiv(D_OUT, BO)
    tile = tl.program_id(0)
    while tile < n_blocks * cols:
        block = tile // cols
        adapter = tl.load(who_ptr + block)
        if adapter >= 0:
            end = tl.load(first_ptr + adapter + 1)
            local = block - tl.load(begin_ptr + adapter)
            place = tl.load(first_ptr + adapter) + local * BT + tl.arange(0, BT)
            mine = place < end
            rows = tl.load(order_ptr + place, mask=mine, other=0)
            update_tile(
                y_ptr, x_ptr, a_ptr, b_ptr, rows, mine, adapter, tile % cols, scale, D_IN, D_OUT,
                R, BT, BI, BO, BR,
            )  # fmt: skip
        tile += tl.num_programs(0)


def lora(y, x, a, b, index, scale=1.0):
    (T, D_IN), (L, R, _), D_OUT = x.shape, a.shape, b.shape[1]
    if min(T, D_OUT, L) == 0:
        return y
    BT, BR = 16, max(16, triton.next_power_of_2(R))
    order = torch.argsort(index)
    counts = torch.zeros(L + 1, dtype=torch.int64, device=x.device)
    counts.scatter_add_(0, index.long() + 1, torch.ones_like(index, dtype=torch.int64))
    first = torch.cumsum(counts, 0)  # of adapter l: how many rows have a smaller number
    blocks = (counts[1:] + BT - 1) // BT
    begin = torch.cumsum(blocks, 0) - blocks
    n_blocks = triton.cdiv(T, BT) + L
    numbers = torch.arange(n_blocks, device=x.device)
    who = torch.searchsorted(begin, numbers, right=True) - 1
    who = torch.where(numbers < begin[-1] + blocks[-1], who, -torch.ones_like(who))
    tiles_kernel[(48,)](
        y, x, a, b, order, first, begin, who, float(scale), n_blocks, D_IN, D_OUT,
        R=R, BT=BT, BI=32, BO=32, BR=BR,
    )  # fmt: skip
    return y
