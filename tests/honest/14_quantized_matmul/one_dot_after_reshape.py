"""All eight nibbles at once by a row of shifts, reshaped to one tile: one tl.dot a block. int64 offsets."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, w, s, y, M, N, K, group, BM: tl.constexpr, BN: tl.constexpr, BR: tl.constexpr):
    m = (tl.program_id(1) * BM + tl.arange(0, BM)[:, None]).to(tl.int64)
    n = (tl.program_id(0) * BN + tl.arange(0, BN)).to(tl.int64)
    shifts = 4 * tl.arange(0, 8)[None, :, None]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for r in range(0, tl.cdiv(K, 8), BR):
        rows = r + tl.arange(0, BR)
        inside = (rows[:, None] * 8 < K) & (n[None, :] < N)
        words = tl.load(w + rows[:, None] * N + n[None, :], mask=inside, other=0)
        words = words.to(tl.uint32, bitcast=True)
        numbers = (words[:, None, :] >> shifts.to(tl.uint32)) & 15
        scale = tl.load(s + (rows // (group // 8))[:, None] * N + n[None, :], mask=inside, other=0)
        tile = (numbers.to(tl.int32) - 8).to(tl.float16) * scale[:, None, :]
        tile = tl.reshape(tile, (BR * 8, BN))
        k = r * 8 + tl.arange(0, BR * 8)[None, :]
        left = tl.load(x + m * K + k, mask=(m < M) & (k < K), other=0)
        total += tl.dot(left, tile)
    tl.store(y + m * N + n[None, :], total, mask=(m < M) & (n[None, :] < N))


def quantized_matmul(a, packed, scales, group_size):
    """a @ ((q - 8) * scale), with 4-bit weights."""
    (M, K), N = a.shape, packed.shape[1]
    y = a.new_empty(M, N)
    grid = (triton.cdiv(N, 32), triton.cdiv(M, 32))
    kernel[grid](a, packed, scales, y, M, N, K, group_size, 32, 32, 4)
    return y
