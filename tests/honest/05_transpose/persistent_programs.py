"""A fixed number of programs share all tiles."""

import torch
import triton
import triton.language as tl


@triton.jit
def persistent_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, BM: tl.constexpr, BN: tl.constexpr):
    across = tl.cdiv(N, BN)
    for tile in range(tl.program_id(axis=0), tl.cdiv(M, BM) * across, tl.num_programs(axis=0)):
        m = (tile // across) * BM + tl.arange(0, BM)
        n = (tile % across) * BN + tl.arange(0, BN)
        x_mask = (m[:, None] < M) & (n[None, :] < N)
        x = tl.load(x_ptr + m[:, None] * stride_m + n[None, :] * stride_n, mask=x_mask)
        out_mask = (n[:, None] < N) & (m[None, :] < M)
        tl.store(out_ptr + n[:, None] * M + m[None, :], tl.trans(x), mask=out_mask)


def transpose(x):
    """Rows become columns."""
    n_rows, n_cols = x.shape
    out = torch.empty((n_cols, n_rows), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    grid = (min(40, triton.cdiv(n_rows, 64) * triton.cdiv(n_cols, 32)),)
    persistent_kernel[grid](x, out, n_rows, n_cols, *x.stride(), BM=64, BN=32)
    return out
