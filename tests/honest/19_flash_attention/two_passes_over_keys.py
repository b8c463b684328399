"""Maximum and sum in a first pass, weights that are divided before their product in a second; contiguous copies."""

import torch
import triton
import triton.language as tl


@triton.jit
def scores_of(
    q, k_ptr, first, rows, S, T, scale, CAUSAL: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    keys = first + tl.arange(0, BN)
    k_ptrs = k_ptr + keys[:, None] * D + tl.arange(0, D)[None, :]
    k = tl.load(k_ptrs, mask=keys[:, None] < T, other=0.0)
    s = tl.dot(q, k.trans()) * scale
    hidden = (keys >= T)[None, :]
    if CAUSAL:
        hidden = hidden | (keys[None, :] > rows[:, None] + T - S)
    return tl.where(hidden, float("-inf"), s)


@triton.jit
def kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    S,
    T,
    scale,
    CAUSAL: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    D: tl.constexpr,
):
    head = tl.program_id(2)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    places = (head * S + rows)[:, None] * D + d[None, :]
    q = tl.load(q_ptr + places, mask=rows[:, None] < S, other=0.0)
    k_ptr += head * T * D
    v_ptr += head * T * D
    m = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    for first in range(0, T, BN):
        s = scores_of(q, k_ptr, first, rows, S, T, scale, CAUSAL, BN, D)
        new = tl.maximum(m, tl.max(s, 1))
        total = total * tl.exp(m - new) + tl.sum(tl.exp(s - new[:, None]), 1)
        m = new
    norm = m + tl.log(total)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for first in range(0, T, BN):
        s = scores_of(q, k_ptr, first, rows, S, T, scale, CAUSAL, BN, D)
        keys = first + tl.arange(0, BN)
        v = tl.load(v_ptr + keys[:, None] * D + d[None, :], mask=keys[:, None] < T, other=0.0)
        p = tl.exp(s - norm[:, None])
        acc = tl.dot(p.to(v.dtype), v, acc)
    tl.store(out_ptr + places, acc.to(out_ptr.dtype.element_ty), mask=rows[:, None] < S)


def flash_attention(q, k, v, causal=False, scale=None):
    """Attention, head by head."""
    B, H, S, D = q.shape
    T = k.shape[2]
    scale = D**-0.5 if scale is None else scale
    if T == 0:
        return torch.zeros((B, H, S, D), dtype=q.dtype, device=q.device)
    out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    if out.numel() == 0:
        return out
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    grid = (triton.cdiv(S, 64), 1, B * H)
    kernel[grid](q, k, v, out, S, T, scale, CAUSAL=causal, BM=64, BN=64, D=D)
    return out
