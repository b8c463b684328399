"""Loading and storing a tile are device functions; b is loaded transposed and turned."""

import torch
import triton
import triton.language as tl


@triton.jit
def load_tile(ptr, rows, cols, n_rows, n_cols, row_stride, col_stride):
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    ptrs = ptr + rows[:, None] * row_stride + cols[None, :] * col_stride
    return tl.load(ptrs, mask=mask, other=0.0)


@triton.jit
def store_tile(ptr, tile, rows, cols, n_rows, n_cols, row_stride, col_stride):
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    ptrs = ptr + rows[:, None] * row_stride + cols[None, :] * col_stride
    tl.store(ptrs, tile.to(ptr.dtype.element_ty), mask=mask)


@triton.jit
def span(start, LENGTH: tl.constexpr):
    return start + tl.arange(0, LENGTH)


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
    offs_m = span(tl.program_id(axis=0) * BLOCK_SIZE_M, BLOCK_SIZE_M)
    offs_n = span(tl.program_id(axis=1) * BLOCK_SIZE_N, BLOCK_SIZE_N)
    acc = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_SIZE_K, num_stages=3):
        offs_k = span(k, BLOCK_SIZE_K)
        a = load_tile(a_ptr, offs_m, offs_k, M, K, stride_am, stride_ak)
        b_t = load_tile(b_ptr, offs_n, offs_k, N, K, stride_bn, stride_bk)
        acc = tl.dot(a, tl.trans(b_t), acc)
    store_tile(c_ptr, acc, offs_m, offs_n, M, N, stride_cm, stride_cn)


def matmul(a, b):
    """The product of two matrices of the same half-precision dtype."""
    M, K = a.shape
    K, N = b.shape
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 32))
    matmul_kernel[grid](
        a,
        b,
        c,
        M,
        N,
        K,
        *a.stride(),
        *b.stride(),
        *c.stride(),
        BLOCK_SIZE_M=64,
        BLOCK_SIZE_N=32,
        BLOCK_SIZE_K=64,
    )
    return c
