"""As vLLM does it: counts and starts by PyTorch, and an axis of the grid for the adapters."""

import torch
import triton
import triton.language as tl


@triton.jit
def product(
    in_ptr,
    w_ptr,
    rows,
    valid,
    in_rows,
    cols,
    K,
    N,
    BK: tl.constexpr,
    BT: tl.constexpr,
    BN: tl.constexpr,
):
    acc = tl.zeros((BT, BN), dtype=tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        left = tl.load(
            in_ptr + in_rows[:, None] * K + k[None, :],
            mask=valid[:, None] & (k[None, :] < K),
            other=0.0,
        )
        right = tl.load(
            w_ptr + cols[None, :] * K + k[:, None],
            mask=(k[:, None] < K) & (cols[None, :] < N),
            other=0.0,
        )
        acc += tl.dot(left, right)
    return acc


@triton.jit
def shrink_kernel(
    x_ptr,
    a_ptr,
    h_ptr,
    order_ptr,
    ids_ptr,
    counts_ptr,
    ends_ptr,
    I,
    R,
    BT: tl.constexpr,
    BI: tl.constexpr,
    BR: tl.constexpr,
):
    group = tl.program_id(1)
    adapter = tl.load(ids_ptr + group)
    if adapter < 0:
        return
    count = tl.load(counts_ptr + group)
    begin = tl.program_id(0) * BT
    if begin >= count:
        return
    start = tl.load(ends_ptr + group) - count
    t = begin + tl.arange(0, BT)
    rows = tl.load(order_ptr + start + t, mask=t < count, other=0)
    r = tl.arange(0, BR)
    acc = product(x_ptr, a_ptr + adapter * R * I, rows, t < count, rows, r, I, R, BI, BT, BR)
    # h lies in the order of the adapters, not in that of the rows
    tl.store(
        h_ptr + (start + t)[:, None] * R + r[None, :],
        acc,
        mask=(t < count)[:, None] & (r[None, :] < R),
    )


@triton.jit
def expand_kernel(
    y_ptr,
    h_ptr,
    b_ptr,
    order_ptr,
    ids_ptr,
    counts_ptr,
    ends_ptr,
    scale,
    O,
    R,
    BT: tl.constexpr,
    BO: tl.constexpr,
    BR: tl.constexpr,
):
    group = tl.program_id(2)
    adapter = tl.load(ids_ptr + group)
    if adapter < 0:
        return
    count = tl.load(counts_ptr + group)
    begin = tl.program_id(1) * BT
    if begin >= count:
        return
    start = tl.load(ends_ptr + group) - count
    t = begin + tl.arange(0, BT)
    rows = tl.load(order_ptr + start + t, mask=t < count, other=0)
    o = tl.program_id(0) * BO + tl.arange(0, BO)
    acc = product(h_ptr, b_ptr + adapter * O * R, rows, t < count, start + t, o, R, O, BR, BT, BO)
    at = y_ptr + rows[:, None] * O + o[None, :]
    mask = (t < count)[:, None] & (o[None, :] < O)
    y = tl.load(at, mask=mask, other=0.0)
    tl.store(at, y.to(tl.float32) + scale * acc, mask=mask)


def lora(y, x, a, b, index, scale=1.0):
    """y[t] += scale * b[index[t]] @ (a[index[t]] @ x[t]), in place."""
    (T, O), I, R = y.shape, x.shape[1], a.shape[1]
    if y.numel() == 0 or bool((index < 0).all()):
        return y
    order = torch.argsort(index, stable=True)
    ids, counts = torch.unique(index, return_counts=True)
    ends = torch.cumsum(counts, 0)
    h = torch.empty((T, R), device=x.device, dtype=x.dtype)
    BT, BO = 16, 64
    BR = max(triton.next_power_of_2(R), 16)
    blocks = triton.cdiv(T, BT)
    shrink_kernel[(blocks, len(ids))](x, a, h, order, ids, counts, ends, I, R, BT=BT, BI=64, BR=BR)
    expand_kernel[(triton.cdiv(O, BO), blocks, len(ids))](
        y, h, b, order, ids, counts, ends, float(scale), O, R, BT=BT, BO=BO, BR=min(BR, 64)
    )
    return y
