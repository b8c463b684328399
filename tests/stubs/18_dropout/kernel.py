"""Kata 18, dropout: random zeros, which the backward pass draws a second time.

    dropout(x, p, seed)             -> x / (1 - p) where an element is kept, 0 where it is dropped
    dropout_backward(grad, p, seed) -> grad / (1 - p) and 0 in the very same places

An element is dropped with probability p. x and grad are fp16, bf16 or fp32, of any shape,
contiguous; 0 <= p <= 1 and 0 <= seed < 2^31. The result is a new tensor of the same shape and
dtype. Whether an element is kept depends on p, seed and its position (counted row by row) alone.
The choice is stored nowhere. What is dropped becomes 0, even infinity and NaN.

Type `nox -s check-18` to see how far the kernel is; README.md of this kata is the lesson.
"""

import torch
import triton
import triton.language as tl

BLOCK_SIZE = 4096


@triton.jit
def random_block(seed, block, BLOCK_SIZE: tl.constexpr):
    # A random number from [0, 1) for each element of a block. Nothing is remembered from one to the
    # next: a number is a function of the seed and a counter, here the number of a group of four
    # neighbours, so that every program, in every pass, can work out the part that it needs.
    GROUPS: tl.constexpr = BLOCK_SIZE // 4

    # TODO(values): the numbers of this block's groups. As it stands, all blocks have those of the first.
    groups = tl.arange(0, GROUPS)

    # One round through the generator gives four numbers: the first, second, third and fourth of
    # each group. (tl.rand gives one, and throws three away.) The generator mixes seven times, which
    # is the fewest that the known tests of randomness find no fault with; the usual ten would take
    # longer than two bytes an element take to move.
    r0, r1, r2, r3 = tl.rand4x(seed, groups, n_rounds=7)

    # Side by side, as the elements lie: r0[0], r1[0], r2[0], r3[0], r0[1], ...
    return tl.interleave(tl.interleave(r0, r2), tl.interleave(r1, r3))


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n_elements, p, scale, seed, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)

    # TODO(offsets): the elements of this program's block.
    offsets = tl.arange(0, BLOCK_SIZE)

    # TODO(mask): True in the lanes whose element exists.
    mask = offsets >= 0

    x = tl.load(x_ptr + offsets, mask=mask)

    # TODO(values): is an element kept? A number from [0, 1) is below p with probability p.
    keep = offsets >= 0

    # TODO(values): what is kept is scaled, in fp32; what is dropped is 0, even if it was infinite.
    y = tl.where(keep, x, 0.0)

    tl.store(out_ptr + offsets, y, mask=mask)


def dropout(x, p, seed):
    """x with a random share p of its elements set to 0 and the others divided by 1 - p."""
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"x must be fp16, bf16 or fp32, got {x.dtype}")
    if not x.is_contiguous():
        raise ValueError("x must be contiguous")
    if not (0 <= p <= 1 and 0 <= seed < 2**31):
        raise ValueError(f"p must lie in 0 .. 1 and seed in 0 .. 2^31 - 1, got {p} and {seed}")
    out = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements == 0:
        return out

    # What is kept makes up for what is dropped. If that is everything, there is nothing to scale.
    scale = 1 / (1 - p) if p < 1 else 0.0

    # TODO(grid): a tuple with the number of programs, enough to cover every element.
    grid = (1,)

    dropout_kernel[grid](
        x, out, n_elements, float(p), scale, seed, BLOCK_SIZE=BLOCK_SIZE, num_warps=8
    )
    return out


def dropout_backward(grad, p, seed):
    """The gradient of dropout's x, from the gradient of its result."""
    # TODO(fusion): the derivative is scale where an element was kept and 0 where it was dropped. Which
    # ones that were, nobody has written down. As it stands, no gradient passes.
    return torch.zeros_like(grad)
