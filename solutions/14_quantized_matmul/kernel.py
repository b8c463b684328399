"""Kata 14, quantized_matmul: a product with 4-bit weights that are unpacked on the chip.

    quantized_matmul(a, packed, scales, group_size) -> a @ ((q - 8) * scale)

a is [M, K] in fp16. packed is [K / 8, N] in int32: bits 4i to 4i + 3 of packed[r, n] hold q, the
weight of row 8r + i and column n, as a number from 0 to 15 that stands for q - 8. scales is
[ceil(K / group_size), N] in fp16: a number for every group_size rows of a column. K and group_size
are multiples of 8; the last group may be short. All are contiguous. The result is a new [M, N]
tensor in fp16. Products are summed in fp32, on the tensor cores; (q - 8) * scale may be rounded to
fp16 before them. Any size may be 0; K = 0 gives zeros.

Type `nox -s check-14` to see how far the kernel is; README.md of this kata is the lesson.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def deal(a, BLOCK_M: tl.constexpr, BLOCK_R: tl.constexpr):
    """The columns of a tile, dealt out like cards: part i gets columns i, 8 + i, 16 + i, ..."""
    even, odd = tl.split(tl.reshape(a, (BLOCK_M, 4 * BLOCK_R, 2)))
    a04, a26 = tl.split(tl.reshape(even, (BLOCK_M, 2 * BLOCK_R, 2)))
    a15, a37 = tl.split(tl.reshape(odd, (BLOCK_M, 2 * BLOCK_R, 2)))
    a0, a4 = tl.split(tl.reshape(a04, (BLOCK_M, BLOCK_R, 2)))
    a1, a5 = tl.split(tl.reshape(a15, (BLOCK_M, BLOCK_R, 2)))
    a2, a6 = tl.split(tl.reshape(a26, (BLOCK_M, BLOCK_R, 2)))
    a3, a7 = tl.split(tl.reshape(a37, (BLOCK_M, BLOCK_R, 2)))
    return a0, a1, a2, a3, a4, a5, a6, a7


@triton.jit
def unpack(packed, NIBBLE: tl.constexpr):
    """The weights of one nibble, q - 8, in fp16."""
    # >> drags the sign along, so the mask comes after it. (q - 8).to(tl.float16) would do as well,
    # but takes more instructions: 0x6400 are the bits of 1024 in fp16, where the last bit counts 1.
    # With q put there they are 1024 + q. And an int32 has room for two fp16: nibbles i and i + 4
    # lie 16 bits apart and are made together, once, as the compiler sees.
    pair = ((packed >> (4 * (NIBBLE % 4))) & 0x000F000F) | 0x64006400
    half = pair if NIBBLE < 4 else pair >> 16
    return half.to(tl.int16).to(tl.float16, bitcast=True) - 1032.0


@triton.jit
def quantized_matmul_kernel(
    a_ptr,
    packed_ptr,
    scales_ptr,
    out_ptr,
    M,
    N,
    K,
    group_size,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_R: tl.constexpr,
    SPLIT_K: tl.constexpr,
    ONE_GROUP: tl.constexpr,
):
    # A tile of the result, of which this program sums one of SPLIT_K shares of K.
    pid_m = tl.program_id(axis=0)
    pid_n = tl.program_id(axis=1)
    pid_k = tl.program_id(axis=2)

    # As in kata 12: the rows of a and the columns of packed that meet in this tile.
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)

    # Rows of packed, each of which is eight of K. A share is a whole number of blocks.
    share = tl.cdiv(tl.cdiv(K // 8, BLOCK_R), SPLIT_K) * BLOCK_R
    first = pid_k * share
    last = min(first + share, K // 8)

    # The tile's transpose, [columns, rows] of the result: of the first operand of tl.dot the tensor
    # cores take 16 rows at a time, of the second 8 columns, and a may have few rows.
    accumulator = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)

    # The share's blocks of BLOCK_R packed rows; the last one may be part full.
    for start in range(first, last, BLOCK_R):
        # One step: a block of packed, the part of a and the scales that belong to it.

        rows = start + tl.arange(0, BLOCK_R)
        offs_k = 8 * start + tl.arange(0, 8 * BLOCK_R)

        # Rows of packed end at `last`, which is eight times as far along the columns of a.
        a_mask = (offs_m[:, None] < M) & (offs_k[None, :] < 8 * last)
        row_mask = rows < last
        col_mask = offs_n < N

        # Lanes outside hold 0 in packed, which stands for -8; the 0 in a and scales is what counts.
        a = tl.load(a_ptr + offs_m[:, None] * K + offs_k[None, :], mask=a_mask, other=0.0)
        packed_ptrs = packed_ptr + rows[None, :] * N + offs_n[:, None]
        packed_mask = row_mask[None, :] & col_mask[:, None]
        packed = tl.load(packed_ptrs, mask=packed_mask, other=0)

        # group_size is a multiple of 8, so all eight weights of an int32 are of one group.
        first_group = 8 * start // group_size
        groups = 8 * rows // group_size

        # Where a block lies within a group, one row of scales serves all of it.
        if ONE_GROUP:
            scales_ptrs = scales_ptr + first_group * N + offs_n
            scale = tl.load(scales_ptrs, mask=col_mask, other=0.0)[:, None]
        else:
            scales_ptrs = scales_ptr + groups[None, :] * N + offs_n[:, None]
            scale = tl.load(scales_ptrs, mask=packed_mask, other=0.0)

        # One tl.dot for each of the eight nibbles: nibble i of row r meets column 8r + i of a.
        parts = deal(a, BLOCK_M, BLOCK_R)
        for i in tl.static_range(8):
            # In fp16, as tensor cores want it: one rounding.
            weight = unpack(packed, i) * scale

            # The third argument is what the product is added to, in fp32.
            accumulator = tl.dot(weight, tl.trans(parts[i]), accumulator)

    # [SPLIT_K, M, N]: with one share the result itself, with several their sums, in fp32.
    out_ptrs = out_ptr + (pid_k * M + offs_m[None, :]) * N + offs_n[:, None]

    # Only the part of the tile that lies inside the result is written.
    out_mask = (offs_m[None, :] < M) & (offs_n[:, None] < N)

    tl.store(out_ptrs, accumulator.to(out_ptr.dtype.element_ty), mask=out_mask)


@triton.jit
def add_shares_kernel(
    shares_ptr, c_ptr, n_elements, SPLIT_K: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    # The sums of all shares of K, added up and rounded: this is given.
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    total = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for share in tl.static_range(SPLIT_K):
        total += tl.load(shares_ptr + share * n_elements + offsets, mask=mask, other=0.0)
    tl.store(c_ptr + offsets, total.to(c_ptr.dtype.element_ty), mask=mask)


def quantized_matmul(a, packed, scales, group_size):
    """a @ ((q - 8) * scale), in a new contiguous fp16 tensor."""
    if a.dim() != 2 or packed.dim() != 2 or a.shape[1] != 8 * packed.shape[0]:
        raise ValueError(f"a and packed must fit, got shapes {a.shape} and {packed.shape}")
    if (a.dtype, packed.dtype, scales.dtype) != (torch.float16, torch.int32, torch.float16):
        raise ValueError("a and scales must be fp16, and packed int32")
    if group_size <= 0 or group_size % 8:
        raise ValueError(f"group_size must be a multiple of 8, got {group_size}")
    if scales.shape != (triton.cdiv(a.shape[1], group_size), packed.shape[1]):
        raise ValueError(f"scales must have a row for every group, got shape {scales.shape}")
    if not (a.is_contiguous() and packed.is_contiguous() and scales.is_contiguous()):
        raise ValueError("a, packed and scales must be contiguous")

    M, K = a.shape
    N = packed.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    if M == 0 or N == 0:
        return c

    # A block of K is 128: 16 rows of packed, the least that tl.dot takes. With few rows of a, what
    # counts is how much of packed is on its way at once: small programs, and many. With many rows,
    # a weight that was unpacked should meet as many of them as there are registers for.
    least = 16 if torch.version.hip else 8  # AMD's matrix cores take 16 columns at a time
    BLOCK_M, BLOCK_R = min(max(triton.next_power_of_2(M), least), 128), 16
    BLOCK_N, num_warps = (128, 2) if BLOCK_M <= 16 else (256, 4 if BLOCK_M <= 64 else 8)
    ONE_GROUP = group_size % (8 * BLOCK_R) == 0

    # A few rows of a make few tiles, and each of them is a long walk: several programs share it,
    # until the card is full or the shares are down to 1024 of K.
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    SPLIT_K = 1
    while tiles * SPLIT_K * num_warps < 2048 and K // SPLIT_K >= 2048:
        SPLIT_K *= 2
    out = c
    if SPLIT_K > 1:
        out = torch.empty((SPLIT_K, M, N), device=a.device, dtype=torch.float32)

    # One program for every tile and every share of K.
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N), SPLIT_K)

    quantized_matmul_kernel[grid](
        a,
        packed,
        scales,
        out,
        M,
        N,
        K,
        group_size,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_R=BLOCK_R,
        SPLIT_K=SPLIT_K,
        ONE_GROUP=ONE_GROUP,
        num_warps=num_warps,
        num_stages=3 if ONE_GROUP else 2,  # a scale for every int32 is much to hold
    )
    if SPLIT_K > 1:
        add_grid = (triton.cdiv(M * N, 512),)
        add_shares_kernel[add_grid](out, c, M * N, SPLIT_K=SPLIT_K, BLOCK_SIZE=512)
    return c
