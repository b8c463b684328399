"""precision: bf16 is turned into fp16 for the product

symptom: right for ordinary numbers; infinite or zero for very large and very small ones
"""

import torch
import triton
import triton.language as tl


def tile(m, n, k, num_warps, num_stages, group=8):
    meta = {"BLOCK_SIZE_M": m, "BLOCK_SIZE_N": n, "BLOCK_SIZE_K": k, "GROUP_SIZE_M": group}
    return triton.Config(meta, num_warps=num_warps, num_stages=num_stages)


CONFIGS = [
    tile(64, 64, 32, num_warps=4, num_stages=4),
    tile(64, 128, 16, num_warps=8, num_stages=3),
    tile(64, 128, 64, num_warps=4, num_stages=4),
    tile(128, 128, 32, num_warps=4, num_stages=4),
    tile(128, 128, 64, num_warps=4, num_stages=4),
    tile(128, 256, 64, num_warps=8, num_stages=3),
    tile(128, 256, 64, num_warps=8, num_stages=4, group=16),
]

KEY = ["M", "N", "K"]


def worth_trying(configs, named_args, **_):
    """The configs that a product calls for: trying the others would only take time."""

    def suits(config):
        m, n, k = (config.kwargs["BLOCK_SIZE_" + side] for side in "MNK")
        programs = triton.cdiv(named_args["M"], m) * triton.cdiv(named_args["N"], n)
        if m * n > 64 * 64 and programs < 64:
            return False
        return m * n * k <= 64 * 128 * 16 if named_args["a_ptr"].dtype == torch.float32 else k >= 32

    return [config for config in configs if suits(config)]


@triton.autotune(configs=CONFIGS, key=KEY, prune_configs_by={"early_config_prune": worth_trying})
@triton.jit
def tuned_matmul_kernel(
    a_ptr,
    b_ptr,
    bias_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    ACTIVATION: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)

    programs_in_group = GROUP_SIZE_M * num_pid_n
    first_pid_m = pid // programs_in_group * GROUP_SIZE_M
    rows_in_group = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + pid % programs_in_group % rows_in_group
    pid_n = pid % programs_in_group // rows_in_group

    offs_m = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_n = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn

    input_precision: tl.constexpr = "ieee"

    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_SIZE_K):
        a_mask = (offs_m[:, None] < M) & (offs_k[None, :] < K - k)
        b_mask = (offs_k[:, None] < K - k) & (offs_n[None, :] < N)

        a = tl.load(a_ptrs, mask=a_mask, other=0.0)
        b = tl.load(b_ptrs, mask=b_mask, other=0.0)

        if a_ptr.dtype.element_ty == tl.bfloat16:
            a = a.to(tl.float16)
            b = b.to(tl.float16)
        accumulator = tl.dot(a, b, accumulator, input_precision=input_precision)

        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk

    if bias_ptr is not None:
        bias = tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0.0)
        accumulator += bias.to(tl.float32)[None, :]

    if ACTIVATION == "relu":
        accumulator = tl.maximum(accumulator, 0.0)
    elif ACTIVATION == "silu":
        accumulator = accumulator * tl.sigmoid(accumulator)

    c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
    c_mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=c_mask)


def tuned_matmul(a, b, bias=None, activation=None):
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"a and b must be matrices that fit, got shapes {a.shape} and {b.shape}")
    if a.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"a must be fp16, bf16 or fp32, got {a.dtype}")
    if b.dtype != a.dtype or (bias is not None and bias.dtype != a.dtype):
        raise ValueError(f"b and bias must have a's dtype, {a.dtype}")
    if bias is not None and (bias.shape != b.shape[1:] or not bias.is_contiguous()):
        raise ValueError(f"bias must have {b.shape[1]} numbers, side by side")
    if activation not in (None, "relu", "silu"):
        raise ValueError(f'activation must be None, "relu" or "silu", got {activation!r}')

    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    if M == 0 or N == 0:
        return c

    grid = lambda meta: (
        triton.cdiv(M, meta["BLOCK_SIZE_M"]) * triton.cdiv(N, meta["BLOCK_SIZE_N"]),
    )

    tuned_matmul_kernel[grid](
        a,
        b,
        bias,
        c,
        M,
        N,
        K,
        a.stride(0),
        a.stride(1),
        b.stride(0),
        b.stride(1),
        ACTIVATION=activation,
    )
    return c
