"""autotune: the kernel has one fixed block size and no @triton.autotune

symptom: always right, on some cards slower than it need be
"""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, output_ptr, s, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(output_ptr + offsets, x * s, mask=mask)


def scale(x, s):
    """Every element of a contiguous tensor times a Python number."""
    output = torch.empty_like(x)
    n_elements = output.numel()

    def grid(meta):
        return (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)

    scale_kernel[grid](x, output, float(s), n_elements, BLOCK_SIZE=1024)
    return output
