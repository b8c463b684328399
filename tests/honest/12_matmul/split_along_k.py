"""K is split in four, a second kernel adds the float32 parts."""

import torch
import triton
import triton.language as tl


@triton.jit
def part_kernel(
    a_ptr,
    b_ptr,
    part_ptr,
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
    part = tl.program_id(axis=2)
    k_per_part = tl.cdiv(tl.cdiv(K, tl.num_programs(axis=2)), BLOCK_SIZE_K) * BLOCK_SIZE_K
    k_end = tl.minimum(K, (part + 1) * k_per_part)
    offs_m = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)[:, None]
    offs_n = tl.program_id(axis=1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)[None, :]
    acc = tl.zeros((BLOCK_SIZE, BLOCK_SIZE), dtype=tl.float32)
    for start in range(part * k_per_part, k_end, BLOCK_SIZE_K):
        k_row = start + tl.arange(0, BLOCK_SIZE_K)[None, :]
        k_col = start + tl.arange(0, BLOCK_SIZE_K)[:, None]
        a_ptrs = a_ptr + offs_m * stride_am + k_row * stride_ak
        b_ptrs = b_ptr + k_col * stride_bk + offs_n * stride_bn
        a = tl.load(a_ptrs, mask=(offs_m < M) & (k_row < k_end), other=0.0)
        b = tl.load(b_ptrs, mask=(k_col < k_end) & (offs_n < N), other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(part_ptr + (part * M + offs_m) * N + offs_n, acc, mask=(offs_m < M) & (offs_n < N))


@triton.jit
def add_parts_kernel(part_ptr, c_ptr, n_elements, PARTS: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    acc = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for part in tl.static_range(PARTS):
        acc += tl.load(part_ptr + part * n_elements + offsets, mask=mask, other=0.0)
    tl.store(c_ptr + offsets, acc.to(c_ptr.dtype.element_ty), mask=mask)


def matmul(a, b):
    """The product of two matrices of the same half-precision dtype."""
    M, K = a.shape
    K, N = b.shape
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    parts = torch.empty((4, M, N), dtype=torch.float32, device=a.device)
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 64), 4)
    part_kernel[grid](
        a, b, parts, M, N, K, *a.stride(), *b.stride(), BLOCK_SIZE=64, BLOCK_SIZE_K=32
    )
    add_parts_kernel[(triton.cdiv(M * N, 1024),)](parts, c, M * N, PARTS=4, BLOCK_SIZE=1024)
    return c
