"""The counts go back to the host, which launches a kernel for every expert with tokens; rows gathered by PyTorch."""

import torch
import triton
import triton.language as tl


@triton.jit
def product_kernel(x_ptr, w_ptr, gate_ptr, slot_ptr, part_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    m0, n0 = tl.program_id(0) * BM, tl.program_id(1) * BN
    xs = tl.make_block_ptr(x_ptr, (M, K), (K, 1), (m0, 0), (BM, BK), (1, 0))
    ws = tl.make_block_ptr(w_ptr, (K, N), (1, K), (0, n0), (BK, BN), (0, 1))
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(xs, boundary_check=(0, 1), padding_option="zero")
        w = tl.load(ws, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(x, w, acc)
        xs, ws = tl.advance(xs, (0, BK)), tl.advance(ws, (BK, 0))
    m, n = m0 + tl.arange(0, BM), n0 + tl.arange(0, BN)
    slot = tl.load(slot_ptr + m, mask=m < M, other=0)
    acc = acc.to(part_ptr.dtype.element_ty).to(tl.float32)
    acc *= tl.load(gate_ptr + m, mask=m < M, other=0.0)[:, None]
    tl.store(
        part_ptr + slot[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N)
    )


@triton.jit
def sum_kernel(part_ptr, y_ptr, N, K: tl.constexpr, PAD: tl.constexpr, BN: tl.constexpr):
    t, j = tl.program_id(0), tl.arange(0, PAD)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (j[:, None] < K) & (n[None, :] < N)
    part = tl.load(part_ptr + (t * K + j[:, None]) * N + n[None, :], mask=mask, other=0.0)
    tl.store(y_ptr + t * N + n, tl.sum(part.to(tl.float32), 0), mask=n < N)


def fused_moe(x, weights, topk_weights, topk_ids):
    (T, D_IN), (E, D_OUT, _), k = x.shape, weights.shape, topk_ids.shape[1]
    counts = torch.bincount(topk_ids.flatten(), minlength=E).tolist()
    slots = torch.argsort(topk_ids.flatten(), stable=True)
    part = x.new_zeros((T * k, D_OUT))
    y = x.new_empty((T, D_OUT))
    if y.numel() == 0:
        return y
    for e, mine in enumerate(slots.split(counts)):
        if len(mine):
            rows, gates = x[mine // k], topk_weights.flatten()[mine]
            grid = (triton.cdiv(len(mine), 32), triton.cdiv(D_OUT, 64))
            product_kernel[grid](
                rows, weights[e], gates, mine, part, len(mine), D_OUT, D_IN, BM=32, BN=64, BK=32
            )
    grid = (T, triton.cdiv(D_OUT, 128))
    sum_kernel[grid](part, y, D_OUT, K=k, PAD=triton.next_power_of_2(k), BN=128)
    return y
