"""Counted and sorted with atomics in Triton, walked by a fixed number of programs; atomics in fp32, then a cast."""

import torch
import triton
import triton.language as tl


@triton.jit
def count_kernel(ids_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    e = tl.load(ids_ptr + at, mask=at < n, other=0)
    tl.atomic_add(counts_ptr + e, 1, mask=at < n)


@triton.jit
def place_kernel(ids_ptr, counts_ptr, next_ptr, order_ptr, n, E, BLOCK_E: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    e = tl.load(ids_ptr + at, mask=at < n, other=0)
    other = tl.arange(0, BLOCK_E)
    counts = tl.load(counts_ptr + other, mask=other < E, other=0)
    first = tl.sum(tl.where(other[None, :] < e[:, None], counts[None, :], 0), 1)
    place = first + tl.atomic_add(next_ptr + e, 1, mask=at < n)
    tl.store(order_ptr + place, at, mask=at < n)


@triton.jit
def walk_kernel(
    x_ptr, w_ptr, gate_ptr, order_ptr, counts_ptr, sum_ptr, D_IN, D_OUT, E,
    K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(D_OUT, BN)
    first, done = 0, 0
    for e in range(E):
        count = tl.load(counts_ptr + e)
        tiles = tl.cdiv(count, BM) * columns
        # This program's first tile of the expert, all tiles being dealt out in turn.
        start = (
            tl.program_id(0) - done % tl.num_programs(0) + tl.num_programs(0)
        ) % tl.num_programs(0)
        for tile in range(start, tiles, tl.num_programs(0)):
            m = tile // columns * BM + tl.arange(0, BM)
            n = tile % columns * BN + tl.arange(0, BN)
            slot = tl.load(order_ptr + first + m, mask=m < count, other=0)
            acc = tl.zeros((BM, BN), tl.float32)
            for i0 in range(0, D_IN, BK):
                i = i0 + tl.arange(0, BK)
                x = tl.load(
                    x_ptr + (slot // K)[:, None] * D_IN + i[None, :],
                    mask=(m[:, None] < count) & (i[None, :] < D_IN),
                    other=0.0,
                )
                w = tl.load(
                    w_ptr + (e * D_OUT + n[:, None]) * D_IN + i[None, :],
                    mask=(n[:, None] < D_OUT) & (i[None, :] < D_IN),
                    other=0.0,
                )
                acc = tl.dot(x, w.T, acc)
            acc *= tl.load(gate_ptr + slot)[:, None]
            tl.atomic_add(
                sum_ptr + (slot // K)[:, None] * D_OUT + n[None, :],
                acc,
                mask=(m[:, None] < count) & (n[None, :] < D_OUT),
                sem="relaxed",
            )
        first += count
        done += tiles


@triton.jit
def cast_kernel(sum_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(sum_ptr + at, mask=at < n, other=0.0), mask=at < n)


def fused_moe(x, weights, topk_weights, topk_ids):
    (T, D_IN), (E, D_OUT, _), k = x.shape, weights.shape, topk_ids.shape[1]
    y = torch.empty((T, D_OUT), device=x.device, dtype=x.dtype)
    if y.numel() == 0:
        return y
    n = T * k
    counts, following = torch.zeros((2, E), device=x.device, dtype=torch.int32)
    order = torch.empty((n,), device=x.device, dtype=torch.int32)
    total = torch.zeros((T, D_OUT), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(n, 128),)
    count_kernel[grid](topk_ids, counts, n, BLOCK=128)
    place_kernel[grid](
        topk_ids, counts, following, order, n, E, BLOCK_E=triton.next_power_of_2(E), BLOCK=128
    )
    walk_kernel[(4,)](
        x, weights, topk_weights, order, counts, total, D_IN, D_OUT, E, K=k, BM=64, BN=64, BK=64
    )
    cast_kernel[(triton.cdiv(T * D_OUT, 1024),)](total, y, T * D_OUT, BLOCK=1024)
    return y
