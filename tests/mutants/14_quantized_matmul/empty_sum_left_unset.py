"""robust: without any K nothing is launched, and nothing is set

symptom: K = 0 gives whatever was in memory
"""

import torch
import triton
import triton.language as tl


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
    pid_m = tl.program_id(axis=0)
    pid_n = tl.program_id(axis=1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K // 8, BLOCK_R):
        rows = start + tl.arange(0, BLOCK_R)[:, None]
        mask = (rows < K // 8) & (offs_n < N)
        packed = tl.load(packed_ptr + rows * N + offs_n, mask=mask, other=0)
        group = 8 * rows // group_size
        scale = tl.load(scales_ptr + group * N + offs_n, mask=mask, other=0.0)
        for i in tl.static_range(8):
            ks = 8 * (start + tl.arange(0, BLOCK_R)[None, :]) + i
            a_mask = (offs_m < M) & (ks < K)
            a = tl.load(a_ptr + offs_m * K + ks, mask=a_mask, other=0.0)
            q = (packed >> (4 * i)) & 0xF
            weight = (q - 8).to(tl.float16) * scale
            acc = tl.dot(a, weight, acc)
    c_mask = (offs_m < M) & (offs_n < N)
    tl.store(c_ptr + offs_m * N + offs_n, acc.to(tl.float16), mask=c_mask)


def quantized_matmul(a, packed, scales, group_size):
    """a @ ((q - 8) * scale), with 4-bit weights."""
    M, K = a.shape
    N = packed.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    if K == 0:
        return c
    BLOCK_M, BLOCK_N, BLOCK_R = 16, 64, 16
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    quantized_matmul_kernel[grid](
        a, packed, scales, c, M, N, K, group_size, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_R=BLOCK_R
    )
    return c
