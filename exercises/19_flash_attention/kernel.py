"""Kata 19, flash_attention: attention without a matrix of scores in memory.

    flash_attention(q, k, v, causal=False, scale=None) -> softmax(scale * q @ k.T) @ v, head by head

q is [B, H, S, D], k and v are [B, H, T, D], all fp16 or all bf16, with unit stride along D and any
other strides. D is 16, 32, 64 or 128. scale is positive, D**-0.5 by default. If causal, query i
sees the keys j <= i + T - S, and T >= S. The result is a new contiguous [B, H, S, D] tensor of q's
dtype. Both products run on the tensor cores and are summed in fp32, and so is all in between; the
probabilities may be rounded to q's dtype for the second product. Sizes may be 0; T = 0 gives zeros.

Type `nox -s check-19` to see how far the kernel is; README.md of this kata is the lesson.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

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
    k_desc,
    v_desc,
    batch,
    head,
    start,
    stop,
    offs_m,
    S,
    T,
    log2_scale,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    DESCRIBED: tl.constexpr,
    BLOCK_N: tl.constexpr,
    D: tl.constexpr,
):
    # The walk along the keys from start to stop. It is kata 8's loop for BLOCK_M rows at once; what
    # it sums up beside the exponentials is their product with the rows of v.
    offs_d = tl.arange(0, D)
    for first in range(start, stop, BLOCK_N):
        offs_n = first + tl.arange(0, BLOCK_N)

        # TODO(mask): which of these keys exist, and which of them each row sees: all that exist, or
        # if CAUSAL none later than itself, where the last row of q stands beside the last key.
        exists = offs_n >= 0
        seen = exists[None, :]

        # k comes as [D, BLOCK_N], transposed by its addresses. Where every row sees every key,
        # nothing is masked; and where a descriptor tells how the tensor lies in memory, a whole
        # block is fetched by its place in it, with no addresses at all.
        k_ptrs = k_ptr + offs_n[None, :] * row_k + offs_d[:, None]
        v_ptrs = v_ptr + offs_n[:, None] * row_v + offs_d[None, :]
        if MASKED:
            k = tl.load(k_ptrs, mask=exists[None, :], other=0.0)
            v = tl.load(v_ptrs, mask=exists[:, None], other=0.0)
        elif DESCRIBED:
            k = k_desc.load([batch, head, first, 0]).reshape(BLOCK_N, D).T
            v = v_desc.load([batch, head, first, 0]).reshape(BLOCK_N, D)
        else:
            k = tl.load(k_ptrs)
            v = tl.load(v_ptrs)

        # TODO(values): a score for every row and key, in fp32, not yet scaled.
        scores = tl.zeros((offs_m.shape[0], BLOCK_N), dtype=tl.float32)

        if MASKED:
            scores = tl.where(seen, scores, -float("inf"))

        # TODO(values): the largest score of each row in this block, times log2_scale.
        block_max = running_sum

        # TODO(accumulate): the largest of this block and all before it.
        new_max = block_max

        # exp(scale * score - max). The factor log2(e) hides in log2_scale, for exp2 is what the
        # hardware has; multiplication and subtraction are one instruction.
        weights = tl.exp2(scores * log2_scale - new_max[:, None])

        # TODO(values): this block's share of each row's sum.
        block_sum = running_sum + 1.0

        # TODO(accumulate): what both sums hold so far was taken with the old maximum subtracted.
        # Which factor makes them what they would be with the new one?
        rescale = tl.zeros_like(new_max) + 1.0

        running_sum = running_sum * rescale + block_sum
        running_max = new_max

        # The weights enter the tensor cores as fp16 or bf16; the sum stays fp32.
        acc = tl.dot(weights.to(v.dtype), v, acc * rescale[:, None])

    return acc, running_max, running_sum


@triton.jit
def flash_attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    k_desc,
    v_desc,
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
    DESCRIBED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    D: tl.constexpr,
):
    # One program owns BLOCK_M rows of one head; the grid's second axis counts the heads of all
    # batches.
    pid_head = tl.program_id(axis=1)

    # TODO(offsets): the number of this program's block of rows; batch and head (there are H heads);
    # its rows. Any order of the blocks is right; if causal, it is faster to begin with the last.
    pid_m = 0
    batch = 0
    head = 0
    offs_m = tl.arange(0, BLOCK_M)

    # Where this head's matrices begin, and how far apart the rows of each lie.
    q_ptr += batch * stride_qb + head * stride_qh
    k_ptr += batch * stride_kb + head * stride_kh
    v_ptr += batch * stride_vb + head * stride_vh
    row_q, row_k, row_v = stride_qs, stride_kt, stride_vt

    # TODO(mask): rows past the end of q are not read, and not stored below.
    row_mask = (offs_m >= 0)[:, None]

    offs_d = tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + offs_m[:, None] * row_q + offs_d, mask=row_mask, other=0.0)

    # Every row carries a maximum, a sum, and a sum of rows of v, from block to block.
    running_max = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    running_sum = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)

    # TODO(accumulate): up to which key the walk goes: the last one, or if CAUSAL the last that any
    # of the rows sees. As it stands, only the first block is seen.
    stop = tl.minimum(T, BLOCK_N)

    # Whole blocks that all rows see come first, and without masks. Next come those that lie on the
    # diagonal or hang over the end.
    seen_by_all = stop
    if CAUSAL:
        seen_by_all = tl.minimum(stop, pid_m * BLOCK_M + T - S + 1)
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
        k_desc,
        v_desc,
        batch,
        head,
        0,
        unmasked,
        offs_m,
        S,
        T,
        log2_scale,
        CAUSAL=CAUSAL,
        MASKED=False,
        DESCRIBED=DESCRIBED,
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
        k_desc,
        v_desc,
        batch,
        head,
        unmasked,
        stop,
        offs_m,
        S,
        T,
        log2_scale,
        CAUSAL=CAUSAL,
        MASKED=True,
        DESCRIBED=DESCRIBED,
        BLOCK_N=BLOCK_N,
        D=D,
    )

    # The division waited until here: once for a row, not once for a key.
    out = acc / running_sum[:, None]

    # The result is contiguous: [B, H, S, D].
    out_ptrs = out_ptr + ((batch * H + head) * S + offs_m[:, None]) * D + offs_d
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=row_mask)


def flash_attention(q, k, v, causal=False, scale=None):
    """softmax(scale * q @ k.T) @ v for every head, in a new contiguous tensor like q."""
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

    # 128 rows share what is loaded of k and v.
    BLOCK_M, BLOCK_N = 128, 64

    # From Hopper on (compute capability 9) chips fetch whole blocks themselves if they are told once
    # how a tensor lies in memory: its start and its strides in multiples of 16 bytes.
    card = torch.cuda.get_device_properties(q.device) if q.is_cuda else None
    aligned = all(
        x.data_ptr() % 16 == 0
        and all(step > 0 and step * x.element_size() % 16 == 0 for step in x.stride()[:3])
        for x in (k, v)
    )
    described = aligned and getattr(card, "major", 9) >= 9

    if described:
        block = [1, 1, BLOCK_N, D]
        k_desc, v_desc = (TensorDescriptor(x, x.shape, x.stride(), block) for x in (k, v))
        # Four warps and two blocks of k and v leave room for a second program beside this one: while
        # one waits for its exponentials, the other has the tensor cores.
        num_warps, num_stages = 4, 2
    else:
        k_desc = v_desc = None
        # Eight warps: the sums take 64 registers of each thread, the scores 32 more. Blocks of k and
        # v are on their way while others are worked on: four of each where shared memory holds them
        # beside q, otherwise two.
        shared_bytes = getattr(card, "shared_memory_per_block_optin", 0)
        needed_bytes = (BLOCK_M + 2 * 4 * BLOCK_N) * D * q.element_size()
        num_warps, num_stages = 8, (4 if needed_bytes <= shared_bytes else 2)

    # TODO(grid): a tuple with the number of blocks of rows in a head, and the number of heads.
    grid = (1, 1)

    flash_attention_kernel[grid](
        q,
        k,
        v,
        k_desc,
        v_desc,
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
        DESCRIBED=described,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        D=D,
        num_warps=num_warps,
        num_stages=num_stages,
    )
    return out
