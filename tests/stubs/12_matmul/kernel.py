"""Kata 12, matmul: the product of two matrices, tile by tile, on the tensor cores.

    matmul(a, b) -> a @ b

a is [M, K] and b is [K, N], both fp16 or both bf16, with any strides. The result is a new
contiguous [M, N] tensor of a's dtype. Products are summed in fp32 and rounded once. Any size may
be 0; K = 0 gives zeros.

Type `nox -s check-12` to see how far the kernel is; README.md of this kata is the lesson.
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
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
):
    # The grid has two axes: this program owns tile (pid_m, pid_n) of c.
    pid_m = tl.program_id(axis=0)
    pid_n = tl.program_id(axis=1)

    # TODO(offsets): the rows and the columns of c that this program's tile covers.
    offs_m = tl.arange(0, BLOCK_SIZE_M)
    offs_n = tl.arange(0, BLOCK_SIZE_N)

    # The first BLOCK_SIZE_K positions along K; the loop below moves on from there.
    offs_k = tl.arange(0, BLOCK_SIZE_K)

    # TODO(layout): tiles of pointers into a and b that follow their strides, and how far each
    # moves for the next block of K. As it stands, both must be contiguous.
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] * N + offs_n[None, :]
    a_step = BLOCK_SIZE_K
    b_step = BLOCK_SIZE_K * N

    # The tile of c stays in registers, in fp32, until the very end.
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)

    # TODO(accumulate): go through all of K. As it stands, only its first block is seen.
    for k in range(0, BLOCK_SIZE_K, BLOCK_SIZE_K):
        # One step: load a tile of each operand, multiply the two, move on.

        # TODO(mask): which elements of this block of a and of b exist, the first k of K being done.
        a_mask = (offs_m[:, None] >= 0) & (offs_k[None, :] >= 0)
        b_mask = (offs_k[:, None] >= 0) & (offs_n[None, :] >= 0)

        # Lanes outside become 0, which adds nothing to a sum.
        a = tl.load(a_ptrs, mask=a_mask, other=0.0)
        b = tl.load(b_ptrs, mask=b_mask, other=0.0)

        # TODO(accumulate): add this product to what is there; as it stands, it replaces it.
        accumulator = tl.dot(a, b)

        a_ptrs += a_step
        b_ptrs += b_step

    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn

    # TODO(mask): which elements of the tile lie inside c.
    c_mask = (offs_m[:, None] >= 0) & (offs_n[None, :] >= 0)

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

    # TODO(grid): a tuple with the number of tiles along M and along N.
    grid = (1, 1)

    matmul_kernel[grid](
        a,
        b,
        c,
        M,
        N,
        K,
        a.stride(0),
        a.stride(1),
        b.stride(0),
        b.stride(1),
        c.stride(0),
        c.stride(1),
        BLOCK_SIZE_M=BLOCK_SIZE_M,
        BLOCK_SIZE_N=BLOCK_SIZE_N,
        BLOCK_SIZE_K=BLOCK_SIZE_K,
        num_warps=num_warps,
        num_stages=num_stages,
    )
    return c
