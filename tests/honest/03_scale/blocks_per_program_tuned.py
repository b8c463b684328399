"""The tuner also chooses how many blocks a program works on."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_SIZE": 256, "BLOCKS": 1}, num_warps=2),
        triton.Config({"BLOCK_SIZE": 256, "BLOCKS": 4}, num_warps=2),
        triton.Config({"BLOCK_SIZE": 1024, "BLOCKS": 1}, num_warps=4),
        triton.Config({"BLOCK_SIZE": 1024, "BLOCKS": 2}, num_warps=4),
    ],
    key=["n_elements"],
)
@triton.jit
def scale_kernel(x_ptr, output_ptr, s, n_elements, BLOCK_SIZE: tl.constexpr, BLOCKS: tl.constexpr):
    first = tl.program_id(axis=0) * BLOCK_SIZE * BLOCKS
    for i in tl.range(0, BLOCKS, num_stages=2):
        offsets = first + i * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask)
        tl.store(output_ptr + offsets, x.to(tl.float32) * s, mask=mask)


def scale(x, s):
    """Every element of a contiguous tensor times a Python number."""
    output = torch.empty_like(x)
    n_elements = output.numel()

    def grid(meta):
        return (triton.cdiv(n_elements, meta["BLOCK_SIZE"] * meta["BLOCKS"]),)

    scale_kernel[grid](x, output, float(s), n_elements)
    return output
