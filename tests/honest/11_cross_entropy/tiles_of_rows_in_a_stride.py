"""A few programs stride over tiles of four rows; helper functions; other names."""

import torch
import triton
import triton.language as tl


@triton.jit
def piece(src, i, j, height, width, step):
    inside = (i[:, None] < height) & (j[None, :] < width)
    return tl.load(src + i[:, None] * step + j[None, :], inside, -float("inf")).to(tl.float32)


@triton.jit
def ce(src, ids, out, dst, height, width, step, skip, TALL: tl.constexpr, WIDE: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(height, TALL), tl.num_programs(0)):
        i = tile * TALL + tl.arange(0, TALL)
        label = tl.load(ids + i, i < height, 0)
        top = tl.full([TALL], -1e38, tl.float32)
        total = tl.zeros([TALL], tl.float32)
        for k in range(0, width, WIDE):
            v = piece(src, i, k + tl.arange(0, WIDE), height, width, step)
            higher = tl.maximum(top, tl.max(v, 1))
            total = total * tl.exp(top - higher) + tl.sum(tl.exp(v - higher[:, None]), 1)
            top = higher
        use = (i < height) & (label != skip)
        own = tl.load(src + i * step + label, use, 0.0).to(tl.float32)
        tl.store(out + i, tl.where(use, tl.log(total) - (own - top), 0.0), i < height)
        for k in range(0, width, WIDE):
            j = k + tl.arange(0, WIDE)
            v = piece(src, i, j, height, width, step)
            p = tl.exp(v - top[:, None]) / total[:, None]
            p -= tl.where(j[None, :] == label[:, None], 1.0, 0.0)
            inside = (i[:, None] < height) & (j[None, :] < width)
            tl.store(dst + i[:, None] * width + j[None, :], tl.where(use[:, None], p, 0.0), inside)


def cross_entropy(logits, target, ignore_index=-100):
    """The cross entropy of every row, and its gradient."""
    height, width = logits.shape
    losses = logits.new_empty(height, dtype=torch.float32)
    slopes = logits.new_empty(height, width)
    ce[(3,)](logits, target, losses, slopes, height, width, logits.stride(0), ignore_index, 4, 1024)
    return losses, slopes
