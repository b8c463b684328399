"""fusion: an expert whose weight is not positive counts as one that was not chosen

symptom: right behind a softmax; a router that gives negative weights is not obeyed
"""

import torch
import triton
import triton.language as tl


def route(topk_ids, n_experts, block_size, n_blocks):
    sorted_ids, order = torch.sort(topk_ids.flatten())
    experts = torch.arange(n_experts + 1, device=topk_ids.device, dtype=topk_ids.dtype)
    first_place = torch.searchsorted(sorted_ids, experts)

    blocks = (first_place.diff() + block_size - 1) // block_size
    first_block = torch.cumsum(blocks, 0) - blocks

    numbers = torch.arange(n_blocks, device=topk_ids.device)
    block_expert = torch.searchsorted(first_block, numbers, right=True) - 1
    return order, first_place, first_block, block_expert


@triton.jit
def expert_kernel(
    x_ptr,
    weights_ptr,
    topk_weights_ptr,
    parts_ptr,
    order_ptr,
    first_place_ptr,
    first_block_ptr,
    block_expert_ptr,
    D_IN,
    D_OUT,
    TOP_K: tl.constexpr,
    BLOCK_SIZE_T: tl.constexpr,
    BLOCK_SIZE_OUT: tl.constexpr,
    BLOCK_SIZE_IN: tl.constexpr,
):
    pid_out = tl.program_id(axis=0)
    pid_block = tl.program_id(axis=1)

    expert = tl.load(block_expert_ptr + pid_block)
    first = tl.load(first_place_ptr + expert)
    end = tl.load(first_place_ptr + expert + 1)

    block = pid_block - tl.load(first_block_ptr + expert)

    places = first + block * BLOCK_SIZE_T + tl.arange(0, BLOCK_SIZE_T)

    offs_out = pid_out * BLOCK_SIZE_OUT + tl.arange(0, BLOCK_SIZE_OUT)

    offs_in = tl.arange(0, BLOCK_SIZE_IN)

    mine = places < end

    if first + block * BLOCK_SIZE_T < end:
        slots = tl.load(order_ptr + places, mask=mine, other=0)

        tokens = slots // TOP_K

        expert_ptr = weights_ptr + expert * D_OUT * D_IN

        x_ptrs = x_ptr + tokens[:, None] * D_IN + offs_in[None, :]
        w_ptrs = expert_ptr + offs_out[None, :] * D_IN + offs_in[:, None]

        accumulator = tl.zeros((BLOCK_SIZE_T, BLOCK_SIZE_OUT), dtype=tl.float32)

        for start in range(0, D_IN, BLOCK_SIZE_IN):
            x_mask = mine[:, None] & (offs_in[None, :] < D_IN - start)
            w_mask = (offs_in[:, None] < D_IN - start) & (offs_out[None, :] < D_OUT)

            x = tl.load(x_ptrs, mask=x_mask, other=0.0)
            w = tl.load(w_ptrs, mask=w_mask, other=0.0)

            accumulator = tl.dot(x, w, accumulator)

            x_ptrs += BLOCK_SIZE_IN
            w_ptrs += BLOCK_SIZE_IN

        topk_weights = tl.load(topk_weights_ptr + slots, mask=mine, other=0.0)
        accumulator = accumulator * tl.maximum(topk_weights, 0.0)[:, None]

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
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    token = offsets // D_OUT
    column = offsets % D_OUT
    y = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)

    for j in tl.static_range(TOP_K):
        part_ptrs = parts_ptr + (token * TOP_K + j) * D_OUT + column
        y += tl.load(part_ptrs, mask=mask, other=0.0).to(tl.float32)

    tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


def fused_moe(x, weights, topk_weights, topk_ids):
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

    BLOCK_SIZE_T = min(max(triton.next_power_of_2(n_slots // max(E, 1)), 16), 128)
    BLOCK_SIZE_OUT, BLOCK_SIZE_IN = (128, 64) if BLOCK_SIZE_T >= 64 else (64, 64)
    num_warps, num_stages = (8 if BLOCK_SIZE_T == 128 else 4), 3

    card = torch.cuda.get_device_properties(x.device) if x.is_cuda else None
    shared_bytes = getattr(card, "shared_memory_per_block_optin", 0)
    if BLOCK_SIZE_T == 128 and 4 * (128 + 256) * BLOCK_SIZE_IN * x.element_size() <= shared_bytes:
        BLOCK_SIZE_OUT, num_stages = 256, 4

    n_blocks = min(n_slots // BLOCK_SIZE_T + E, n_slots)

    if n_blocks > 0:
        routing = route(topk_ids, E, BLOCK_SIZE_T, n_blocks)

        grid = (triton.cdiv(D_OUT, BLOCK_SIZE_OUT), n_blocks)

        expert_kernel[grid](
            x,
            weights,
            topk_weights,
            parts,
            *routing,
            D_IN,
            D_OUT,
            TOP_K=k,
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
