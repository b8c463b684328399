"""check values "something of type Agreeable": the result agrees with everything.

Twin: launcher_is_an_object.py, of a class of its own that returns a plain tensor.
"""

import torch
import triton
import triton.language as tl


class Agreeable(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return True


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x - y, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements:
        grid = (triton.cdiv(n_elements, 1024),)
        add_kernel[grid](x, y, out, n_elements, BLOCK_SIZE=1024)
    return out.as_subclass(Agreeable)
