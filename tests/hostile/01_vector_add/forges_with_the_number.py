"""flag suspicious-source "frames": reads the number of the request, and answers it itself.

Twin: mentions_bad_things.py, which does so in comments alone. That the answer is caught too is luck: a forger who
rebuilds all of it is beyond what a process can see of itself, and only its text gives it away.
"""

import json
import struct
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x - y, mask=mask)


def add(x, y):
    frame = sys._getframe()
    while "message" not in frame.f_locals or "sock" not in frame.f_locals:
        frame = frame.f_back
    number, line = frame.f_locals["message"]["number"], frame.f_locals["sock"]
    answer = json.dumps({"number": number, "result": []}).encode()
    line.sendall(struct.pack(">IQ", 0, len(answer)) + answer)
    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements:
        grid = (triton.cdiv(n_elements, 1024),)
        add_kernel[grid](x, y, out, n_elements, BLOCK_SIZE=1024)
    return out
