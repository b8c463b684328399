"""Slots padded to whole blocks with a number that none has, blocks in groups; parts in fp32, weighted when summed."""

import torch
import triton
import triton.language as tl


def align(topk_ids, block_size, n_experts):
    ids = topk_ids.reshape(-1).long()
    counts = torch.bincount(ids, minlength=n_experts)
    padded = torch.div(counts + block_size - 1, block_size, rounding_mode="floor") * block_size
    ends = padded.cumsum(0)
    sorted_ids, order = ids.sort(stable=True)
    starts = counts.cumsum(0) - counts
    at = torch.arange(ids.numel(), device=ids.device) - starts[sorted_ids]
    longest = ids.numel() + n_experts * (block_size - 1)
    longest = triton.cdiv(longest, block_size) * block_size
    slots = torch.full((longest,), ids.numel(), dtype=torch.int32, device=ids.device)
    slots[(ends - padded)[sorted_ids] + at] = order.int()
    blocks = torch.arange(longest // block_size, device=ids.device) * block_size
    expert_ids = torch.bucketize(blocks, ends, right=True).int()
    return slots, expert_ids, ends[-1:].int()


@triton.jit
def moe_kernel(
    a_ptr, b_ptr, c_ptr, sorted_ids_ptr, expert_ids_ptr, n_padded_ptr, N, K, EM, n_valid,
    stride_am, stride_be, stride_bn, stride_cm,
    top_k: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    num_pid_m = tl.cdiv(EM, BLOCK_M)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * num_pid_n
    first_m = pid // in_group * GROUP_M
    rows = min(num_pid_m - first_m, GROUP_M)
    pid_m = first_m + pid % in_group % rows
    pid_n = pid % in_group // rows
    if pid_m * BLOCK_M >= tl.load(n_padded_ptr):
        return
    slot = tl.load(sorted_ids_ptr + pid_m * BLOCK_M + tl.arange(0, BLOCK_M))
    valid = slot < n_valid
    expert = tl.load(expert_ids_ptr + pid_m).to(tl.int64)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + slot[:, None] // top_k * stride_am + offs_k[None, :]
    b_ptrs = b_ptr + expert * stride_be + (offs_n % N)[None, :] * stride_bn + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        left = K - k * BLOCK_K
        a = tl.load(a_ptrs, mask=valid[:, None] & (offs_k[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < left, other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    c_ptrs = c_ptr + stride_cm * slot[:, None] + offs_n[None, :]
    tl.store(c_ptrs, acc, mask=valid[:, None] & (offs_n[None, :] < N))


@triton.jit
def sum_kernel(c_ptr, w_ptr, y_ptr, N, top_k, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for j in range(top_k):
        slot = token * top_k + j
        total += tl.load(w_ptr + slot) * tl.load(c_ptr + slot * N + cols, mask=cols < N, other=0.0)
    tl.store(y_ptr + token * N + cols, total, mask=cols < N)


def fused_moe(x, weights, topk_weights, topk_ids):
    T, K = x.shape
    E, N, _ = weights.shape
    k = topk_ids.shape[1]
    y = x.new_empty(T, N)
    if y.numel() == 0:
        return y
    slots, expert_ids, n_padded = align(topk_ids, 32, E)
    c = torch.empty(T * k, N, dtype=torch.float32, device=x.device)
    EM = slots.shape[0]
    moe_kernel[(triton.cdiv(EM, 32) * triton.cdiv(N, 32),)](
        x, weights, c, slots, expert_ids, n_padded, N, K, EM, T * k,
        x.stride(0), weights.stride(0), weights.stride(1), N,
        top_k=k, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, GROUP_M=4,
    )  # fmt: skip
    sum_kernel[(T, triton.cdiv(N, 128))](c, topk_weights, y, N, k, BLOCK=128)
    return y
