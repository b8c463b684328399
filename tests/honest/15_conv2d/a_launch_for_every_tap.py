"""A launch for every tap, which adds to a float32 sum; the last kernel rounds. fp32 is summed without tl.dot."""

import torch
import triton
import triton.language as tl


@triton.jit
def tap_kernel(
    x_ptr, w_ptr, sum_ptr, C, HW, W, H, OC, taps, OW, P, M, stride, top, left,
    BO: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    n = p // P
    h = p % P // OW * stride + top
    w = p % OW * stride + left
    ok = (p < M) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
    sums = sum_ptr + (n * OC)[None, :] * P + o[:, None] * P + (p % P)[None, :]
    mask = (o < OC)[:, None] & (p < M)[None, :]
    acc = tl.load(sums, mask=mask, other=0.0)
    if DOT:
        for c0 in range(0, C, BC):
            c = c0 + tl.arange(0, BC)
            a = tl.load(
                w_ptr + (o[:, None] * C + c[None, :]) * taps,
                mask=(o < OC)[:, None] & (c < C)[None, :],
                other=0.0,
            )
            b = tl.load(
                x_ptr + (n * C * HW + h * W + w)[None, :] + c[:, None] * HW,
                mask=ok[None, :] & (c < C)[:, None],
                other=0.0,
            )
            acc = tl.dot(a, b, acc)
    else:
        for c in range(C):
            a = tl.load(w_ptr + (o * C + c) * taps, mask=o < OC, other=0.0)
            b = tl.load(x_ptr + (n * C + c) * HW + h * W + w, mask=ok, other=0.0)
            acc += a[:, None] * b[None, :]
    tl.store(sums, acc, mask=mask)


@triton.jit
def round_kernel(sum_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(sum_ptr + i, mask=i < n).to(y_ptr.dtype.element_ty), mask=i < n)


def conv2d(x, weight, stride=1, padding=0):
    N, C, H, W = x.shape
    OC, _, KH, KW = weight.shape
    OH = max((H + 2 * padding - KH) // stride + 1, 0)
    OW = max((W + 2 * padding - KW) // stride + 1, 0)
    y = torch.empty((N, OC, OH, OW), device=x.device, dtype=x.dtype)
    if y.numel() == 0:
        return y
    total = torch.zeros((N, OC, OH, OW), device=x.device, dtype=torch.float32)
    P, DOT = OH * OW, x.dtype == torch.float16
    grid = (triton.cdiv(N * P, 64), triton.cdiv(OC, 64))
    for tap in range(KH * KW if C else 0):
        tap_kernel[grid](
            x, weight.view(-1)[tap:], total, C, H * W, W, H, OC, KH * KW, OW, P, N * P, stride,
            tap // KW - padding, tap % KW - padding, BO=64, BP=64, BC=64, DOT=DOT,
        )  # fmt: skip
    round_kernel[(triton.cdiv(y.numel(), 1024),)](total, y, y.numel(), BLOCK=1024)
    return y
