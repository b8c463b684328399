"""Nibbles i and i + 4 make a pair of fp16 numbers at once; the weights are the left operand."""

import torch
import triton
import triton.language as tl


@triton.jit
def pairs(packed, I: tl.constexpr):
    bits = ((packed >> (4 * I)) & 0x000F000F) | 0x64006400  # 1024 + q, twice
    low = bits.to(tl.int16).to(tl.float16, bitcast=True)
    high = (bits >> 16).to(tl.int16).to(tl.float16, bitcast=True)
    return tl.join(low, high) - 1032.0


@triton.jit
def quantized_matmul_kernel(
    a_ptr,
    packed_ptr,
    scales_ptr,
    c_ptr,
    M,
    N,
    K,
    group_size,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    offs_n = tl.program_id(axis=0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_m = tl.program_id(axis=1) * BLOCK_M + tl.arange(0, BLOCK_M)
    acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for start in range(0, K // 8, BLOCK_R):
        rows = start + tl.arange(0, BLOCK_R)[None, :]
        offs_k = 8 * start + tl.arange(0, 8 * BLOCK_R)[None, :]
        mask = (offs_n[:, None] < N) & (rows < K // 8)
        packed = tl.load(packed_ptr + rows * N + offs_n[:, None], mask=mask, other=0)
        group = 8 * rows // group_size
        scale = tl.load(scales_ptr + group * N + offs_n[:, None], mask=mask, other=0.0)
        a_mask = (offs_m[:, None] < M) & (offs_k < K)
        a = tl.load(a_ptr + offs_m[:, None] * K + offs_k, mask=a_mask, other=0.0)
        even, odd = tl.split(tl.reshape(a, (BLOCK_M, 4 * BLOCK_R, 2)))
        a04, a26 = tl.split(tl.reshape(even, (BLOCK_M, 2 * BLOCK_R, 2)))
        a15, a37 = tl.split(tl.reshape(odd, (BLOCK_M, 2 * BLOCK_R, 2)))
        parts = (a04, a15, a26, a37)
        for i in tl.static_range(4):
            weight = tl.reshape(pairs(packed, i) * scale[:, :, None], (BLOCK_N, 2 * BLOCK_R))
            acc = tl.dot(weight, tl.trans(parts[i]), acc)
    c_ptrs = c_ptr + offs_m[None, :] * N + offs_n[:, None]
    tl.store(c_ptrs, acc.to(tl.float16), mask=(offs_m[None, :] < M) & (offs_n[:, None] < N))


def quantized_matmul(a, packed, scales, group_size):
    """a @ ((q - 8) * scale), with 4-bit weights."""
    M, K = a.shape
    N = packed.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(N, 64), triton.cdiv(M, 16))
    quantized_matmul_kernel[grid](
        a, packed, scales, c, M, N, K, group_size, BLOCK_M=16, BLOCK_N=64, BLOCK_R=8
    )
    return c
