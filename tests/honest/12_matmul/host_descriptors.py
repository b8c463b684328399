"""Descriptors made by the launcher where memory is aligned, plain pointers elsewhere."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def matmul_with_descriptors(
    a_desc,
    b_desc,
    c_desc,
    K,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
):
    first_m = tl.program_id(axis=0) * BLOCK_SIZE_M
    first_n = tl.program_id(axis=1) * BLOCK_SIZE_N
    acc = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_SIZE_K):
        acc = tl.dot(a_desc.load([first_m, k]), b_desc.load([k, first_n]), acc)
    c_desc.store([first_m, first_n], acc.to(c_desc.dtype))


@triton.jit
def matmul_with_pointers(
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
    pid_m = tl.program_id(axis=0)
    pid_n = tl.program_id(axis=1)
    offs_m = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_n = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_SIZE_K)):
        k_mask = offs_k < K - k * BLOCK_SIZE_K
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & k_mask[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=k_mask[:, None] & (offs_n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn
    c_mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=c_mask)


def fits_descriptor(t):
    row_bytes = t.stride(0) * t.element_size()
    aligned = t.data_ptr() % 16 == 0 and row_bytes % 16 == 0
    return aligned and t.stride(1) == 1 and row_bytes > 0 and t.numel() > 0


def matmul(a, b):
    """The product of two matrices of the same half-precision dtype."""
    M, K = a.shape
    K, N = b.shape
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    blocks = {"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32}
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 64))
    if all(fits_descriptor(t) for t in (a, b, c)):
        a_desc = TensorDescriptor.from_tensor(a, [32, 32])
        b_desc = TensorDescriptor.from_tensor(b, [32, 64])
        c_desc = TensorDescriptor.from_tensor(c, [32, 64])
        matmul_with_descriptors[grid](a_desc, b_desc, c_desc, K, **blocks)
    else:
        matmul_with_pointers[grid](
            a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), **blocks
        )
    return c
