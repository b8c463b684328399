"""A fixed number of programs share all tiles; scores are held transposed, keys walked backwards."""

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
    n_tiles,
    CAUSAL: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    D: tl.constexpr,
):
    tiles_per_head = tl.cdiv(S, BM)
    for tile in range(tl.program_id(0), n_tiles, tl.num_programs(0)):
        head = tile // tiles_per_head
        rows = (tile % tiles_per_head) * BM + tl.arange(0, BM)
        b = (head // H).to(tl.int64)
        h = (head % H).to(tl.int64)
        d = tl.arange(0, D)
        q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows[None, :] * stride_qs + d[:, None]
        q = tl.load(q_ptrs, mask=rows[None, :] < S, other=0.0)
        m = tl.full((BM,), -float("inf"), dtype=tl.float32)
        total = tl.zeros((BM,), dtype=tl.float32)
        acc = tl.zeros((D, BM), dtype=tl.float32)
        blocks = tl.cdiv(T, BN)
        for step in range(blocks):
            keys = (blocks - 1 - step) * BN + tl.arange(0, BN)
            k_ptrs = k_ptr + b * stride_kb + h * stride_kh + keys[:, None] * stride_kt + d[None, :]
            v_ptrs = v_ptr + b * stride_vb + h * stride_vh + keys[None, :] * stride_vt + d[:, None]
            k = tl.load(k_ptrs, mask=keys[:, None] < T, other=0.0)
            s = tl.dot(k, q) * (scale * 1.4426950408889634)
            seen = keys[:, None] < T
            if CAUSAL:
                seen = seen & (keys[:, None] - rows[None, :] <= T - S)
            s = tl.where(seen, s, -float("inf"))
            new = tl.maximum(m, tl.max(s, axis=0))
            shift = tl.where(new == -float("inf"), 0.0, new)
            p = tl.exp2(s - shift[None, :])
            shrink = tl.exp2(m - shift)
            total = total * shrink + tl.sum(p, axis=0)
            v = tl.load(v_ptrs, mask=keys[None, :] < T, other=0.0)
            acc = tl.dot(v, p.to(v.dtype), acc * shrink[None, :])
            m = new
        out = tl.trans(acc / total[None, :])
        o_ptrs = out_ptr + (head.to(tl.int64) * S + rows[:, None]) * D + d[None, :]
        tl.store(o_ptrs, out.to(out_ptr.dtype.element_ty), mask=rows[:, None] < S)


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
    n_tiles = triton.cdiv(S, 32) * B * H
    grid = (min(n_tiles, 132),)
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
        n_tiles,
        CAUSAL=causal,
        BM=32,
        BN=64,
        D=D,
        num_stages=1,  # Triton 3.6 on an H200: wrong or out of bounds with more, where k lies askew
    )
    return out
