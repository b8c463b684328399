"""fusion: one kernel stores all scores, a second one reads them again

symptom: always right, and out of memory for long sequences
"""

import torch
import triton
import triton.language as tl


@triton.jit
def scores_kernel(
    q_ptr,
    k_ptr,
    scores_ptr,
    stride_qb,
    stride_qh,
    stride_qs,
    stride_kb,
    stride_kh,
    stride_kt,
    H,
    S,
    T,
    scale,
    BLOCK: tl.constexpr,
    D: tl.constexpr,
):
    b = tl.program_id(axis=2) // H
    h = tl.program_id(axis=2) % H
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    keys = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qs + d[None, :]
    k_ptrs = k_ptr + b * stride_kb + h * stride_kh + keys[None, :] * stride_kt + d[:, None]
    q = tl.load(q_ptrs, mask=rows[:, None] < S, other=0.0)
    k = tl.load(k_ptrs, mask=keys[None, :] < T, other=0.0)
    ptrs = scores_ptr + (tl.program_id(axis=2) * S + rows[:, None]) * T + keys[None, :]
    tl.store(ptrs, tl.dot(q, k) * scale, mask=(rows[:, None] < S) & (keys[None, :] < T))


@triton.jit
def softmax_times_v_kernel(
    scores_ptr,
    v_ptr,
    out_ptr,
    stride_vb,
    stride_vh,
    stride_vt,
    H,
    S,
    T,
    CAUSAL: tl.constexpr,
    BLOCK: tl.constexpr,
    D: tl.constexpr,
):
    b = tl.program_id(axis=1) // H
    h = tl.program_id(axis=1) % H
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    m = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    acc = tl.zeros((BLOCK, D), dtype=tl.float32)
    for start in range(0, T, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        seen = (rows[:, None] < S) & (keys[None, :] < T)
        ptrs = scores_ptr + (tl.program_id(axis=1) * S + rows[:, None]) * T + keys[None, :]
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None] + T - S)
        scores = tl.load(ptrs, mask=seen, other=-float("inf"))
        new_m = tl.maximum(m, tl.max(scores, axis=1))
        shift = tl.where(new_m == -float("inf"), 0.0, new_m)
        p = tl.exp(scores - shift[:, None])
        alpha = tl.exp(m - shift)
        total = total * alpha + tl.sum(p, axis=1)
        v_ptrs = v_ptr + b * stride_vb + h * stride_vh + keys[:, None] * stride_vt + d[None, :]
        v = tl.load(v_ptrs, mask=keys[:, None] < T, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = new_m
    out_ptrs = out_ptr + (tl.program_id(axis=1) * S + rows[:, None]) * D + d[None, :]
    out = acc / total[:, None]
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=rows[:, None] < S)


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
    scores = torch.empty((B, H, S, T), dtype=torch.float32, device=q.device)
    BLOCK = 64
    strides = [*q.stride()[:3], *k.stride()[:3]]
    grid = (triton.cdiv(S, BLOCK), triton.cdiv(T, BLOCK), B * H)
    scores_kernel[grid](q, k, scores, *strides, H, S, T, scale, BLOCK=BLOCK, D=D)
    grid = (triton.cdiv(S, BLOCK), B * H)
    softmax_times_v_kernel[grid](
        scores, v, out, *v.stride()[:3], H, S, T, CAUSAL=causal, BLOCK=BLOCK, D=D
    )
    return out
