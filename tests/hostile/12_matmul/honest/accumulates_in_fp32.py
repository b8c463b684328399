"""The sum of the products is kept in fp32."""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, s_am, s_ak, s_bk, s_bn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(axis=0) * BM + tl.arange(0, BM)
    cols = tl.program_id(axis=1) * BN + tl.arange(0, BN)
    accumulator = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a_mask = (rows[:, None] < M) & (k[None, :] < K)
        b_mask = (k[:, None] < K) & (cols[None, :] < N)
        a = tl.load(a_ptr + rows[:, None] * s_am + k[None, :] * s_ak, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + k[:, None] * s_bk + cols[None, :] * s_bn, mask=b_mask, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
    places = c_ptr + rows[:, None] * N + cols[None, :]
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(places, accumulator.to(c_ptr.dtype.element_ty), mask=mask)


def matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    if M and N:
        grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
        strides = (*a.stride(), *b.stride())
        matmul_kernel[grid](a, b, c, M, N, K, *strides, BM=64, BN=64, BK=64)
    return c
