"""Random whole numbers against a threshold, block pointers, a kernel for each direction."""

import torch
import triton
import triton.language as tl


@triton.jit
def kept(seed, offsets, threshold):
    return tl.randint(seed, offsets).to(tl.uint32, bitcast=True).to(tl.int64) >= threshold


@triton.jit
def forward_kernel(x_ptr, out_ptr, n_elements, threshold, scale, seed, BLOCK_SIZE: tl.constexpr):
    start = tl.program_id(0) * BLOCK_SIZE
    source = tl.make_block_ptr(x_ptr, (n_elements,), (1,), (start,), (BLOCK_SIZE,), (0,))
    target = tl.make_block_ptr(out_ptr, (n_elements,), (1,), (start,), (BLOCK_SIZE,), (0,))
    x = tl.load(source, boundary_check=(0,)).to(tl.float32)
    y = tl.where(kept(seed, start + tl.arange(0, BLOCK_SIZE), threshold), x * scale, 0.0)
    tl.store(target, y.to(out_ptr.dtype.element_ty), boundary_check=(0,))


@triton.jit
def backward_kernel(grad_ptr, out_ptr, n_elements, threshold, scale, seed, SIZE: tl.constexpr):
    offsets = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    mask = offsets < n_elements
    factor = tl.where(kept(seed, offsets, threshold), scale, 0.0)
    grad = tl.load(grad_ptr + offsets, mask=mask & (factor != 0.0), other=0.0)
    tl.store(out_ptr + offsets, grad.to(tl.float32) * factor, mask=mask)


def run(kernel, source, p, seed, size):
    n = source.numel()
    target = torch.empty_like(source)
    if n == 0:
        return target
    scale = 1 / (1 - p) if p < 1 else 0.0
    kernel[(triton.cdiv(n, size),)](source, target, n, int(p * 2**32), scale, seed, size)
    return target


def dropout(x, p, seed):
    return run(forward_kernel, x, p, seed, 1024)


def dropout_backward(grad, p, seed):
    return run(backward_kernel, grad, p, seed, 4096)
