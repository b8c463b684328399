"""Autotuned block sizes; a lane works out the four numbers of its group and picks its own."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_SIZE": 1024}, num_warps=2),
        triton.Config({"BLOCK_SIZE": 2048}, num_warps=4),
        triton.Config({"BLOCK_SIZE": 4096}, num_warps=8),
    ],
    key=["n_elements"],
)
@triton.jit
def dropout_kernel(x_ptr, out_ptr, n_elements, p, scale, seed, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    r0, r1, r2, r3 = tl.rand4x(seed, offsets // 4)
    which = offsets % 4
    random = tl.where(which < 2, tl.where(which == 0, r0, r1), tl.where(which == 2, r2, r3))
    y = tl.where(random < p, 0.0, x.to(tl.float32) * scale)
    tl.store(out_ptr + offsets, y, mask=mask)


def dropout(x, p, seed):
    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements:
        grid = lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)
        scale = 1 / max(1 - p, 1e-30)
        dropout_kernel[grid](x, out, n_elements, p, scale, seed)
    return out


def dropout_backward(grad, p, seed):
    return dropout(grad, p, seed)
