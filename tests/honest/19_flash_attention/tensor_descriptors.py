"""Descriptors made in the kernel where memory is aligned, plain pointers elsewhere; the weights are summed after rounding."""

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
    DESCRIBED: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    D: tl.constexpr,
):
    first = tl.program_id(0) * BM
    head = tl.program_id(1)
    b = head // H
    h = head % H
    rows = first + tl.arange(0, BM)
    d = tl.arange(0, D)
    q_ptr += b * stride_qb + h * stride_qh
    k_ptr += b * stride_kb + h * stride_kh
    v_ptr += b * stride_vb + h * stride_vh
    if DESCRIBED:
        q_desc = tl.make_tensor_descriptor(q_ptr, [S, D], [stride_qs, 1], [BM, D])
        k_desc = tl.make_tensor_descriptor(k_ptr, [T, D], [stride_kt, 1], [BN, D])
        v_desc = tl.make_tensor_descriptor(v_ptr, [T, D], [stride_vt, 1], [BN, D])
        q = q_desc.load([first, 0])
    else:
        q_ptrs = q_ptr + rows[:, None] * stride_qs + d[None, :]
        q = tl.load(q_ptrs, mask=rows[:, None] < S, other=0.0)
    m = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    end = tl.minimum(first + BM, S) + T - S if CAUSAL else T
    for start in tl.range(0, end, BN):
        keys = start + tl.arange(0, BN)
        if DESCRIBED:
            k = k_desc.load([start, 0])
            v = v_desc.load([start, 0])
        else:
            inside = keys[:, None] < T
            k = tl.load(k_ptr + keys[:, None] * stride_kt + d[None, :], mask=inside, other=0.0)
            v = tl.load(v_ptr + keys[:, None] * stride_vt + d[None, :], mask=inside, other=0.0)
        s = tl.dot(q, k.T)
        limit = T - 1 + tl.zeros((BM,), dtype=tl.int32)
        if CAUSAL:
            limit = tl.minimum(limit, rows + T - S)
        s += tl.where(keys[None, :] <= limit[:, None], 0.0, -float("inf"))
        new = tl.maximum(m, tl.max(s, 1) * scale)
        p = tl.exp(s * scale - new[:, None]).to(v.dtype)
        shrink = tl.exp(m - new)
        total = total * shrink + tl.sum(p.to(tl.float32), 1)
        acc = tl.dot(p, v, acc * shrink[:, None])
        m = new
    o_ptrs = out_ptr + (head * S + rows[:, None]) * D + d[None, :]
    out = acc * (1.0 / total)[:, None]
    tl.store(o_ptrs, out.to(out_ptr.dtype.element_ty), mask=rows[:, None] < S)


def fits_descriptor(t):
    aligned = all(s * t.element_size() % 16 == 0 and s > 0 for s in t.stride()[:3])
    return t.data_ptr() % 16 == 0 and aligned


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
    triton.set_allocator(
        lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=q.device)
    )
    kernel[(triton.cdiv(S, 128), B * H)](
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
        DESCRIBED=all(fits_descriptor(t) for t in (q, k, v)),
        BM=128,
        BN=128,
        D=D,
        num_warps=8,
    )
    return out
