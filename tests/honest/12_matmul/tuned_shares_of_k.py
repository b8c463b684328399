"""Three programs a tile add up their shares of K, tuned: the tuner sets the sums back to 0."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_SIZE": 64, "BLOCK_SIZE_K": 32}),
        triton.Config({"BLOCK_SIZE": 32, "BLOCK_SIZE_K": 64}),
    ],
    key=["M", "N", "K"],
    reset_to_zero=["sum_ptr"],
)
@triton.jit
def part_kernel(
    a_ptr,
    b_ptr,
    sum_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    BLOCK_SIZE: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
):
    offs_m = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)[:, None]
    offs_n = tl.program_id(axis=1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)[None, :]
    step = BLOCK_SIZE_K * tl.num_programs(axis=2)
    acc = tl.zeros((BLOCK_SIZE, BLOCK_SIZE), dtype=tl.float32)
    for start in range(tl.program_id(axis=2) * BLOCK_SIZE_K, K, step):
        k_row = start + tl.arange(0, BLOCK_SIZE_K)[None, :]
        k_col = start + tl.arange(0, BLOCK_SIZE_K)[:, None]
        a_ptrs = a_ptr + offs_m * stride_am + k_row * stride_ak
        b_ptrs = b_ptr + k_col * stride_bk + offs_n * stride_bn
        a = tl.load(a_ptrs, mask=(offs_m < M) & (k_row < K), other=0.0)
        b = tl.load(b_ptrs, mask=(k_col < K) & (offs_n < N), other=0.0)
        acc = tl.dot(a, b, acc)
    tl.atomic_add(sum_ptr + offs_m * N + offs_n, acc, mask=(offs_m < M) & (offs_n < N))


@triton.jit
def round_kernel(sum_ptr, c_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    total = tl.load(sum_ptr + offsets, mask=mask)
    tl.store(c_ptr + offsets, total.to(c_ptr.dtype.element_ty), mask=mask)


def matmul(a, b):
    """The product of two matrices of the same half-precision dtype."""
    M, K = a.shape
    K, N = b.shape
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    if M == 0 or N == 0:
        return c
    sums = torch.zeros((M, N), dtype=torch.float32, device=a.device)

    def grid(meta):
        return (triton.cdiv(M, meta["BLOCK_SIZE"]), triton.cdiv(N, meta["BLOCK_SIZE"]), 3)

    part_kernel[grid](a, b, sums, M, N, K, *a.stride(), *b.stride())
    round_kernel[(triton.cdiv(M * N, 8192),)](sums, c, M * N, BLOCK_SIZE=8192)
    return c
