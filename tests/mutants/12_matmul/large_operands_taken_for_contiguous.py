"""robust: large products go to a kernel that knows no strides

symptom: right for small and for contiguous operands"""

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
    # The grid has two axes: this program owns tile (pid_m, pid_n) of c.
    pid_m = tl.program_id(axis=0)
    pid_n = tl.program_id(axis=1)

    # The rows of a (and of c) and the columns of b (and of c) that meet in this tile.
    offs_m = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_n = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)

    # The first BLOCK_SIZE_K positions along K; the loop below moves on from there.
    offs_k = tl.arange(0, BLOCK_SIZE_K)

    # [:, None] makes a column and [None, :] a row; their sum is a whole tile of addresses. Each
    # index is multiplied by the stride of its own dimension, so a transposed or sliced operand
    # is read where it lies. A step along K moves by BLOCK_SIZE_K of K's own strides.
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    a_step = BLOCK_SIZE_K * stride_ak
    b_step = BLOCK_SIZE_K * stride_bk

    # The tile of c stays in registers, in fp32, until the very end.
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)

    # All of K, one block at a time; the last block may be part full.
    for k in range(0, K, BLOCK_SIZE_K):
        # One step: load a tile of each operand, multiply the two, move on.

        # Three edges to guard: M, N and what is left of K after the first k.
        a_mask = (offs_m[:, None] < M) & (offs_k[None, :] < K - k)
        b_mask = (offs_k[:, None] < K - k) & (offs_n[None, :] < N)

        # Lanes outside become 0, which adds nothing to a sum.
        a = tl.load(a_ptrs, mask=a_mask, other=0.0)
        b = tl.load(b_ptrs, mask=b_mask, other=0.0)

        # The third argument is what the product is added to: it stays fp32 from block to block.
        accumulator = tl.dot(a, b, accumulator)

        a_ptrs += a_step
        b_ptrs += b_step

    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn

    # Only the part of the tile that lies inside c is written.
    c_mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)

    # The one rounding: from fp32 to the dtype of the result.
    tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=c_mask)


def matmul(a, b):
    """a @ b, in a new contiguous tensor of a's dtype."""
    if a.dim() != 2 or b.dim() != 2:
        raise ValueError(f"a and b must have two dimensions, got shapes {a.shape} and {b.shape}")
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"a has {a.shape[1]} columns, but b has {b.shape[0]} rows")
    if a.dtype != b.dtype:
        raise ValueError(f"a and b must have the same dtype, got {a.dtype} and {b.dtype}")
    if a.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"a and b must be fp16 or bf16, got {a.dtype}")

    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    if M == 0 or N == 0:
        return c

    # A large tile does more arithmetic for every byte it loads. But a small product cut into
    # large tiles makes too few programs to keep all multiprocessors busy, so it gets small ones.
    if triton.cdiv(M, 128) * triton.cdiv(N, 128) >= 128:
        BLOCK_SIZE_M, BLOCK_SIZE_N, BLOCK_SIZE_K = 128, 128, 32
        num_warps, num_stages = 8, 4
    else:
        BLOCK_SIZE_M, BLOCK_SIZE_N, BLOCK_SIZE_K = 64, 64, 64
        num_warps, num_stages = 4, 4

    # One program a tile of c, rounded up along both axes.
    grid = (triton.cdiv(M, BLOCK_SIZE_M), triton.cdiv(N, BLOCK_SIZE_N))

    matmul_kernel[grid](
        a,
        b,
        c,
        M,
        N,
        K,
        *(a.stride() if BLOCK_SIZE_M == 64 else (K, 1)),
        *(b.stride() if BLOCK_SIZE_M == 64 else (N, 1)),
        c.stride(0),
        c.stride(1),
        BLOCK_SIZE_M=BLOCK_SIZE_M,
        BLOCK_SIZE_N=BLOCK_SIZE_N,
        BLOCK_SIZE_K=BLOCK_SIZE_K,
        num_warps=num_warps,
        num_stages=num_stages,
    )
    return c
