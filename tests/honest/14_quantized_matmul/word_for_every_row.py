"""Each row of K loads its int32 anew, eight times in all; columns wrap around; autotuned; a program has several tiles."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32}, num_stages=3),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64}, num_stages=2),
    ],
    key=["M", "N", "K"],
)
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
    BLOCK_K: tl.constexpr,
):
    n_tiles_n = tl.cdiv(N, BLOCK_N)
    n_tiles = tl.cdiv(M, BLOCK_M) * n_tiles_n
    for tile in range(tl.program_id(axis=0), n_tiles, tl.num_programs(axis=0)):
        offs_m = tile // n_tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
        offs_n = tile % n_tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
        wrapped = offs_n % N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, K, BLOCK_K):
            k_row = start + tl.arange(0, BLOCK_K)[None, :]
            k_col = start + tl.arange(0, BLOCK_K)[:, None]
            a = tl.load(a_ptr + offs_m * K + k_row, mask=(offs_m < M) & (k_row < K), other=0.0)
            packed = tl.load(packed_ptr + k_col // 8 * N + wrapped, mask=k_col < K, other=0)
            group = k_col // group_size
            scale = tl.load(scales_ptr + group * N + wrapped, mask=k_col < K, other=0.0)
            q = (packed >> (k_col % 8 * 4)) & 0xF
            acc = tl.dot(a, ((q - 8) * scale.to(tl.float32)).to(tl.float16), acc)
        mask = (offs_m < M) & (offs_n < N)
        tl.store(c_ptr + offs_m * N + offs_n, acc.to(tl.float16), mask=mask)


def quantized_matmul(a, packed, scales, group_size):
    """a @ ((q - 8) * scale), with 4-bit weights."""
    M, K = a.shape
    N = packed.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    if c.numel():
        grid = lambda meta: (
            min(triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), 7),
        )
        quantized_matmul_kernel[grid](a, packed, scales, c, M, N, K, group_size)
    return c
