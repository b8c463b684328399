"""One-dimensional grid in groups, the tile exchanged by its method .T, 64-bit offsets."""

import torch
import triton
import triton.language as tl


@triton.jit
def grouped_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0)
    down, across = tl.cdiv(M, BLOCK), tl.cdiv(N, BLOCK)
    group = pid // (4 * across)
    height = min(down - group * 4, 4)
    m = (group * 4 + (pid % (4 * across)) % height).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    n = ((pid % (4 * across)) // height).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = (m < M)[:, None] & (n < N)[None, :]
    x = tl.load(x_ptr + m[:, None] * stride_m + n[None, :] * stride_n, mask=inside)
    tl.store(out_ptr + n[:, None] * M + m[None, :], x.T, mask=inside.T)


def transpose(x):
    """Rows become columns."""
    n_rows, n_cols = x.shape
    out = torch.empty((n_cols, n_rows), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    grid = (triton.cdiv(n_rows, 32) * triton.cdiv(n_cols, 32),)
    grouped_kernel[grid](x, out, n_rows, n_cols, *x.stride(), BLOCK=32)
    return out
