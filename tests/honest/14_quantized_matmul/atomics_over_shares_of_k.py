"""Three programs share a tile, block of K by block, and meet by atomics; another kernel rounds."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_products_kernel(
    a_ptr,
    packed_ptr,
    scales_ptr,
    sums_ptr,
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
    pid_k = tl.program_id(axis=2)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(pid_k * BLOCK_R, K // 8, tl.num_programs(axis=2) * BLOCK_R):
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
    tl.atomic_add(sums_ptr + offs_m * N + offs_n, acc, mask=c_mask)


@triton.jit
def round_kernel(sums_ptr, c_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    sums = tl.load(sums_ptr + offsets, mask=mask)
    tl.store(c_ptr + offsets, sums.to(tl.float16), mask=mask)


def quantized_matmul(a, packed, scales, group_size):
    """a @ ((q - 8) * scale), with 4-bit weights."""
    M, K = a.shape
    N = packed.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    sums = torch.zeros((M, N), dtype=torch.float32, device=a.device)
    BLOCK_M, BLOCK_N, BLOCK_R = 16, 64, 16
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N), 3)
    add_products_kernel[grid](
        a,
        packed,
        scales,
        sums,
        M,
        N,
        K,
        group_size,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_R=BLOCK_R,
    )
    round_kernel[(triton.cdiv(M * N, 8192),)](sums, c, M * N, BLOCK_SIZE=8192)
    return c
