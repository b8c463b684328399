"""Autotuned, heads on the first axis, all keys walked and masked by adding, scores kept in natural units."""

import torch
import triton
import triton.language as tl


CONFIGS = [
    triton.Config({"BM": 64, "BN": 64}, num_warps=4, num_stages=2),
    triton.Config({"BM": 32, "BN": 128}, num_warps=4, num_stages=2),
]


@triton.autotune(configs=CONFIGS, key=["S", "T", "D"])
@triton.jit
def kernel(
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
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    b = tl.program_id(0) // H
    h = tl.program_id(0) % H
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    # Rows past the end read the last one again.
    read = tl.minimum(rows, S - 1)
    q = tl.load(q_ptr + b * stride_qb + h * stride_qh + read[:, None] * stride_qs + d[None, :])
    m = tl.full([BM], float("-inf"), tl.float32)
    total = tl.full([BM], 0.0, tl.float32)
    acc = tl.full([BM, D], 0.0, tl.float32)
    for n in range(tl.cdiv(T, BN)):
        keys = n * BN + tl.arange(0, BN)
        kept = tl.minimum(keys, T - 1)
        k = tl.load(k_ptr + b * stride_kb + h * stride_kh + d[:, None] + kept[None, :] * stride_kt)
        v = tl.load(v_ptr + b * stride_vb + h * stride_vh + d[None, :] + kept[:, None] * stride_vt)
        bias = tl.where(keys < T, 0.0, float("-inf"))[None, :]
        if CAUSAL:
            bias = bias + tl.where(rows[:, None] + (T - S) >= keys[None, :], 0.0, float("-inf"))
        s = tl.dot(q, k) * scale + bias
        new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        acc = acc * tl.exp(m - new)[:, None] + tl.dot(p.to(v.dtype), v)
        total = total * tl.exp(m - new) + tl.sum(p, 1)
        m = new
    o_ptrs = out_ptr + (tl.program_id(0) * S + rows[:, None]) * D + d[None, :]
    tl.store(o_ptrs, (acc / total[:, None]).to(out_ptr.dtype.element_ty), mask=(rows < S)[:, None])


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
    kernel[lambda meta: (B * H, triton.cdiv(S, meta["BM"]))](
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
        scale,
        CAUSAL=causal,
        D=D,
    )
    return out
