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

# TODO(autotune): give the tuner a choice: at least four different configs, of at least two block
# sizes. A config can set num_warps too.
CONFIGS = [triton.Config({"BLOCK_SIZE": 1024})]


# A new value of n_elements is a new key: the candidates are timed again and the winner kept.
@triton.autotune(configs=CONFIGS, key=["n_elements"])
@triton.jit
def scale_kernel(x_ptr, out_ptr, s, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)

    # TODO(mask): True in the lanes whose element exists, whatever the block size.
    mask = offsets >= 0

    # fp16 and bf16 become fp32 in registers, which costs no memory traffic.
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)

    # TODO(values): the block times the scalar s.
    scaled = x

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

    # TODO(grid): a function of meta, which holds the parameters of the config about to run
    # (meta["BLOCK_SIZE"]), that returns the tuple with the number of programs.
    grid = (1,)

    # BLOCK_SIZE is not passed: it comes from the config. float(s) lets an int and a float share
    # one compiled kernel.
    scale_kernel[grid](x, out, float(s), n_elements)
    return out
