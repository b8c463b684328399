"""At most 132 programs, each working through several tiles."""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
):
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_tiles = tl.cdiv(M, BLOCK_SIZE_M) * num_pid_n
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    for tile in tl.range(tl.program_id(axis=0), num_tiles, tl.num_programs(axis=0)):
        offs_m = (tile // num_pid_n) * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
        offs_n = (tile % num_pid_n) * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
        a_rows = a_ptr + offs_m[:, None] * stride_am
        b_cols = b_ptr + offs_n[None, :] * stride_bn
        acc = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
        for start in range(0, K, BLOCK_SIZE_K):
            ks = start + offs_k
            a_mask = (offs_m[:, None] < M) & (ks[None, :] < K)
            b_mask = (ks[:, None] < K) & (offs_n[None, :] < N)
            a = tl.load(a_rows + ks[None, :] * stride_ak, mask=a_mask, other=0.0)
            b = tl.load(b_cols + ks[:, None] * stride_bk, mask=b_mask, other=0.0)
            acc += tl.dot(a, b)
        c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn
        c_mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
        tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=c_mask)


def matmul(a, b):
    """The product of two matrices of the same half-precision dtype."""
    M, K = a.shape
    K, N = b.shape
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    n_programs = min(132, triton.cdiv(M, 32) * triton.cdiv(N, 32))
    matmul_kernel[(n_programs,)](
        a,
        b,
        c,
        M,
        N,
        K,
        *a.stride(),
        *b.stride(),
        *c.stride(),
        BLOCK_SIZE_M=32,
        BLOCK_SIZE_N=32,
        BLOCK_SIZE_K=32,
    )
    return c
