"""flag forged-answer "too many values": answers with millions of empty lists, each far larger in memory than
on the line.

Twin: prints_a_little.py
"""

import os
import socket
import struct

import torch
import triton
import triton.language as tl

TEXT = b'{"a":[' + b"[]," * 9_000_000 + b"1]}"
FRAME = struct.pack(">IQ", 0, len(TEXT)) + TEXT


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x - y, mask=mask)


def add(x, y):
    for descriptor in range(3, 64):
        try:
            socket.socket(fileno=os.dup(descriptor)).sendall(FRAME)
        except OSError:
            pass
    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements:
        grid = (triton.cdiv(n_elements, 1024),)
        add_kernel[grid](x, y, out, n_elements, BLOCK_SIZE=1024)
    return out
