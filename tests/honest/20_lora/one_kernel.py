"""One kernel: h stays in registers, and the columns of y are walked in the same program."""

import torch
import triton
import triton.language as tl


@triton.jit
def lora_kernel(
    y_ptr,
    x_ptr,
    a_ptr,
    b_ptr,
    order_ptr,
    sorted_ptr,
    scale,
    T,
    I,
    O,
    R,
    BT: tl.constexpr,
    BI: tl.constexpr,
    BO: tl.constexpr,
    BR: tl.constexpr,
):
    place = tl.program_id(0) * BT + tl.arange(0, BT)
    row = tl.load(order_ptr + place, mask=place < T, other=0)
    adapters = tl.load(sorted_ptr + place, mask=place < T, other=-1)
    r = tl.arange(0, BR)
    last = tl.max(adapters, axis=0)
    adapter = tl.min(tl.where(adapters >= 0, adapters, last), axis=0)
    while (adapter <= last) & (last >= 0):
        mine = adapters == adapter
        h = tl.zeros((BT, BR), dtype=tl.float32)
        for start in range(0, tl.cdiv(I, BI)):
            i = start * BI + tl.arange(0, BI)
            x = tl.load(
                x_ptr + row[:, None] * I + i[None, :],
                mask=mine[:, None] & (i[None, :] < I),
                other=0.0,
            )
            a = tl.load(
                a_ptr + adapter * R * I + r[:, None] * I + i[None, :],
                mask=(r[:, None] < R) & (i[None, :] < I),
                other=0.0,
            )
            h += tl.dot(x, tl.trans(a))
        h *= scale
        small = h.to(x_ptr.dtype.element_ty)
        for first in range(0, O, BO):
            o = first + tl.arange(0, BO)
            b = tl.load(
                b_ptr + adapter * R * O + o[None, :] * R + r[:, None],
                mask=(r[:, None] < R) & (o[None, :] < O),
                other=0.0,
            )
            at = y_ptr + row[:, None] * O + o[None, :]
            mask = mine[:, None] & (o[None, :] < O)
            y = tl.load(at, mask=mask, other=0.0).to(tl.float32)
            tl.store(at, tl.dot(small, b, y), mask=mask)
        adapter = tl.min(tl.where(adapters > adapter, adapters, 2147483647), axis=0)


def lora(y, x, a, b, index, scale=1.0):
    """y[t] += scale * b[index[t]] @ (a[index[t]] @ x[t]), in place."""
    (T, O), I, R = y.shape, x.shape[1], a.shape[1]
    if y.numel() == 0:
        return y
    adapters, order = torch.sort(index, stable=True)
    BR = max(triton.next_power_of_2(R), 16)
    lora_kernel[(triton.cdiv(T, 16),)](
        y, x, a, b, order, adapters, scale, T, I, O, R, BT=16, BI=64, BO=64, BR=BR
    )
    return y
