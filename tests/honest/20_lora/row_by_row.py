"""A program for every row, without tl.dot and without sorting; h keeps fp32."""

import torch
import triton
import triton.language as tl


@triton.jit
def shrink(x_ptr, a_ptr, index_ptr, h_ptr, I, R, BI: tl.constexpr, BR: tl.constexpr):
    row = tl.program_id(0)
    adapter = tl.load(index_ptr + row)
    if adapter >= 0:
        r = tl.arange(0, BR)
        total = tl.zeros((BR, BI), dtype=tl.float32)
        for start in range(0, I, BI):
            i = start + tl.arange(0, BI)
            x = tl.load(x_ptr + row * I + i, mask=i < I, other=0.0).to(tl.float32)
            a = tl.load(
                a_ptr + (adapter * R + r[:, None]) * I + i[None, :],
                mask=(r[:, None] < R) & (i[None, :] < I),
                other=0.0,
            ).to(tl.float32)
            total += a * x[None, :]
        tl.store(h_ptr + row * R + r, tl.sum(total, axis=1), mask=r < R)


@triton.jit
def expand(y_ptr, b_ptr, index_ptr, h_ptr, scale, O, R, BO: tl.constexpr, BR: tl.constexpr):
    row = tl.program_id(1)
    adapter = tl.load(index_ptr + row)
    if adapter == -1:
        return
    o = tl.program_id(0) * BO + tl.arange(0, BO)
    r = tl.arange(0, BR)
    h = tl.load(h_ptr + row * R + r, mask=r < R, other=0.0)
    b = tl.load(
        b_ptr + (adapter * O + o[:, None]) * R + r[None, :],
        mask=(o[:, None] < O) & (r[None, :] < R),
        other=0.0,
    ).to(tl.float32)
    update = tl.sum(b * h[None, :], axis=1)
    y = tl.load(y_ptr + row * O + o, mask=o < O, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * O + o, y + update * scale, mask=o < O)


def lora(y, x, a, b, index, scale=1.0):
    """y[t] += scale * b[index[t]] @ (a[index[t]] @ x[t]), in place."""
    (T, O), I, R = y.shape, x.shape[1], a.shape[1]
    if y.numel() == 0:
        return y
    h = torch.empty((T, R), device=x.device, dtype=torch.float32)
    BR = triton.next_power_of_2(R)
    BI = BO = max(4096 // BR, 16)
    shrink[(T,)](x, a, index, h, I, R, BI=BI, BR=BR)
    expand[(triton.cdiv(O, BO), T)](y, b, index, h, scale, O, R, BO=BO, BR=BR)
    return y
