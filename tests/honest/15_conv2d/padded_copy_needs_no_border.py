"""A kernel of its own writes x into a larger tensor of zeros, channels last; the product then masks no border."""

import torch
import triton
import triton.language as tl


@triton.jit
def embed_kernel(x_ptr, p_ptr, C, H, W, PH, PW, padding, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    w = i % W
    h = i // W % H
    c = i // (W * H) % C
    image = i // (W * H * C)
    place = ((image * PH + h + padding) * PW + w + padding) * C + c
    tl.store(p_ptr + place, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def product_kernel(
    p_ptr, w_ptr, y_ptr, C, PH, PW, OC, KH, KW, OH, OW, M, stride,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_n = (OC + BLOCK_N - 1) // BLOCK_N
    for tile in range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * tiles_n, tl.num_programs(0)):
        rm = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
        rn = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
        image = rm // (OH * OW)
        inner = rm % (OH * OW)
        safe = tl.where(rm < M, (image * PH + inner // OW * stride) * PW + inner % OW * stride, 0)
        filters = tl.minimum(rn, OC - 1)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, KH * KW * C, BLOCK_K):
            rk = k + tl.arange(0, BLOCK_K)
            real = rk < KH * KW * C
            tap = rk // C
            a = tl.load(
                p_ptr + safe[:, None] * C + ((tap // KW * PW + tap % KW) * C + rk % C)[None, :],
                mask=real[None, :],
                other=0.0,
            )
            b = tl.load(
                w_ptr + filters[None, :] * (C * KH * KW) + (rk % C * (KH * KW) + tap)[:, None],
                mask=real[:, None],
                other=0.0,
            )
            acc = tl.dot(a, b, acc, input_precision="ieee")
        where = (image[:, None] * OC + rn[None, :]) * (OH * OW) + inner[:, None]
        tl.store(
            y_ptr + where,
            acc.to(y_ptr.dtype.element_ty),
            mask=(rm < M)[:, None] & (rn < OC)[None, :],
        )


def conv2d(x, weight, stride=1, padding=0):
    N, C, H, W = x.shape
    OC, _, KH, KW = weight.shape
    PH, PW = H + 2 * padding, W + 2 * padding
    OH, OW = max((PH - KH) // stride + 1, 0), max((PW - KW) // stride + 1, 0)
    y = torch.empty((N, OC, OH, OW), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    padded = torch.zeros((N, PH, PW, C), dtype=x.dtype, device=x.device)
    if x.numel():
        embed_kernel[(triton.cdiv(x.numel(), 1024),)](
            x, padded, C, H, W, PH, PW, padding, x.numel(), BLOCK=1024
        )
    M = N * OH * OW
    programs = min(triton.cdiv(M, 64) * triton.cdiv(OC, 64), 8)
    product_kernel[(programs,)](
        padded,
        weight,
        y,
        C,
        PH,
        PW,
        OC,
        KH,
        KW,
        OH,
        OW,
        M,
        stride,
        BLOCK_M=64,
        BLOCK_N=64,
        BLOCK_K=32,
    )
    return y
