"""Tiles of two rows through block pointers, an associative scan of its own, and a carry a row."""

import torch
import triton
import triton.language as tl


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def running(tile, carry, WIDTH: tl.constexpr):
    # The rows of a tile scanned, with what stands before them; and the last column of that.
    out = carry[:, None] + tl.associative_scan(tile, 1, plus)
    last = tl.arange(0, WIDTH)[None, :] == WIDTH - 1
    return out, tl.reduce(tl.where(last, out, 0.0), 1, plus)


@triton.jit
def cumsum_kernel(
    x_ptr, y_ptr, M, N, stride_xm, stride_ym, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    top = tl.program_id(0) * BLOCK_M
    x_block = tl.make_block_ptr(x_ptr, (M, N), (stride_xm, 1), (top, 0), (BLOCK_M, BLOCK_N), (1, 0))
    y_block = tl.make_block_ptr(y_ptr, (M, N), (stride_ym, 1), (top, 0), (BLOCK_M, BLOCK_N), (1, 0))
    carry = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for _ in range(0, tl.cdiv(N, BLOCK_N)):
        x = tl.load(x_block, boundary_check=(0, 1), padding_option="zero")
        out, carry = running(x.to(tl.float32), carry, BLOCK_N)
        tl.store(y_block, out, boundary_check=(0, 1))
        x_block = tl.advance(x_block, (0, BLOCK_N))
        y_block = tl.advance(y_block, (0, BLOCK_N))


def cumsum(x):
    """Running sums along the rows of a matrix, in float32."""
    M, N = x.shape
    y = x.new_empty((M, N), dtype=torch.float32)
    if M and N:
        cumsum_kernel[(triton.cdiv(M, 2),)](
            x, y, M, N, x.stride(0), y.stride(0), BLOCK_M=2, BLOCK_N=4096
        )
    return y
