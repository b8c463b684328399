"""mask: the kernel that turns b for large products leaves out its last columns

symptom: right unless b has rows at odd addresses, a has many rows and K is a multiple of 16
"""

import torch
import triton
import triton.language as tl


def tile(m, n, k, num_warps, num_stages, group=8):
    """A config: the tile's sides, its depth, and how many rows of tiles make a group."""
    meta = {"BLOCK_SIZE_M": m, "BLOCK_SIZE_N": n, "BLOCK_SIZE_K": k, "GROUP_SIZE_M": group}
    return triton.Config(meta, num_warps=num_warps, num_stages=num_stages)


# Small tiles make enough programs of a small product, large ones load less for what they compute.
# The depth and the stages are paid for in shared memory: num_stages * (m + n) * k elements.
CONFIGS = [
    tile(64, 64, 32, num_warps=4, num_stages=4),
    tile(64, 128, 16, num_warps=8, num_stages=3),
    tile(64, 128, 64, num_warps=4, num_stages=4),
    tile(128, 128, 32, num_warps=4, num_stages=4),
    tile(128, 128, 64, num_warps=4, num_stages=4),
    tile(128, 256, 32, num_warps=8, num_stages=4),
    tile(128, 256, 64, num_warps=8, num_stages=4, group=16),
]

# Which config is best depends on all three sizes: a new value of any is tuned for anew.
KEY = ["M", "N", "K"]


def worth_trying(configs, named_args, **_):
    """The configs that a product calls for: trying the others would only take time."""

    def suits(config):
        m, n, k = (config.kwargs["BLOCK_SIZE_" + side] for side in "MNK")
        programs = triton.cdiv(named_args["M"], m) * triton.cdiv(named_args["N"], n)
        if m * n > 64 * 64 and programs < 64:
            return False  # most of the chip would have nothing to do
        # Without tensor cores every product is an instruction of its own: less fits a program.
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
    # The grid has one axis. Programs start in the order of their numbers, so this is where it is
    # decided which tiles are worked on at the same time.
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)

    # GROUP_SIZE_M rows of tiles make a group, which is done column by column: programs that run
    # side by side then share a few rows of a and a few columns of b. The last group may have fewer
    # rows.
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

    # How tl.dot multiplies fp32. fp16 and bf16 go to the tensor cores as they are.
    input_precision: tl.constexpr = "ieee"

    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_SIZE_K):
        # What exists of this block of a and of b, the first k of K being done.
        a_mask = (offs_m[:, None] < M) & (offs_k[None, :] < K - k)
        b_mask = (offs_k[:, None] < K - k) & (offs_n[None, :] < N)

        a = tl.load(a_ptrs, mask=a_mask, other=0.0)
        b = tl.load(b_ptrs, mask=b_mask, other=0.0)

        # One more block of products on top of the sum.
        accumulator = tl.dot(a, b, accumulator, input_precision=input_precision)

        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk

    # The epilogue. The tile is still in registers, in fp32, so what follows costs next to nothing;
    # another kernel would read all of c and write it once more.
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0.0)
        accumulator += bias.to(tl.float32)[None, :]

    # ACTIVATION is a tl.constexpr: the branches are decided when the kernel is compiled.
    if ACTIVATION == "relu":
        accumulator = tl.maximum(accumulator, 0.0)
    elif ACTIVATION == "silu":
        accumulator = accumulator * tl.sigmoid(accumulator)

    # c is contiguous. Here is the one rounding.
    c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
    c_mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=c_mask)


@triton.jit
def turn_kernel(b_ptr, turned_ptr, K, N, stride_bk, BLOCK_SIZE: tl.constexpr):
    # Kata 5's transpose. What is written has the K numbers of a column side by side.
    offs_k = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)[:, None]
    offs_n = tl.program_id(axis=1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)[None, :]
    mask = (offs_k < K) & (offs_n < N // 8 * 8)
    block = tl.load(b_ptr + offs_k * stride_bk + offs_n, mask=mask)
    tl.store(turned_ptr + offs_n * K + offs_k, block, mask=mask)


def turned(b):
    """b, [K, N] with unit stride along N, in new memory with unit stride along K."""
    K, N = b.shape
    columns = torch.empty((N, K), device=b.device, dtype=b.dtype)
    turn_kernel[(triton.cdiv(K, 64), triton.cdiv(N, 64))](
        b, columns, K, N, b.stride(0), BLOCK_SIZE=64
    )
    return columns.T


def tuned_matmul(a, b, bias=None, activation=None):
    """activation(a @ b + bias), in a new contiguous tensor of a's dtype."""
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

    # Tiles are copied 16 bytes at a time where these begin at a multiple of 16 bytes. If the rows of b
    # do not, every program that reads b copies it 2 bytes at a time; columns of a multiple of 16
    # numbers do. So where many programs read b, turning it first takes less time than it saves.
    at_odd_addresses = b.stride(1) == 1 and (b.stride(0) % 8 or b.data_ptr() % 16)
    if at_odd_addresses and b.element_size() == 2 and M >= 1024 and K % 16 == 0:
        b = turned(b)

    # One program a tile, in a row: the kernel finds out which is its own.
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
