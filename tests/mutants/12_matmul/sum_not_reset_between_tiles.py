"""accumulate: a program with several tiles keeps the sum of the one before

symptom: right for small matrices, nonsense in the rest of large ones
"""

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
    BLOCK_SIZE: tl.constexpr,
):
    n_tiles_n = tl.cdiv(N, BLOCK_SIZE)
    n_tiles = tl.cdiv(M, BLOCK_SIZE) * n_tiles_n
    offs_k = tl.arange(0, BLOCK_SIZE)[None, :]
    acc = tl.zeros((BLOCK_SIZE, BLOCK_SIZE), dtype=tl.float32)
    for tile in range(tl.program_id(axis=0), n_tiles, tl.num_programs(axis=0)):
        offs_m = (tile // n_tiles_n) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)[:, None]
        offs_n = (tile % n_tiles_n) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)[None, :]
        for k in range(tl.cdiv(K, BLOCK_SIZE)):
            ks = k * BLOCK_SIZE + offs_k
            a_ptrs = a_ptr + offs_m * stride_am + ks * stride_ak
            a = tl.load(a_ptrs, mask=(offs_m < M) & (ks < K), other=0.0)
            ks = tl.trans(ks)
            b_ptrs = b_ptr + ks * stride_bk + offs_n * stride_bn
            b = tl.load(b_ptrs, mask=(ks < K) & (offs_n < N), other=0.0)
            acc = tl.dot(a, b, acc)
        c_ptrs = c_ptr + offs_m * stride_cm + offs_n * stride_cn
        tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(offs_m < M) & (offs_n < N))


def matmul(a, b):
    """The product of two matrices of the same half-precision dtype."""
    M, K = a.shape
    K, N = b.shape
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    BLOCK_SIZE = 32
    n_tiles = triton.cdiv(M, BLOCK_SIZE) * triton.cdiv(N, BLOCK_SIZE)
    matmul_kernel[(min(n_tiles, 4),)](
        a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), BLOCK_SIZE=BLOCK_SIZE
    )
    return c
