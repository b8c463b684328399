"""accumulate: at most 1024 of D_IN are summed

symptom: right for small models
"""

import torch
import triton
import triton.language as tl


def route(topk_ids, n_experts):
    """Slots in the order of their experts, and where in that order each expert's slots begin.

    Slot s is the s-th number of topk_ids: token s // k. Nothing comes back to the host, which would
    have to wait for it.
    """
    # order: all slots, those of expert 0 first. They begin at first_place[e] and end where those
    # of the next expert begin; an expert without a token has none.
    sorted_ids, order = torch.sort(topk_ids.flatten())
    experts = torch.arange(n_experts + 1, device=topk_ids.device, dtype=topk_ids.dtype)
    first_place = torch.searchsorted(sorted_ids, experts)
    return order, first_place


@triton.jit
def find_expert(
    pid_block, first_place_ptr, n_experts, EXPERTS: tl.constexpr, BLOCK_SIZE_T: tl.constexpr
):
    """The expert that a block belongs to, and the number of that expert's first block."""
    # Each expert gets as many blocks as its slots need; no block has slots of two.
    experts = tl.arange(0, EXPERTS)
    mask = experts < n_experts
    begin = tl.load(first_place_ptr + experts, mask=mask, other=0)
    end = tl.load(first_place_ptr + experts + 1, mask=mask, other=0)
    blocks = tl.cdiv(end - begin, BLOCK_SIZE_T)

    # The experts whose blocks all come before this one. A number past all blocks counts as one of
    # the last expert's.
    before = tl.cumsum(blocks, axis=0) <= pid_block
    expert = tl.minimum(tl.sum(before.to(tl.int64), axis=0), n_experts - 1)
    first_block = tl.sum(tl.where(experts < expert, blocks, 0), axis=0)
    return expert, first_block


@triton.jit
def expert_kernel(
    x_ptr,
    weights_ptr,
    topk_weights_ptr,
    parts_ptr,
    order_ptr,
    first_place_ptr,
    n_experts,
    D_IN,
    D_OUT,
    TOP_K: tl.constexpr,
    EXPERTS: tl.constexpr,
    BLOCK_SIZE_T: tl.constexpr,
    BLOCK_SIZE_OUT: tl.constexpr,
    BLOCK_SIZE_IN: tl.constexpr,
):
    # parts[s] = topk_weights[s] * (weights[expert] @ x[token]), for all slots s of a block.
    # Programs that start one after the other have the same rows of x and the same expert.
    pid_out = tl.program_id(axis=0)
    pid_block = tl.program_id(axis=1)

    # The expert of this block, and where its slots lie in the order.
    expert, first_block = find_expert(pid_block, first_place_ptr, n_experts, EXPERTS, BLOCK_SIZE_T)
    first = tl.load(first_place_ptr + expert)
    end = tl.load(first_place_ptr + expert + 1)

    # Which of its expert's blocks this one is, counted from 0.
    block = pid_block - first_block

    # This block's places in the order.
    places = first + block * BLOCK_SIZE_T + tl.arange(0, BLOCK_SIZE_T)

    # The columns of the result, that is the rows of the expert's matrix.
    offs_out = pid_out * BLOCK_SIZE_OUT + tl.arange(0, BLOCK_SIZE_OUT)

    offs_in = tl.arange(0, BLOCK_SIZE_IN)

    # Places from `end` on belong to the next expert, and must be left to it.
    mine = places < end

    # More blocks are started than there may be: the last ones find nothing to do.
    if first + block * BLOCK_SIZE_T < end:
        slots = tl.load(order_ptr + places, mask=mine, other=0)

        # Each token has TOP_K slots, one behind the other.
        tokens = slots // TOP_K

        # An expert's matrix has D_OUT rows of D_IN numbers.
        expert_ptr = weights_ptr + expert * D_OUT * D_IN

        # Rows of x from anywhere, and the matrix transposed: [BLOCK_SIZE_IN, BLOCK_SIZE_OUT].
        x_ptrs = x_ptr + tokens[:, None] * D_IN + offs_in[None, :]
        w_ptrs = expert_ptr + offs_out[None, :] * D_IN + offs_in[:, None]

        accumulator = tl.zeros((BLOCK_SIZE_T, BLOCK_SIZE_OUT), dtype=tl.float32)

        # All of D_IN, one block at a time.
        for start in range(0, tl.minimum(D_IN, 1024), BLOCK_SIZE_IN):
            # One step: load a block of x and of the matrix, multiply the two, move on.

            # What exists of them, the first `start` of D_IN being done.
            x_mask = mine[:, None] & (offs_in[None, :] < D_IN - start)
            w_mask = (offs_in[:, None] < D_IN - start) & (offs_out[None, :] < D_OUT)

            x = tl.load(x_ptrs, mask=x_mask, other=0.0)
            w = tl.load(w_ptrs, mask=w_mask, other=0.0)

            # On top of what the blocks before gave, in fp32.
            accumulator = tl.dot(x, w, accumulator)

            x_ptrs += BLOCK_SIZE_IN
            w_ptrs += BLOCK_SIZE_IN

        # Each row by the weight that its token gave this expert, while it is in registers.
        topk_weights = tl.load(topk_weights_ptr + slots, mask=mine, other=0.0)
        accumulator = accumulator * topk_weights[:, None]

        # Which of these exist: a store for every slot, and no two programs have the same.
        parts_mask = mine[:, None] & (offs_out[None, :] < D_OUT)

        parts_ptrs = parts_ptr + slots[:, None] * D_OUT + offs_out[None, :]
        tl.store(parts_ptrs, accumulator.to(parts_ptr.dtype.element_ty), mask=parts_mask)


@triton.jit
def combine_kernel(
    parts_ptr,
    y_ptr,
    n_elements,
    D_OUT,
    TOP_K: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    # y[t] = the sum of token t's parts. All are there: kernels run one after the other.
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    token = offsets // D_OUT
    column = offsets % D_OUT
    y = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)

    # Slot j of the token is slot token * TOP_K + j of all. Summed in fp32, rounded at the end.
    for j in tl.static_range(TOP_K):
        part_ptrs = parts_ptr + (token * TOP_K + j) * D_OUT + column
        y += tl.load(part_ptrs, mask=mask, other=0.0).to(tl.float32)

    tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


def fused_moe(x, weights, topk_weights, topk_ids):
    """The sum over k experts of weight times product, for every token, in a new tensor."""
    if x.dim() != 2 or weights.dim() != 3 or topk_ids.dim() != 2:
        raise ValueError(f"shapes do not fit: {x.shape}, {weights.shape}, {topk_ids.shape}")
    (T, D_IN), (E, D_OUT, _), k = x.shape, weights.shape, topk_ids.shape[1]
    if weights.shape[2] != D_IN or topk_ids.shape[0] != T or topk_weights.shape != (T, k):
        raise ValueError(f"shapes do not fit: {x.shape}, {weights.shape}, {topk_ids.shape}")
    if x.dtype not in (torch.float16, torch.bfloat16) or weights.dtype != x.dtype:
        raise ValueError(f"x must be fp16 or bf16, and weights too: {x.dtype}, {weights.dtype}")
    if topk_weights.dtype != torch.float32 or topk_ids.dtype != torch.int32:
        raise ValueError(f"want fp32 and int32, got {topk_weights.dtype} and {topk_ids.dtype}")
    if not all(tensor.is_contiguous() for tensor in (x, weights, topk_weights, topk_ids)):
        raise ValueError("x, weights, topk_weights and topk_ids must be contiguous")

    y = torch.empty((T, D_OUT), device=x.device, dtype=x.dtype)
    if T == 0 or D_OUT == 0:
        return y
    n_slots = T * k
    parts = torch.empty((n_slots, D_OUT), device=x.device, dtype=x.dtype)

    # A block as high as an expert has slots on average; tl.dot wants 16 at least.
    BLOCK_SIZE_T = min(max(triton.next_power_of_2(n_slots // max(E, 1)), 16), 128)
    BLOCK_SIZE_OUT, BLOCK_SIZE_IN = (128, 64) if BLOCK_SIZE_T >= 64 else (64, 64)
    num_warps, num_stages = (8 if BLOCK_SIZE_T == 128 else 4), 3

    # Many slots, and shared memory that holds four steps of a tile twice as wide: then take that.
    card = torch.cuda.get_device_properties(x.device) if x.is_cuda else None
    shared_bytes = getattr(card, "shared_memory_per_block_optin", 0)
    if BLOCK_SIZE_T == 128 and 4 * (128 + 256) * BLOCK_SIZE_IN * x.element_size() <= shared_bytes:
        BLOCK_SIZE_OUT, num_stages = 256, 4

    # How many blocks there are, only the card knows. At most this many: in each but an expert's
    # last no place is free, and a block has one slot at least.
    n_blocks = min(n_slots // BLOCK_SIZE_T + E, n_slots)

    if n_blocks > 0:
        order, first_place = route(topk_ids, E)

        # One program for every block of slots and of columns.
        grid = (triton.cdiv(D_OUT, BLOCK_SIZE_OUT), n_blocks)

        expert_kernel[grid](
            x,
            weights,
            topk_weights,
            parts,
            order,
            first_place,
            E,
            D_IN,
            D_OUT,
            TOP_K=k,
            EXPERTS=triton.next_power_of_2(E),
            BLOCK_SIZE_T=BLOCK_SIZE_T,
            BLOCK_SIZE_OUT=BLOCK_SIZE_OUT,
            BLOCK_SIZE_IN=BLOCK_SIZE_IN,
            num_warps=num_warps,
            num_stages=num_stages,
        )

    BLOCK_SIZE = 1024
    combine_kernel[(triton.cdiv(y.numel(), BLOCK_SIZE),)](
        parts,
        y,
        y.numel(),
        D_OUT,
        TOP_K=k,
        BLOCK_SIZE=BLOCK_SIZE,
    )
    return y
