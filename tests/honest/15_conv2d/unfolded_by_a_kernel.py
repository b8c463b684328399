"""A kernel of its own unfolds x into a matrix, another one multiplies, an image at a time along the grid."""

import torch
import triton
import triton.language as tl


@triton.jit
def unfold_kernel(
    x_ptr, cols_ptr, C, H, W, KH, KW, OH, OW, stride, padding, total, BLOCK: tl.constexpr
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ow = i % OW
    oh = i // OW % OH
    k = i // (OH * OW) % (C * KH * KW)
    n = i // (OH * OW * C * KH * KW)
    h = oh * stride - padding + k // KW % KH
    w = ow * stride - padding + k % KW
    c = k // (KH * KW)
    ok = (i < total) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
    value = tl.load(x_ptr + ((n * C + c) * H + h) * W + w, mask=ok, other=0.0)
    tl.store(cols_ptr + i, value, mask=i < total)


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    image = tl.program_id(2)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        kk = k + tl.arange(0, BK)
        a = tl.load(
            a_ptr + m[:, None] * K + kk[None, :],
            mask=(m[:, None] < M) & (kk[None, :] < K),
            other=0.0,
        )
        b = tl.load(
            b_ptr + image * K * N + kk[:, None] * N + n[None, :],
            mask=(kk[:, None] < K) & (n[None, :] < N),
            other=0.0,
        )
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(
        c_ptr + image * M * N + m[:, None] * N + n[None, :],
        acc.to(c_ptr.dtype.element_ty),
        mask=(m[:, None] < M) & (n[None, :] < N),
    )


def conv2d(x, weight, stride=1, padding=0):
    N, C, H, W = x.shape
    OC, _, KH, KW = weight.shape
    OH = max((H + 2 * padding - KH) // stride + 1, 0)
    OW = max((W + 2 * padding - KW) // stride + 1, 0)
    y = torch.empty((N, OC, OH, OW), device=x.device, dtype=x.dtype)
    if y.numel() == 0:
        return y
    K, P = C * KH * KW, OH * OW
    cols = torch.empty((N, K, P), device=x.device, dtype=x.dtype)
    if cols.numel():
        unfold_kernel[(triton.cdiv(cols.numel(), 4096),)](
            x, cols, C, H, W, KH, KW, OH, OW, stride, padding, cols.numel(), BLOCK=4096
        )
    grid = (triton.cdiv(OC, 64), triton.cdiv(P, 64), N)
    matmul_kernel[grid](weight, cols, y, OC, P, K, BM=64, BN=64, BK=32)
    return y
