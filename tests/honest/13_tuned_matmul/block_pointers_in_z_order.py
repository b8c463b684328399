"""Block pointers; tiles in blocks of 4 x 4, each gone through in Z order."""

import torch
import triton
import triton.language as tl


def tile(m, n, k, num_warps, num_stages):
    meta = {"BLOCK_SIZE_M": m, "BLOCK_SIZE_N": n, "BLOCK_SIZE_K": k, "GROUP_SIZE_M": 8}
    return triton.Config(meta, num_warps=num_warps, num_stages=num_stages)


CONFIGS = [
    tile(64, 64, 32, num_warps=4, num_stages=4),
    tile(64, 128, 16, num_warps=8, num_stages=3),
    tile(64, 128, 64, num_warps=4, num_stages=4),
    tile(128, 128, 32, num_warps=4, num_stages=4),
    tile(128, 128, 64, num_warps=4, num_stages=4),
    tile(128, 256, 64, num_warps=8, num_stages=3),
    tile(128, 256, 64, num_warps=8, num_stages=4),
]
KEY = ["M", "N", "K"]


def worth_trying(configs, named_args, **_):
    def suits(config):
        m, n, k = (config.kwargs["BLOCK_SIZE_" + side] for side in "MNK")
        programs = triton.cdiv(named_args["M"], m) * triton.cdiv(named_args["N"], n)
        if m * n > 64 * 64 and programs < 64:
            return False  # most of the chip would have nothing to do
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
    blocks_n = tl.cdiv(num_pid_n, 4)
    inside = pid % 16
    pid_m = pid // 16 // blocks_n * 4 + (inside >> 2 & 2) + (inside >> 1 & 1)
    pid_n = pid // 16 % blocks_n * 4 + (inside >> 1 & 2) + (inside & 1)
    if pid_m >= num_pid_m or pid_n >= num_pid_n:
        return
    offs_m = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_n = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    a_block = tl.make_block_ptr(
        a_ptr,
        (M, K),
        (stride_am, stride_ak),
        (pid_m * BLOCK_SIZE_M, 0),
        (BLOCK_SIZE_M, BLOCK_SIZE_K),
        (1, 0),
    )
    b_block = tl.make_block_ptr(
        b_ptr,
        (K, N),
        (stride_bk, stride_bn),
        (0, pid_n * BLOCK_SIZE_N),
        (BLOCK_SIZE_K, BLOCK_SIZE_N),
        (1, 0),
    )
    input_precision: tl.constexpr = "ieee"

    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_SIZE_K):
        a = tl.load(a_block, boundary_check=(0, 1), padding_option="zero")
        b = tl.load(b_block, boundary_check=(0, 1), padding_option="zero")
        accumulator = tl.dot(a, b, accumulator, input_precision=input_precision)

        a_block = tl.advance(a_block, (0, BLOCK_SIZE_K))
        b_block = tl.advance(b_block, (BLOCK_SIZE_K, 0))
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
    """activation(a @ b + bias), in a new contiguous tensor of a's dtype."""
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    if M == 0 or N == 0:
        return c
    grid = lambda meta: (
        16
        * triton.cdiv(triton.cdiv(M, meta["BLOCK_SIZE_M"]), 4)
        * triton.cdiv(triton.cdiv(N, meta["BLOCK_SIZE_N"]), 4),
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
