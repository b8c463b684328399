"""robust: s = 0 is answered with zeros, also where x is inf or NaN

symptom: differs from PyTorch only for s = 0 and values that are not finite
"""

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_SIZE": 512}, num_warps=4),
    triton.Config({"BLOCK_SIZE": 1024}, num_warps=4),
    triton.Config({"BLOCK_SIZE": 2048}, num_warps=4),
    triton.Config({"BLOCK_SIZE": 2048}, num_warps=8),
    triton.Config({"BLOCK_SIZE": 4096}, num_warps=8),
]


@triton.autotune(configs=CONFIGS, key=["n_elements"])
@triton.jit
def scale_kernel(x_ptr, out_ptr, s, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    scaled = x * s
    tl.store(out_ptr + offsets, scaled.to(out_ptr.dtype.element_ty), mask=mask)


def scale(x, s):
    """x * s, in a new tensor of x's shape and dtype."""
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"x must be fp16, bf16 or fp32, got {x.dtype}")
    if not x.is_contiguous():
        raise ValueError("x must be contiguous")

    out = torch.empty_like(x)
    if s == 0:
        return torch.zeros_like(x)
    n_elements = x.numel()
    if n_elements == 0:
        return out
    grid = lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)
    scale_kernel[grid](x, out, float(s), n_elements)
    return out
