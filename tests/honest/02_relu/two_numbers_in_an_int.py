"""Pairs of 16-bit numbers are worked on and stored as one int32."""

import torch
import triton
import triton.language as tl

BLOCK_SIZE = 1024


@triton.jit
def relu_kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0), mask=mask)


@triton.jit
def packed_kernel(x_ptr, out_ptr, n_words, BLOCK_SIZE: tl.constexpr):
    # two halves in one word: clear each half whose sign bit is set
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_words
    bits = tl.load(x_ptr + offsets, mask=mask)
    signs = (bits >> 15) & 0x00010001
    tl.store(out_ptr + offsets, bits & ~(signs * 0xFFFF), mask=mask)


def relu(x):
    out = torch.empty_like(x)
    n = x.numel()
    if n == 0:
        return out
    if x.element_size() == 2 and n % 2 == 0 and x.storage_offset() % 2 == 0:
        a, b = x.view(-1).view(torch.int32), out.view(-1).view(torch.int32)
        packed_kernel[(triton.cdiv(n // 2, BLOCK_SIZE),)](a, b, n // 2, BLOCK_SIZE=BLOCK_SIZE)
    else:
        relu_kernel[(triton.cdiv(n, BLOCK_SIZE),)](x, out, n, BLOCK_SIZE=BLOCK_SIZE)
    return out
