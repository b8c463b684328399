"""The tile is chosen by an autotuner."""

import torch
import triton
import triton.language as tl


def config(m, n, warps):
    return triton.Config({"BM": m, "BN": n}, num_warps=warps)


@triton.autotune(configs=[config(32, 32, 2), config(64, 64, 4), config(64, 128, 8)], key=["M", "N"])
@triton.jit
def tuned_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(axis=0) * BM + tl.arange(0, BM)
    n = tl.program_id(axis=1) * BN + tl.arange(0, BN)
    x_mask = (m[:, None] < M) & (n[None, :] < N)
    x = tl.load(x_ptr + m[:, None] * stride_m + n[None, :] * stride_n, mask=x_mask)
    tl.store(out_ptr + n[:, None] * M + m[None, :], tl.trans(x), mask=tl.trans(x_mask))


def transpose(x):
    """Rows become columns."""
    n_rows, n_cols = x.shape
    out = torch.empty((n_cols, n_rows), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out

    def grid(meta):
        return triton.cdiv(n_rows, meta["BM"]), triton.cdiv(n_cols, meta["BN"])

    tuned_kernel[grid](x, out, n_rows, n_cols, x.stride(0), x.stride(1))
    return out
