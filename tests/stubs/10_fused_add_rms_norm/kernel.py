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

# TODO(autotune): at least four different configs. A row lies in the registers of one program whatever
# its width, so what can differ is the number of warps that share it: 4, 8, 16 or 32. And: to time a
# config, Triton runs the kernel on the launcher's own tensors, dozens of times. Which arguments of
# the kernel must it put back after each run, by name?
CONFIGS = [triton.Config({}, num_warps=32)]
RESTORED = []


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

    # TODO(offsets): where this row's elements lie in a contiguous matrix of n_cols columns.
    offsets = cols

    # TODO(mask): which lanes hold a column of the row, and what the other lanes should hold so that
    # they do not add to a sum of squares.
    mask = cols >= 0
    padding = 1.0

    x = tl.load(x_ptr + offsets, mask=mask, other=padding).to(tl.float32)
    residual = tl.load(residual_ptr + offsets, mask=mask, other=padding).to(tl.float32)

    # TODO(values): the new residual.
    total = residual

    tl.store(residual_ptr + offsets, total.to(residual_ptr.dtype.element_ty), mask=mask)

    # TODO(reduction): the mean of the squares, over the columns that exist.
    mean_square = 1.0

    # TODO(reduction): total / sqrt(mean_square + eps), or total times tl.rsqrt of the same.
    normalised = total

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

    # TODO(grid): a tuple with the number of programs.
    grid = (1,)

    fused_add_rms_norm_kernel[grid](
        x, residual, weight, y, n_cols, float(eps), BLOCK_SIZE=BLOCK_SIZE
    )
    return y, residual
