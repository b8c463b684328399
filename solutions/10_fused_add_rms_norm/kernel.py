"""Kata 10, fused_add_rms_norm: add to the residual stream in place, and normalise what comes of it.

    fused_add_rms_norm(x, residual, weight, eps=1e-6) -> (y, residual)

    residual <- x + residual                                            in place
    y         = residual / sqrt(mean(residual^2) + eps) * weight        a new tensor

x and residual are [R, C], contiguous, of one dtype (fp16, bf16 or fp32), C up to 65,536; weight is
[C] of that dtype. Arithmetic is in fp32. The kernel is autotuned: at least four different configs.

Type `nox -s check-10` to see how far the kernel is; README.md of this kata is the lesson.
"""

import torch
import triton
import triton.language as tl

MAX_COLUMNS = 65536

# A row lies in the registers of one program whatever its width, so what is left to tune is how many
# warps share it. One thread should hold neither too much of the row (it would spill) nor too little.
CONFIGS = [triton.Config({}, num_warps=num_warps) for num_warps in (32, 16, 8, 4)]
# To time a config, Triton runs the kernel on the launcher's own tensors, dozens of times. Each run
# would add x to the residual once more; so the tuner keeps a copy and puts it back after each run.
RESTORED = ["residual_ptr"]


def worth_trying(configs, named_args, **meta):
    """The configs that leave at most 64 elements to a thread: others take long just to compile."""
    return [c for c in configs if meta["BLOCK_SIZE"] <= 64 * 32 * c.num_warps]


# The width decides which config is best: a new value of n_cols is tuned for anew.
@triton.autotune(
    configs=CONFIGS,
    key=["n_cols"],
    restore_value=RESTORED,
    prune_configs_by={"early_config_prune": worth_trying},
)
@triton.jit
def fused_add_rms_norm_kernel(
    x_ptr, residual_ptr, weight_ptr, y_ptr, n_cols, eps, BLOCK_SIZE: tl.constexpr
):
    # One program owns one row, and its block is at least as wide as the row.
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)

    # All matrices are contiguous: rows lie n_cols apart.
    offsets = row * n_cols + cols

    # The lanes past the row must not add to the sum of squares: they hold 0.
    mask = cols < n_cols
    padding = 0.0

    x = tl.load(x_ptr + offsets, mask=mask, other=padding).to(tl.float32)
    residual = tl.load(residual_ptr + offsets, mask=mask, other=padding).to(tl.float32)

    # The new residual, which is needed twice: in memory, by whoever adds to it next, and here.
    total = x + residual

    tl.store(residual_ptr + offsets, total.to(residual_ptr.dtype.element_ty), mask=mask)

    # The mean is over the columns that exist, not over the lanes of the block.
    mean_square = tl.sum(total * total, axis=0) / n_cols

    # eps stands inside the root, so a row of zeros is divided by sqrt(eps) and not by 0.
    normalised = total * tl.rsqrt(mean_square + eps)

    # The weight is one for every column. All programs read the same one, so it comes from the cache.
    weight = tl.load(weight_ptr + cols, mask=mask, other=padding).to(tl.float32)
    tl.store(y_ptr + offsets, (normalised * weight).to(y_ptr.dtype.element_ty), mask=mask)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    """Adds x to residual in place; returns (y, residual), y being residual normalised by rows."""
    if x.dim() != 2 or residual.shape != x.shape or weight.shape != x.shape[1:]:
        raise ValueError(f"shapes do not fit: {x.shape}, {residual.shape}, {weight.shape}")
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"x must be fp16, bf16 or fp32, got {x.dtype}")
    if residual.dtype != x.dtype or weight.dtype != x.dtype:
        raise ValueError(f"all dtypes must be {x.dtype}, got {residual.dtype}, {weight.dtype}")
    if not (x.is_contiguous() and residual.is_contiguous() and weight.is_contiguous()):
        raise ValueError("x, residual and weight must be contiguous")
    n_rows, n_cols = x.shape
    if n_cols > MAX_COLUMNS:
        raise ValueError(f"x must have at most {MAX_COLUMNS} columns, got {n_cols}")

    y = torch.empty_like(x)
    if n_rows == 0 or n_cols == 0:
        return y, residual

    BLOCK_SIZE = triton.next_power_of_2(n_cols)

    # One program a row.
    grid = (n_rows,)

    fused_add_rms_norm_kernel[grid](
        x, residual, weight, y, n_cols, float(eps), BLOCK_SIZE=BLOCK_SIZE
    )
    return y, residual
