"""values: PyTorch takes the layer norm, the kernel copies its result

symptom: always right, and slower than PyTorch
"""

import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    """Layer norm along the rows of a matrix."""
    normal = torch.nn.functional.layer_norm(x, x.shape[1:], weight, bias, eps)
    y = torch.empty((x.shape[0], x.shape[1]), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    n_elements = y.numel()
    copy_kernel[(triton.cdiv(n_elements, 1024),)](normal, y, n_elements, BLOCK_SIZE=1024)
    return y
