"""mask: the largest block size goes unmasked, as if it always divided the size

symptom: right wherever the tuner picks another; with 2048 memory behind the tensors is overwritten
"""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_SIZE": 256}, num_warps=2),
        triton.Config({"BLOCK_SIZE": 512}, num_warps=4),
        triton.Config({"BLOCK_SIZE": 1024}, num_warps=4),
        triton.Config({"BLOCK_SIZE": 2048}, num_warps=8),
    ],
    key=["n_elements"],
)
@triton.jit
def scale_kernel(x_ptr, output_ptr, s, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = (offsets < n_elements) | (BLOCK_SIZE == 2048)
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(output_ptr + offsets, x * s, mask=mask)


def scale(x, s):
    """Every element of a contiguous tensor times a Python number."""
    output = torch.empty_like(x)
    n_elements = output.numel()
    grid = lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)
    scale_kernel[grid](x, output, float(s), n_elements)
    return output
