"""values: the numbers repeat, as positions are cut to 16 bits

symptom: right for small tensors; in large ones elements that lie 65,536 apart are kept or dropped together
"""

import torch
import triton
import triton.language as tl

BLOCK_SIZE = 4096


@triton.jit
def random_block(seed, block, BLOCK_SIZE: tl.constexpr):
    GROUPS: tl.constexpr = BLOCK_SIZE // 4
    groups = (block * GROUPS + tl.arange(0, GROUPS)) & 0x3FFF
    r0, r1, r2, r3 = tl.rand4x(seed, groups, n_rounds=7)
    return tl.interleave(tl.interleave(r0, r2), tl.interleave(r1, r3))


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n_elements, p, scale, seed, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = random_block(seed, pid, BLOCK_SIZE) >= p
    y = tl.where(keep, x.to(tl.float32) * scale, 0.0)
    tl.store(out_ptr + offsets, y, mask=mask)


def dropout(x, p, seed):
    """x with a random share p of its elements set to 0 and the others divided by 1 - p."""
    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements == 0:
        return out
    scale = 1 / (1 - p) if p < 1 else 0.0
    grid = (triton.cdiv(n_elements, BLOCK_SIZE),)
    dropout_kernel[grid](
        x, out, n_elements, float(p), scale, seed, BLOCK_SIZE=BLOCK_SIZE, num_warps=8
    )
    return out


def dropout_backward(grad, p, seed):
    """The gradient of dropout's x, from the gradient of its result."""
    return dropout(grad, p, seed)
