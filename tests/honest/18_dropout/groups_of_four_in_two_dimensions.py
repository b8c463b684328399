"""Blocks of four columns, joined from the four numbers of a call; worked on in fp64."""

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n_elements, p, seed, ROWS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    offsets = rows[:, None] * 4 + tl.arange(0, 4)[None, :]
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float64)
    r0, r1, r2, r3 = tl.rand4x(seed, rows)
    random = tl.reshape(tl.join(tl.join(r0, r2), tl.join(r1, r3)), (ROWS, 4))
    factor = 1.0 / (1.0 - p.to(tl.float64))
    tl.store(out_ptr + offsets, tl.where(random >= p, x * factor, 0.0).to(tl.float32), mask=mask)


def dropout(x, p, seed):
    out = torch.empty_like(x)
    if x.numel():
        dropout_kernel[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), p, seed, ROWS=512)
    return out


def dropout_backward(grad, p, seed):
    return dropout(grad, p, seed)
