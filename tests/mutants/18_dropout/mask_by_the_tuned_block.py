"""values: which number an element gets depends on the block size that the tuner chooses

symptom: the model that trains on one card cannot be trained again on another
"""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK_SIZE": size}) for size in (1024, 2048)], key=["n_elements"]
)
@triton.jit
def dropout_kernel(x_ptr, out_ptr, n_elements, p, scale, seed, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    QUARTER: tl.constexpr = BLOCK_SIZE // 4
    r0, r1, r2, r3 = tl.rand4x(seed, pid * QUARTER + tl.arange(0, QUARTER))
    # the four numbers go to four quarters of the block
    numbers = tl.reshape(
        tl.trans(tl.reshape(tl.join(tl.join(r0, r2), tl.join(r1, r3)), (QUARTER, 4))), (BLOCK_SIZE,)
    )
    keep = numbers >= p
    y = tl.where(keep, x.to(tl.float32) * scale, 0.0)
    tl.store(out_ptr + offsets, y, mask=mask)


def dropout(x, p, seed):
    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements == 0:
        return out
    scale = 1 / (1 - p) if p < 1 else 0.0
    grid = lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)
    dropout_kernel[grid](x, out, n_elements, p, scale, seed)
    return out


def dropout_backward(grad, p, seed):
    return dropout(grad, p, seed)
