"""fusion: one kernel unpacks all weights, another multiplies

symptom: always right, and slower than weights that were never packed
"""

import torch
import triton
import triton.language as tl


@triton.jit
def unpack_kernel(packed_ptr, scales_ptr, b_ptr, N, K, group_size, BLOCK_N: tl.constexpr):
    row = tl.program_id(axis=0)
    offs_n = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = offs_n < N
    packed = tl.load(packed_ptr + row * N + offs_n, mask=mask, other=0)
    scale = tl.load(scales_ptr + 8 * row // group_size * N + offs_n, mask=mask, other=0.0)
    for i in tl.static_range(8):
        q = (packed >> (4 * i)) & 0xF
        weight = (q - 8).to(tl.float16) * scale
        tl.store(b_ptr + (8 * row + i) * N + offs_n, weight, mask=mask)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    offs_m = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    offs_n = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        k_row = start + tl.arange(0, BLOCK)[None, :]
        k_col = start + tl.arange(0, BLOCK)[:, None]
        a = tl.load(a_ptr + offs_m * K + k_row, mask=(offs_m < M) & (k_row < K), other=0.0)
        b = tl.load(b_ptr + k_col * N + offs_n, mask=(k_col < K) & (offs_n < N), other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + offs_m * N + offs_n, acc.to(tl.float16), mask=(offs_m < M) & (offs_n < N))


def quantized_matmul(a, packed, scales, group_size):
    """a @ ((q - 8) * scale), with 4-bit weights."""
    M, K = a.shape
    N = packed.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    b = torch.empty((K, N), dtype=a.dtype, device=a.device)
    if K:
        unpack_kernel[(K // 8, triton.cdiv(N, 256))](
            packed, scales, b, N, K, group_size, BLOCK_N=256
        )
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
    matmul_kernel[grid](a, b, c, M, N, K, BLOCK=64)
    return c
