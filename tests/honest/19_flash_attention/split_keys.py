"""The keys are shared among programs, and a second kernel puts their parts together."""

import torch
import triton
import triton.language as tl


@triton.jit
def part(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    stride_qb,
    stride_qh,
    stride_qs,
    stride_kb,
    stride_kh,
    stride_kt,
    stride_vb,
    stride_vh,
    stride_vt,
    H,
    S,
    T,
    scale,
    m_ptr,
    l_ptr,
    CAUSAL: tl.constexpr,
    SPLITS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    D: tl.constexpr,
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1)
    split = tl.program_id(2)
    b = head // H
    h = head % H
    d = tl.arange(0, D)
    inside = rows < S
    q_ptr += b * stride_qb + h * stride_qh
    q = tl.load(q_ptr + rows[:, None] * stride_qs + d[None, :], mask=inside[:, None], other=0.0)
    m = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    share = tl.cdiv(tl.cdiv(T, SPLITS), BN) * BN
    last = tl.minimum(T, (split + 1) * share)
    for first in range(split * share, last, BN):
        keys = first + tl.arange(0, BN)
        k_ptrs = k_ptr + b * stride_kb + h * stride_kh + keys[None, :] * stride_kt + d[:, None]
        v_ptrs = v_ptr + b * stride_vb + h * stride_vh + keys[:, None] * stride_vt + d[None, :]
        k = tl.load(k_ptrs, mask=keys[None, :] < T, other=0.0)
        v = tl.load(v_ptrs, mask=keys[:, None] < T, other=0.0)
        seen = (keys < T)[None, :] & inside[:, None]
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None] + T - S)
        s = tl.where(seen, tl.dot(q, k) * scale, -float("inf"))
        new = tl.maximum(m, tl.max(s, 1))
        shift = tl.where(new == -float("inf"), 0.0, new)
        p = tl.exp(s - shift[:, None])
        shrink = tl.exp(m - shift)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        m = new
    place = (split * tl.num_programs(1) + head) * S + rows
    tl.store(m_ptr + place, m, mask=inside)
    tl.store(l_ptr + place, total, mask=inside)
    tl.store(out_ptr + place[:, None] * D + d[None, :], acc, mask=inside[:, None])


@triton.jit
def together(parts_ptr, m_ptr, l_ptr, out_ptr, n_rows, SPLITS: tl.constexpr, D: tl.constexpr):
    row = tl.program_id(0) * 16 + tl.arange(0, 16)
    d = tl.arange(0, D)
    inside = row < n_rows
    top = tl.full((16,), -float("inf"), dtype=tl.float32)
    for split in tl.static_range(SPLITS):
        top = tl.maximum(top, tl.load(m_ptr + split * n_rows + row, mask=inside, other=0.0))
    acc = tl.zeros((16, D), dtype=tl.float32)
    total = tl.zeros((16,), dtype=tl.float32)
    for split in tl.static_range(SPLITS):
        place = split * n_rows + row
        factor = tl.exp(tl.load(m_ptr + place, mask=inside, other=0.0) - top)
        total += factor * tl.load(l_ptr + place, mask=inside, other=1.0)
        ptrs = parts_ptr + place[:, None] * D + d[None, :]
        acc += factor[:, None] * tl.load(ptrs, mask=inside[:, None], other=0.0)
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row[:, None] * D + d[None, :], out, mask=inside[:, None])


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
    n, splits = B * H * S, 2
    parts = torch.empty((splits, n, D), dtype=torch.float32, device=q.device)
    m, total = (torch.empty((splits, n), dtype=torch.float32, device=q.device) for _ in range(2))
    part[(triton.cdiv(S, 64), B * H, splits)](
        q,
        k,
        v,
        parts,
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        H,
        S,
        T,
        scale,
        m,
        total,
        CAUSAL=causal,
        SPLITS=splits,
        BM=64,
        BN=64,
        D=D,
    )
    together[(triton.cdiv(n, 16),)](parts, m, total, out, n, SPLITS=splits, D=D)
    return out
