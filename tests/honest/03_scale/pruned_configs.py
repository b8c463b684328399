"""A list of nine configs, pruned by the size before any is tried."""

import torch
import triton
import triton.language as tl


def worth_trying(configs, named_args, **kwargs):
    n_elements = named_args["n_elements"]
    return [c for c in configs if c.kwargs["BLOCK_SIZE"] <= max(1024, n_elements)]


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_SIZE": block_size}, num_warps=num_warps)
        for block_size in (512, 1024, 8192)
        for num_warps in (2, 4, 8)
    ],
    key=["n_elements"],
    prune_configs_by={"early_config_prune": worth_trying},
)
@triton.jit
def scale_kernel(x_ptr, output_ptr, s, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, x.to(tl.float32) * s, mask=mask)


def scale(x, s):
    """Every element of a contiguous tensor times a Python number."""
    output = torch.empty_like(x)
    n_elements = output.numel()
    scale_kernel[lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)](
        x, output, float(s), n_elements
    )
    return output
