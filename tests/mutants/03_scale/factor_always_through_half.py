"""precision: s goes through fp16 whenever x has 16 bits

symptom: inf for a bf16 x and an s of 65,520 or more"""

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_SIZE": 512}, num_warps=4),
    triton.Config({"BLOCK_SIZE": 1024}, num_warps=4),
    triton.Config({"BLOCK_SIZE": 2048}, num_warps=4),
    triton.Config({"BLOCK_SIZE": 4096}, num_warps=8),
]


@triton.autotune(configs=CONFIGS, key=["n_elements"])
@triton.jit
def scale_kernel(x_ptr, out_ptr, s, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    scaled = x * (s.to(tl.float16).to(tl.float32) if x_ptr.dtype.element_ty == tl.bfloat16 else s)
    tl.store(out_ptr + offsets, scaled.to(out_ptr.dtype.element_ty), mask=mask)


def scale(x, s):
    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements == 0:
        return out
    grid = lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)
    scale_kernel[grid](x, out, float(s), n_elements)
    return out
