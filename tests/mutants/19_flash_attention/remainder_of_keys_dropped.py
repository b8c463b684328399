"""accumulate: the number of blocks of keys is rounded down

symptom: right for multiples of 64 and below 64; otherwise the last keys do not count
"""

import torch
import triton
import triton.language as tl

LOG2E = 1.4426950408889634


@triton.jit
def attention_kernel(
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
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    D: tl.constexpr,
):
    pid_m = tl.program_id(axis=0)
    b = tl.program_id(axis=1) // H
    h = tl.program_id(axis=1) % H
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qs + d[None, :]
    q = tl.load(q_ptrs, mask=rows[:, None] < S, other=0.0)
    k_head = k_ptr + b * stride_kb + h * stride_kh
    v_head = v_ptr + b * stride_vb + h * stride_vh
    m = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    end = T
    if CAUSAL:
        end = tl.minimum(T, (pid_m + 1) * BLOCK_M + T - S)
    for start in range(0, tl.maximum(end // BLOCK_N, 1) * BLOCK_N, BLOCK_N):
        keys = start + cols
        k_ptrs = k_head + keys[None, :] * stride_kt + d[:, None]
        k = tl.load(k_ptrs, mask=keys[None, :] < T, other=0.0)
        scores = tl.dot(q, k) * scale
        scores = tl.where(keys[None, :] < T, scores, -float("inf"))
        if CAUSAL:
            scores = tl.where(keys[None, :] <= rows[:, None] + T - S, scores, -float("inf"))
        new_m = tl.maximum(m, tl.max(scores, axis=1))
        p = tl.exp2(scores - new_m[:, None])
        alpha = tl.exp2(m - new_m)
        total = total * alpha + tl.sum(p, axis=1)
        v_ptrs = v_head + keys[:, None] * stride_vt + d[None, :]
        v = tl.load(v_ptrs, mask=keys[:, None] < T, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = new_m
    out = acc / total[:, None]
    out_ptrs = out_ptr + (tl.program_id(axis=1) * S + rows[:, None]) * D + d[None, :]
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
    BLOCK_M, BLOCK_N = 64, 64
    grid = (triton.cdiv(S, BLOCK_M), B * H)
    attention_kernel[grid](
        q,
        k,
        v,
        out,
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        H,
        S,
        T,
        scale * LOG2E,
        CAUSAL=causal,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        D=D,
        num_warps=4,
        num_stages=2,
    )
    return out
