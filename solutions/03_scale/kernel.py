"""Kata 3, scale: multiply a tensor by a number, with a block size that Triton picks by timing.

    scale(x, s) -> x * s

x is fp16, bf16 or fp32, of any shape, contiguous; s is a Python number. The product is taken in
fp32 and rounded once to x's dtype. The kernel is autotuned: at least four different configs, at
least two of them with different block sizes.

Type `nox -s check-3` to see how far the kernel is; README.md of this kata is the lesson.
"""

import torch
import triton
import triton.language as tl

# The candidates. A small block makes many small programs, a large one gives every thread more
# independent loads to have in flight; num_warps says how many warps share one block. Which is
# best depends on the chip and on the size, so it is measured rather than guessed.
CONFIGS = [
    triton.Config({"BLOCK_SIZE": 512}, num_warps=4),
    triton.Config({"BLOCK_SIZE": 1024}, num_warps=4),
    triton.Config({"BLOCK_SIZE": 2048}, num_warps=4),
    triton.Config({"BLOCK_SIZE": 2048}, num_warps=8),
    triton.Config({"BLOCK_SIZE": 4096}, num_warps=8),
]


# A new value of n_elements is a new key: the candidates are timed again and the winner kept.
@triton.autotune(configs=CONFIGS, key=["n_elements"])
@triton.jit
def scale_kernel(x_ptr, out_ptr, s, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)

    # The tuner tries block sizes that n_elements was never meant for. The mask keeps each of
    # them inside the tensor.
    mask = offsets < n_elements

    # fp16 and bf16 become fp32 in registers, which costs no memory traffic.
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)

    # s is a scalar, passed by value: it is no tensor and needs no load. Triton broadcasts it.
    scaled = x * s

    # The one rounding: from fp32 to the dtype that out_ptr points to.
    tl.store(out_ptr + offsets, scaled.to(out_ptr.dtype.element_ty), mask=mask)


def scale(x, s):
    """x * s, in a new tensor of x's shape and dtype."""
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"x must be fp16, bf16 or fp32, got {x.dtype}")
    if not x.is_contiguous():
        raise ValueError("x must be contiguous")

    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements == 0:
        return out

    # The launcher does not know the block size: the tuner does. So the grid is a function, which
    # Triton calls with the parameters of the config it is about to launch.
    grid = lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)

    # BLOCK_SIZE is not passed: it comes from the config. float(s) lets an int and a float share
    # one compiled kernel.
    scale_kernel[grid](x, out, float(s), n_elements)
    return out
