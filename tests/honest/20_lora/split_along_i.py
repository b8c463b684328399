"""Rows are shrunk by several programs each, which meet by atomics in fp32; skipped rows are stored as they were."""

import torch
import triton
import triton.language as tl


@triton.jit
def shrink(x_ptr, a_ptr, index_ptr, h_ptr, I, R, SHARE, BI: tl.constexpr, BR: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    adapter = tl.load(index_ptr + row).to(tl.int64)
    if adapter < 0:
        return
    r = tl.arange(0, BR)[:, None]
    total = tl.zeros((BR, 1), dtype=tl.float32)
    end = tl.minimum(part * SHARE + SHARE, I)
    for start in range(part * SHARE, end, BI):
        i = start + tl.arange(0, BI)[None, :]
        x = tl.load(x_ptr + row * I + i, mask=i < end, other=0.0)
        a = tl.load(a_ptr + (adapter * R + r) * I + i, mask=(r < R) & (i < end), other=0.0)
        total += tl.sum(a.to(tl.float32) * x.to(tl.float32), axis=1, keep_dims=True)
    tl.atomic_add(h_ptr + row * R + r, total, mask=r < R)


@triton.jit
def expand(y_ptr, b_ptr, index_ptr, h_ptr, scale, T, O, R, BO: tl.constexpr):
    # a lane is one element of y, numbered along all of it
    at = tl.program_id(0) * BO + tl.arange(0, BO)
    inside = at < T * O
    row, o = at // O, at % O
    adapter = tl.load(index_ptr + row, mask=inside, other=-1)
    live = inside & (adapter >= 0)
    update = tl.zeros((BO,), dtype=tl.float32)
    for r in range(R):
        h = tl.load(h_ptr + row * R + r, mask=live, other=0.0)
        b = tl.load(b_ptr + (adapter * O + o) * R + r, mask=live, other=0.0)
        update += h * b.to(tl.float32)
    y = tl.load(y_ptr + at, mask=inside, other=0.0)
    new = (y + scale * update).to(y.dtype)
    tl.store(y_ptr + at, tl.where(live, new, y), mask=inside)


def lora(y, x, a, b, index, scale=1.0):
    """y[t] += scale * b[index[t]] @ (a[index[t]] @ x[t]), in place."""
    (T, O), I, R = y.shape, x.shape[1], a.shape[1]
    if T == 0 or O == 0 or I == 0:
        return y
    h = torch.zeros((T, R), device=x.device, dtype=torch.float32)
    parts = 1 if I < 1024 else 4
    BI = max(2048 // triton.next_power_of_2(R), 16)
    shrink[(T, parts)](
        x, a, index, h, I, R, triton.cdiv(I, parts), BI=BI, BR=triton.next_power_of_2(R)
    )
    expand[(triton.cdiv(T * O, 2048),)](y, b, index, h, scale, T, O, R, BO=2048)
    return y
