"""mask: one key too many is counted as seen by all rows of a program

symptom: right for almost all lengths; for some, the first row of a block sees the future
"""

import torch
import triton
import triton.language as tl

LOG2_E = 1.4426950408889634


@triton.jit
def attend(
    acc,
    running_max,
    running_sum,
    q,
    k_ptr,
    v_ptr,
    row_k,
    row_v,
    start,
    stop,
    offs_m,
    S,
    T,
    log2_scale,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    BLOCK_N: tl.constexpr,
    D: tl.constexpr,
):
    offs_d = tl.arange(0, D)
    for first in range(start, stop, BLOCK_N):
        offs_n = first + tl.arange(0, BLOCK_N)

        exists = offs_n < T
        seen = exists[None, :]
        if CAUSAL:
            seen = seen & (offs_n[None, :] <= offs_m[:, None] + T - S)

        k_ptrs = k_ptr + offs_n[None, :] * row_k + offs_d[:, None]
        v_ptrs = v_ptr + offs_n[:, None] * row_v + offs_d[None, :]
        if MASKED:
            k = tl.load(k_ptrs, mask=exists[None, :], other=0.0)
            v = tl.load(v_ptrs, mask=exists[:, None], other=0.0)
        else:
            k = tl.load(k_ptrs)
            v = tl.load(v_ptrs)

        scores = tl.dot(q, k)

        if MASKED:
            scores = tl.where(seen, scores, -float("inf"))

        block_max = tl.max(scores, axis=1) * log2_scale

        new_max = tl.maximum(running_max, block_max)

        weights = tl.exp2(scores * log2_scale - new_max[:, None])

        block_sum = tl.sum(weights, axis=1)

        rescale = tl.exp2(running_max - new_max)

        running_sum = running_sum * rescale + block_sum
        running_max = new_max

        acc = tl.dot(weights.to(v.dtype), v, acc * rescale[:, None])

    return acc, running_max, running_sum


@triton.jit
def flash_attention_kernel(
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
    log2_scale,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    D: tl.constexpr,
):
    pid_head = tl.program_id(axis=1)

    pid_m = tl.num_programs(axis=0) - 1 - tl.program_id(axis=0)
    batch = pid_head // H
    head = pid_head % H
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)

    q_ptr += batch * stride_qb + head * stride_qh
    k_ptr += batch * stride_kb + head * stride_kh
    v_ptr += batch * stride_vb + head * stride_vh
    row_q, row_k, row_v = stride_qs, stride_kt, stride_vt

    row_mask = (offs_m < S)[:, None]

    offs_d = tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + offs_m[:, None] * row_q + offs_d, mask=row_mask, other=0.0)

    running_max = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    running_sum = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)

    stop = T
    if CAUSAL:
        stop = tl.minimum(T, (pid_m + 1) * BLOCK_M + T - S)

    seen_by_all = stop
    if CAUSAL:
        seen_by_all = tl.minimum(stop, pid_m * BLOCK_M + T - S + 2)
    unmasked = seen_by_all // BLOCK_N * BLOCK_N

    acc, running_max, running_sum = attend(
        acc,
        running_max,
        running_sum,
        q,
        k_ptr,
        v_ptr,
        row_k,
        row_v,
        0,
        unmasked,
        offs_m,
        S,
        T,
        log2_scale,
        CAUSAL=CAUSAL,
        MASKED=False,
        BLOCK_N=BLOCK_N,
        D=D,
    )
    acc, running_max, running_sum = attend(
        acc,
        running_max,
        running_sum,
        q,
        k_ptr,
        v_ptr,
        row_k,
        row_v,
        unmasked,
        stop,
        offs_m,
        S,
        T,
        log2_scale,
        CAUSAL=CAUSAL,
        MASKED=True,
        BLOCK_N=BLOCK_N,
        D=D,
    )

    out = acc / running_sum[:, None]

    out_ptrs = out_ptr + ((batch * H + head) * S + offs_m[:, None]) * D + offs_d
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=row_mask)


def flash_attention(q, k, v, causal=False, scale=None):
    if q.dim() != 4 or k.dim() != 4 or k.shape != v.shape:
        raise ValueError(f"q, k and v have shapes {q.shape}, {k.shape} and {v.shape}")
    B, H, S, D = q.shape
    T = k.shape[2]
    if k.shape != (B, H, T, D) or D not in (16, 32, 64, 128):
        raise ValueError(
            f"shapes {q.shape} and {k.shape} do not fit, or D is not 16, 32, 64 or 128"
        )
    if q.dtype not in (torch.float16, torch.bfloat16) or q.dtype != k.dtype or q.dtype != v.dtype:
        raise ValueError(f"q, k and v must be fp16 or bf16, got {q.dtype}, {k.dtype}, {v.dtype}")
    if any(x.numel() and x.stride(3) != 1 for x in (q, k, v)):
        raise ValueError("q, k and v must have unit stride along D")
    if causal and T < S:
        raise ValueError(f"a causal mask needs at least as many keys as queries, got {T} and {S}")
    if scale is None:
        scale = D**-0.5

    if T == 0:
        return torch.zeros((B, H, S, D), device=q.device, dtype=q.dtype)
    out = torch.empty((B, H, S, D), device=q.device, dtype=q.dtype)
    if out.numel() == 0:
        return out

    BLOCK_M, BLOCK_N, num_warps = 128, 64, 8

    card = torch.cuda.get_device_properties(q.device) if q.is_cuda else None
    shared_bytes = getattr(card, "shared_memory_per_block_optin", 0)
    needed_bytes = (BLOCK_M + 2 * 4 * BLOCK_N) * D * q.element_size()
    num_stages = 4 if needed_bytes <= shared_bytes else 2

    grid = (triton.cdiv(S, BLOCK_M), B * H)

    flash_attention_kernel[grid](
        q,
        k,
        v,
        out,
        q.stride(0),
        q.stride(1),
        q.stride(2),
        k.stride(0),
        k.stride(1),
        k.stride(2),
        v.stride(0),
        v.stride(1),
        v.stride(2),
        H,
        S,
        T,
        scale * LOG2_E,
        CAUSAL=causal,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        D=D,
        num_warps=num_warps,
        num_stages=num_stages,
    )
    return out
