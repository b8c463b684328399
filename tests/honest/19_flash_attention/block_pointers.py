"""Block pointers with boundary checks, small blocks, exp in place of exp2, one loop for all keys."""

import torch
import triton
import triton.language as tl


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
    BM: tl.constexpr,
    BN: tl.constexpr,
    D: tl.constexpr,
):
    i = tl.program_id(1)
    head = tl.program_id(0)
    b = head // H
    h = head % H
    q_block = tl.make_block_ptr(
        q_ptr + b * stride_qb + h * stride_qh, (S, D), (stride_qs, 1), (i * BM, 0), (BM, D), (1, 0)
    )
    k_block = tl.make_block_ptr(
        k_ptr + b * stride_kb + h * stride_kh, (D, T), (1, stride_kt), (0, 0), (D, BN), (0, 1)
    )
    v_block = tl.make_block_ptr(
        v_ptr + b * stride_vb + h * stride_vh, (T, D), (stride_vt, 1), (0, 0), (BN, D), (1, 0)
    )
    o_block = tl.make_block_ptr(
        out_ptr + head * S * D, (S, D), (D, 1), (i * BM, 0), (BM, D), (1, 0)
    )
    q = tl.load(q_block, boundary_check=(0,), padding_option="zero")
    m = tl.full((BM, 1), -1e38, dtype=tl.float32)
    total = tl.zeros((BM, 1), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    rows = i * BM + tl.arange(0, BM)[:, None]
    for start in range(0, T, BN):
        k = tl.load(k_block, boundary_check=(1,), padding_option="zero")
        v = tl.load(v_block, boundary_check=(0,), padding_option="zero")
        keys = start + tl.arange(0, BN)[None, :]
        seen = keys < T
        if CAUSAL:
            seen &= keys <= rows + T - S
        s = tl.where(seen, tl.dot(q, k) * scale, -float("inf"))
        new = tl.maximum(m, tl.max(s, axis=1, keep_dims=True))
        p = tl.exp(s - new)
        shrink = tl.exp(m - new)
        total = total * shrink + tl.sum(p, axis=1, keep_dims=True)
        acc *= shrink
        acc += tl.dot(p.to(v.dtype), v)
        m = new
        k_block = tl.advance(k_block, (0, BN))
        v_block = tl.advance(v_block, (BN, 0))
    tl.store(o_block, (acc / total).to(out_ptr.dtype.element_ty), boundary_check=(0,))


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
    grid = (B * H, triton.cdiv(S, 64))
    kernel[grid](
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
        BM=64,
        BN=32,
        D=D,
    )
    return out
