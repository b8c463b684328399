"""The key holds the size and a second number, the bytes of an element."""

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_SIZE": 256}, num_warps=2),
    triton.Config({"BLOCK_SIZE": 512}, num_warps=4),
    triton.Config({"BLOCK_SIZE": 1024}, num_warps=4),
    triton.Config({"BLOCK_SIZE": 4096}, num_warps=8),
]


@triton.jit
def product(x, s):
    return x.to(tl.float32) * s


@triton.autotune(configs=CONFIGS, key=["n_elements", "element_size"], warmup=5, rep=20)
@triton.jit
def scale_kernel(x_ptr, output_ptr, s, n_elements, element_size, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    tl.store(output_ptr + offsets, product(tl.load(x_ptr + offsets, mask=mask), s), mask=mask)


def scale(x, s):
    """Every element of a contiguous tensor times a Python number."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)

    def grid(meta):
        return (triton.cdiv(meta["n_elements"], meta["BLOCK_SIZE"]),)

    scale_kernel[grid](
        x_ptr=x,
        output_ptr=output,
        s=float(s),
        n_elements=x.numel(),
        element_size=x.element_size(),
    )
    return output
