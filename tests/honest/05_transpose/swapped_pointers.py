"""No tl.trans: the store's pointers are laid out along the tile of x, columns apart."""

import torch
import triton
import triton.language as tl


@triton.jit
def swapped_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(axis=0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(axis=1) * BN + tl.arange(0, BN)[None, :]
    inside = (m < M) & (n < N)
    x = tl.load(x_ptr + m * stride_m + n * stride_n, mask=inside)
    tl.store(out_ptr + m + n * M, x, mask=inside)


def transpose(x):
    """Rows become columns."""
    n_rows, n_cols = x.shape
    out = torch.empty((n_cols, n_rows), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    grid = (triton.cdiv(n_rows, 32), triton.cdiv(n_cols, 64))
    swapped_kernel[grid](x, out, n_rows, n_cols, *x.stride(), BM=32, BN=64)
    return out
