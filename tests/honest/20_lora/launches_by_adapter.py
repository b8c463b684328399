"""Python goes through the adapters: for each that has rows, two launches over these."""

import torch
import triton
import triton.language as tl


@triton.jit
def product_kernel(
    left_ptr,
    w_ptr,
    out_ptr,
    rows_ptr,
    scale,
    n_rows,
    K,
    N,
    ADD: tl.constexpr,
    BT: tl.constexpr,
    BK: tl.constexpr,
    BN: tl.constexpr,
):
    n_blocks = tl.cdiv(N, BN)
    pid = tl.program_id(0)
    t = pid // n_blocks * BT + tl.arange(0, BT)
    n = pid % n_blocks * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    rows = tl.load(rows_ptr + t, mask=t < n_rows, other=0)
    acc = tl.zeros((BT, BN), dtype=tl.float32)
    for first in range(0, K, BK):
        there = first + k < K
        left = tl.load(
            left_ptr + rows[:, None] * K + (first + k)[None, :],
            mask=(t < n_rows)[:, None] & there[None, :],
            other=0.0,
        )
        right = tl.load(
            w_ptr + n[:, None] * K + (first + k)[None, :],
            mask=(n < N)[:, None] & there[None, :],
            other=0.0,
        )
        acc = tl.dot(left, right.T, acc)
    at = out_ptr + rows[:, None] * N + n[None, :]
    mask = (t < n_rows)[:, None] & (n < N)[None, :]
    if ADD:
        acc = tl.load(at, mask=mask, other=0.0).to(tl.float32) + acc * scale
    tl.store(at, acc.to(out_ptr.dtype.element_ty), mask=mask)


def lora(y, x, a, b, index, scale=1.0):
    """y[t] += scale * b[index[t]] @ (a[index[t]] @ x[t]), in place."""
    (T, O), I, (L, R, _) = y.shape, x.shape[1], a.shape
    if y.numel() == 0:
        return y
    h = torch.empty((T, R), device=x.device, dtype=x.dtype)
    for adapter in torch.unique(index).tolist():
        if adapter < 0:
            continue
        rows = torch.nonzero(index == adapter)[:, 0]
        n = rows.numel()
        blocks = triton.cdiv(n, 16)
        product_kernel[(blocks * triton.cdiv(R, 32),)](
            x, a[adapter], h, rows, 1.0, n, I, R, ADD=False, BT=16, BK=64, BN=32
        )
        product_kernel[(blocks * triton.cdiv(O, 32),)](
            h, b[adapter], y, rows, float(scale), n, R, O, ADD=True, BT=16, BK=16, BN=32
        )
    return y
