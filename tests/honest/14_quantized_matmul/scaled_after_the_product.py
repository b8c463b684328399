"""Group by group: the product with whole numbers is scaled afterwards, in float32."""

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
    GROUP_ROWS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    offs_m = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    group = 0
    while group * GROUP_ROWS < K // 8:
        end = tl.minimum((group + 1) * GROUP_ROWS, K // 8)
        part = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(group * GROUP_ROWS, end, BLOCK_R):
            rows = start + tl.arange(0, BLOCK_R)
            mask = (rows[:, None] < end) & (offs_n[None, :] < N)
            ptrs = packed_ptr + rows[:, None] * N + offs_n[None, :]
            packed = tl.load(ptrs, mask=mask, other=-0x77777778)  # 8, eight times
            for i in tl.static_range(8):
                a_mask = (offs_m[:, None] < M) & (rows[None, :] < end)
                a_ptrs = a_ptr + offs_m[:, None] * K + 8 * rows[None, :] + i
                a = tl.load(a_ptrs, mask=a_mask, other=0.0)
                number = ((packed << (28 - 4 * i)) >> 28) & 15
                part = tl.dot(a, number.to(tl.float16) - 8, part)
        scale = tl.load(scales_ptr + group * N + offs_n, mask=offs_n < N, other=0.0)
        acc += part * scale.to(tl.float32)[None, :]
        group += 1
    c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(c_ptrs, acc.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


def quantized_matmul(a, packed, scales, group_size):
    """a @ ((q - 8) * scale), with 4-bit weights."""
    M, K = a.shape
    N = packed.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 64))
    quantized_matmul_kernel[grid](
        a, packed, scales, c, M, N, K, group_size // 8, BLOCK_M=32, BLOCK_N=64, BLOCK_R=16
    )
    return c
