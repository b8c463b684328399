"""Tensor descriptors made in the kernel, plain pointers where memory is not aligned."""

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_SIZE": 256}, num_warps=2),
    triton.Config({"BLOCK_SIZE": 512}, num_warps=4),
    triton.Config({"BLOCK_SIZE": 1024}, num_warps=4),
    triton.Config({"BLOCK_SIZE": 4096}, num_warps=8),
]


@triton.autotune(configs=CONFIGS, key=["n_elements"])
@triton.jit
def scale_kernel(x_ptr, output_ptr, s, n_elements, ALIGNED: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    start = tl.program_id(axis=0) * BLOCK_SIZE
    if ALIGNED:
        x_desc = tl.make_tensor_descriptor(x_ptr, [n_elements], [1], [BLOCK_SIZE])
        output_desc = tl.make_tensor_descriptor(output_ptr, [n_elements], [1], [BLOCK_SIZE])
        product = x_desc.load([start]).to(tl.float32) * s
        output_desc.store([start], product.to(output_ptr.dtype.element_ty))
    else:
        offsets = start + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask)
        tl.store(output_ptr + offsets, x.to(tl.float32) * s, mask=mask)


def scale(x, s):
    """Every element of a contiguous tensor times a Python number."""
    output = torch.empty_like(x)
    n_elements = output.numel()
    triton.set_allocator(
        lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=x.device)
    )

    def grid(meta):
        return (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)

    aligned = x.data_ptr() % 16 == 0 and output.data_ptr() % 16 == 0
    scale_kernel[grid](x, output, float(s), n_elements, ALIGNED=aligned)
    return output
